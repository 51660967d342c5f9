#include "compiler/placement/placement.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "compiler/memory/state_layout.h"
#include "compiler/rates/rates.h"
#include "compiler/testing/fake_oracle.h"
#include "core/base/error.h"
#include "core/graph/text.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Role = PlacedNode::Role;

Graph Parse(absl::string_view text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph("broken");
}

absl::StatusOr<Placement> Place(absl::string_view text, FakeOracle& oracle,
                                uint32_t default_device, bool strict = false) {
  static const std::vector<plan::Device>* devices =
      new std::vector<plan::Device>{HostDevice(), PrivateDevice("sim:0")};
  Graph graph = Parse(text);
  PlacementOptions options;
  options.devices = *devices;
  options.default_device = default_device;
  options.strict = strict;
  auto state = PlanState({&graph}, *devices, (*devices)[default_device].name());
  if (!state.ok()) return state.status();
  CapabilityCache cache(&oracle);
  return PlaceNodes(std::move(graph), options, *state, &cache);
}

const PlacedNode& At(const Placement& placement, absl::string_view name) {
  static const PlacedNode* none = new PlacedNode;
  const Node* node = placement.graph.FindNode(name);
  EXPECT_NE(node, nullptr) << name;
  return node == nullptr ? *none : placement.nodes[node->id()];
}

constexpr char kSoftmax[] = R"(graph "g" {
  %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [2], dims: [2, 4]}
  %y = Softmax(%x)
  %o = weft.Output(%y) {name: "y"}
})";

TEST(PlacementTest, CompositeStaysWholeWhereTheDeviceHasIt) {
  FakeOracle oracle;
  oracle.Allow(1, OpId::kSoftmax);
  auto placed = Place(kSoftmax, oracle, 1);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(At(*placed, "y").device, 1u);
  EXPECT_EQ(At(*placed, "y").reason, "");
}

TEST(PlacementTest, CompositeIsDecomposedWhereTheDeviceHasAllParts) {
  class NoSoftmax : public CapabilityOracle {
   public:
    MatchAnswer Match(uint32_t device, const plan::Kernel& kernel) override {
      MatchAnswer answer;
      answer.supported =
          device == 0 || kernel.op() != static_cast<uint32_t>(OpId::kSoftmax);
      return answer;
    }
  } parts;
  Graph graph = Parse(kSoftmax);
  std::vector<plan::Device> devices = {HostDevice(), PrivateDevice("sim:0")};
  PlacementOptions options;
  options.devices = devices;
  options.default_device = 1;
  CapabilityCache cache(&parts);
  auto placed = PlaceNodes(std::move(graph), options, StateLayout(), &cache);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->graph.FindNode("y"), nullptr);
  int parts_on_sim = 0;
  for (const Node* node : std::as_const(placed->graph).Nodes()) {
    const PlacedNode& p = placed->nodes[node->id()];
    if (p.role != Role::kCompute) continue;
    EXPECT_EQ(p.device, 1u) << node->name();
    EXPECT_FALSE(node->Is(OpId::kSoftmax));
    ++parts_on_sim;
  }
  EXPECT_GE(parts_on_sim, 3);
}

TEST(PlacementTest, NothingIsDecomposedForADeviceWithoutKernels) {
  FakeOracle oracle;
  auto placed = Place(kSoftmax, oracle, 1);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(At(*placed, "y").device, 0u);
  EXPECT_TRUE(absl::StrContains(At(*placed, "y").reason, "host fallback"));
}

TEST(PlacementTest, NoKernelNamesOpNodeAndDevices) {
  FakeOracle oracle;
  oracle.Deny(OpId::kErf);
  auto placed = Place(R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [1], dims: [4]}
    %odd = Erf(%x)
    %o = weft.Output(%odd) {name: "y"}
  })",
                      oracle, 1);
  ASSERT_TRUE(IsError(placed.status(), ErrorCode::kNoKernel))
      << placed.status();
  for (const char* part : {"Erf", "'odd'", "sim:0", "cpu:0", "f32[4]"}) {
    EXPECT_TRUE(absl::StrContains(placed.status().message(), part))
        << part << ": " << placed.status();
  }
  auto strict = Place(kSoftmax, oracle, 1, /*strict=*/true);
  EXPECT_TRUE(IsError(strict.status(), ErrorCode::kNoKernel));
  EXPECT_TRUE(absl::StrContains(strict.status().message(), "strict"));
}

// A Dropout of a model is its operand.
TEST(PlacementTest, WhatIsNothingButItsOperandNeedsNoKernel) {
  FakeOracle oracle;
  oracle.Allow(1, OpId::kNeg);
  const auto place = [&](absl::string_view more) {
    return Place(absl::StrCat(R"(graph "g" {
      %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [1], dims: [4]}
      %a = Neg(%x)
      %b = Dropout(%a) {ratio: 0.5}
)",
                              more, "}"),
                 oracle, 1, /*strict=*/true);
  };
  auto placed = place(R"(
    %c = Neg(%b)
    %s = weft.Send(%b) {channel: "s", peer: 1}
    %o = weft.Output(%c) {name: "y"}
  )");
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->graph.FindNode("b"), nullptr);
  const Value operand = placed->graph.FindNode("a")->output(0);
  for (const char* reader : {"c", "s"}) {
    const Node* node = placed->graph.FindNode(reader);
    EXPECT_EQ(placed->Root(node->input(0)), operand) << reader;
  }
  // The session reads a register of its own, and edges need an act.
  for (const char* more : {R"(%o = weft.Output(%b) {name: "y"})",
                           R"(%c = Neg(%a) control(%b)
                              %o = weft.Output(%c) {name: "y"})"}) {
    const auto refused = place(more).status();
    EXPECT_TRUE(IsError(refused, ErrorCode::kNoKernel)) << refused;
  }
}

TEST(PlacementTest, UpdatesFollowTheirState) {
  FakeOracle oracle;
  oracle.AllowAll(1);
  auto placed = Place(R"(graph "g" {
    %w = weft.Variable() {dtype: f32, shape: [4]} device("cpu:0")
    %v = weft.Variable() {dtype: f32, shape: [4]}
    %k = Constant() {value: tensor(f32[4], splat(1.0))}
    %a = weft.Assign(%w, %k)
    %b = weft.Assign(%v, %k)
  })",
                      oracle, 1);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(At(*placed, "w").device, 0u);
  EXPECT_EQ(At(*placed, "a").device, 0u);
  EXPECT_EQ(At(*placed, "v").device, 1u);
  EXPECT_EQ(At(*placed, "b").device, 1u);
}

TEST(PlacementTest, UnknownDeviceNamesTheNode) {
  FakeOracle oracle;
  auto placed = Place(R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [1], dims: [4]}
    %y = Neg(%x) device("gpu:0")
  })",
                      oracle, 0);
  EXPECT_TRUE(IsError(placed.status(), ErrorCode::kDeviceNotFound));
  EXPECT_TRUE(absl::StrContains(placed.status().message(), "'y'"));
}

TEST(PlacementTest, QuestionsAreAskedOnce) {
  FakeOracle oracle;
  CapabilityCache cache(&oracle);
  plan::Kernel kernel;
  kernel.set_op(static_cast<uint32_t>(OpId::kNeg));
  EXPECT_TRUE(cache.Match(0, kernel).supported);
  EXPECT_TRUE(cache.Match(0, kernel).supported);
  EXPECT_FALSE(cache.Match(1, kernel).supported);
  EXPECT_EQ(oracle.questions, 2);
}

// ---- Rates ----

TEST(RatesTest, SectionsFollowMicroBatches) {
  Graph g = Parse(R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [1], dims: [4]}
    %w = weft.Variable() {dtype: f32, shape: [4]}
    %scaled = Neg(%w)
    %y = Mul(%x, %scaled)
    %sum = weft.Accumulate(%y) {count: 3}
    %c = weft.Counter()
    %lr = weft.LearningRate(%c) {base: 0.1}
    %up = weft.SgdUpdate(%w, %sum, %lr)
  })");
  auto rates = ClassifyRates(g, 3);
  ASSERT_TRUE(rates.ok()) << rates.status();
  auto section = [&](absl::string_view name) {
    return rates->section[g.FindNode(name)->id()];
  };
  EXPECT_EQ(section("scaled"), Section::kBefore);
  EXPECT_EQ(section("y"), Section::kMicro);
  EXPECT_EQ(section("sum"), Section::kMicro);
  EXPECT_EQ(section("lr"), Section::kAfter);
  EXPECT_EQ(section("up"), Section::kAfter);
  EXPECT_EQ(rates->Acts(*g.FindNode("sum")), 3);
  EXPECT_EQ(rates->Acts(*g.FindNode("up")), 1);

  auto wrong = ClassifyRates(g, 4);
  EXPECT_TRUE(IsError(wrong.status(), ErrorCode::kBadGraph));
  EXPECT_TRUE(absl::StrContains(wrong.status().message(), "'sum'"));
}

TEST(RatesTest, IllegalMixesAreNamed) {
  Graph update = Parse(R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [1], dims: [4]}
    %w = weft.Variable() {dtype: f32, shape: [4]}
    %up = weft.Assign(%w, %x)
  })");
  EXPECT_TRUE(ClassifyRates(update, 1).ok());
  auto direct = ClassifyRates(update, 2);
  EXPECT_TRUE(IsError(direct.status(), ErrorCode::kBadGraph));
  EXPECT_TRUE(absl::StrContains(direct.status().message(), "'up'"));

  Graph twice = Parse(R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [1], dims: [4]}
    %sum = weft.Accumulate(%x) {count: 2}
    %y = Sub(%x, %sum)
    %o = weft.Output(%y) {name: "y"}
  })");
  auto passes = ClassifyRates(twice, 2);
  EXPECT_TRUE(IsError(passes.status(), ErrorCode::kBadGraph));
  EXPECT_TRUE(absl::StrContains(passes.status().message(), "'y'"));

  Graph open = Parse(R"(graph "g" {
    %x = weft.Input() {dtype: f32, shape: [4]}
  })");
  auto unbound = ClassifyRates(open, 1);
  EXPECT_TRUE(IsError(unbound.status(), ErrorCode::kBadGraph));
  EXPECT_FALSE(ClassifyRates(update, 0).ok());
}

// What a pass hears is what placement does.
TEST(PlacementTest, RunsAsKernelWhereItIsNotTakenApart) {
  const std::vector<plan::Device> devices = {HostDevice(),
                                             PrivateDevice("sim:0")};
  Graph graph = Parse(kSoftmax);
  const Node& softmax = *graph.FindNode("y");
  auto runs = [&](FakeOracle& oracle, bool strict) {
    PlacementOptions options;
    options.devices = devices;
    options.default_device = 1;
    options.strict = strict;
    CapabilityCache cache(&oracle);
    return RunsAsKernel(graph, softmax, options, &cache);
  };
  FakeOracle nothing;  // on sim:0
  EXPECT_TRUE(runs(nothing, false)) << "the host has it";
  EXPECT_FALSE(runs(nothing, true));
  FakeOracle has;
  has.Allow(1, OpId::kSoftmax);
  EXPECT_TRUE(runs(has, true));
  class PartsAlone : public FakeOracle {
   public:
    MatchAnswer Match(uint32_t device, const plan::Kernel& kernel) override {
      MatchAnswer answer;
      answer.supported =
          device == 0 || kernel.op() != static_cast<uint32_t>(OpId::kSoftmax);
      return answer;
    }
  } parts;
  EXPECT_FALSE(runs(parts, false)) << "taken apart on sim:0";
}

}  // namespace
}  // namespace weft
