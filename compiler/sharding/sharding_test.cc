#include "compiler/sharding/sharding.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/sharding/lower.h"
#include "core/base/error.h"
#include "core/graph/channels.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"
#include "core/reference/gradient_check.h"
#include "core/reference/interpreter.h"
#include "core/reference/job_interpreter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

Mesh MeshOf(std::vector<MeshAxis> axes) {
  return Mesh::Create(std::move(axes)).value();
}

Graph Parse(const std::string& text) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

Value Named(const Graph& graph, const std::string& name) {
  const Node* node = graph.FindNode(name);
  EXPECT_NE(node, nullptr) << name;
  return node->output(0);
}

// Large enough for its products to be worth a message.
constexpr char kTwoLayers[] = R"(graph "g" {
%x = weft.Input() {dtype: f32, shape: [64, 256]}
%w1 = weft.Variable() {dtype: f32, shape: [256, 1024]}
%w2 = weft.Variable() {dtype: f32, shape: [1024, 256]}
%h = MatMul(%x, %w1)
%a = Relu(%h)
%y = MatMul(%a, %w2)
%o = weft.Output(%y) {name: "y"}
})";

ShardingSpec On(Mesh mesh) {
  ShardingSpec spec;
  spec.meshes = {std::move(mesh)};
  return spec;
}

std::string How(const Graph& graph, const Sharding& sharding,
                const std::string& node) {
  return ToString(sharding.nodes[graph.FindNode(node)->id()]);
}

std::vector<Graph> LowerAll(const Graph& whole, const ShardingSpec& spec,
                            const Sharding& sharding) {
  std::vector<Graph> out;
  for (int member = 0; member < spec.mesh().size(); ++member) {
    LoweringOptions options;
    options.member = member;
    absl::StatusOr<Graph> mine = LowerSharding(whole, spec, sharding, options);
    EXPECT_TRUE(mine.ok()) << mine.status();
    EXPECT_TRUE(VerifyGraph(*mine).ok()) << VerifyGraph(*mine);
    out.push_back(*std::move(mine));
  }
  std::vector<const Graph*> all;
  for (const Graph& g : out) all.push_back(&g);
  EXPECT_TRUE(MatchChannels(all).ok()) << MatchChannels(all);
  return out;
}

int Count(const Graph& graph, OpId op) {
  const std::vector<const Node*> nodes = graph.Nodes();
  return static_cast<int>(
      std::count_if(nodes.begin(), nodes.end(),
                    [op](const Node* node) { return node->Is(op); }));
}

// Every rank's outputs and its parts of variables are those of the whole.
void ExpectComputesTheWhole(const Graph& whole, const ShardingSpec& spec,
                            const Sharding& sharding) {
  Feeds feeds;
  uint64_t seed = 1;
  for (const Node* node : whole.Nodes()) {
    if (node->Is(OpId::kInput) || node->Is(OpId::kVariable)) {
      feeds[node->name()] = {Literal::FromDoubles(
          node->output_type(0),
          RandomLiteral(node->output_type(0).shape, seed++).ToDoubles())};
    }
  }
  const InterpretResult expected = Interpret(whole, feeds).value();
  const std::vector<Graph> graphs = LowerAll(whole, spec, sharding);
  std::vector<RankProgram> job(graphs.size());
  for (size_t m = 0; m < graphs.size(); ++m) {
    job[m].graph = &graphs[m];
    for (const auto& [name, values] : feeds) {
      const Value v = whole.FindNode(name)->output(0);
      job[m].feeds[name] = {LocalPart(values[0], sharding.of(v), spec.mesh(),
                                      static_cast<int>(m))};
    }
  }
  auto results = InterpretJob(job, JobOrder::kInOrder);
  ASSERT_TRUE(results.ok()) << results.status();
  const auto expect_near = [](const Literal& a, const Literal& b,
                              const std::string& what) {
    ASSERT_EQ(a.type(), b.type()) << what;
    const auto x = a.ToDoubles(), y = b.ToDoubles();
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(x[i], y[i], 1e-4) << what << " " << i;
    }
  };
  for (size_t m = 0; m < graphs.size(); ++m) {
    for (const auto& [name, values] : expected.outputs) {
      expect_near((*results)[m].outputs.at(name)[0], values[0], name);
    }
    for (const auto& [name, value] : expected.variables) {
      const Value v = whole.FindNode(name)->output(0);
      expect_near(
          (*results)[m].variables.at(name),
          LocalPart(value, sharding.of(v), spec.mesh(), static_cast<int>(m)),
          name);
    }
  }
}

// A column split asks for a row split of what follows: one sum in all.
TEST(Sharding, AColumnSplitIsFollowedByARowSplit) {
  const Graph graph = Parse(kTwoLayers);
  ShardingSpec spec = On(MeshOf({{"model", 4}}));
  spec.constraints = {{Named(graph, "w1"), 0, Sbp::Split(1), "test"}};
  absl::StatusOr<Sharding> sharding = ChooseSharding(graph, spec);
  ASSERT_TRUE(sharding.ok()) << sharding.status();
  EXPECT_EQ(How(graph, *sharding, "h"), "B, S(1) -> S(1)");
  EXPECT_EQ(How(graph, *sharding, "a"), "S(1) -> S(1)");
  EXPECT_EQ(How(graph, *sharding, "w2"), "-> S(0)");
  EXPECT_EQ(How(graph, *sharding, "y"), "S(1), S(0) -> P(sum)");
  EXPECT_THAT(sharding->why[graph.FindNode("y")->id()],
              HasSubstr("S(1), S(0) -> P(sum), "));
  ExpectComputesTheWhole(graph, spec, *sharding);
}

TEST(Sharding, WhatNobodySaysIsChosenByCost) {
  const Graph graph = Parse(kTwoLayers);
  // Messages are nearly free: work is shared.
  ShardingSpec spec = On(MeshOf({{"model", 2}}));
  spec.topology.in_host = {1e-9, 1e-9, 1e12};
  spec.rate.collective_s = 0;
  Sharding shared = ChooseSharding(graph, spec).value();
  EXPECT_NE(How(graph, shared, "h"), "B, B -> B");
  ExpectComputesTheWhole(graph, spec, shared);
  // They take a second each: everybody does everything.
  spec.topology.in_host = {1, 1, 1e9};
  Sharding alone = ChooseSharding(graph, spec).value();
  EXPECT_EQ(How(graph, alone, "h"), "B, B -> B");
  EXPECT_EQ(Count(LowerAll(graph, spec, alone)[1], OpId::kSend), 0);
}

constexpr char kDecoded[] = R"(graph "g" {
%x = weft.Input() {dtype: u8, shape: [128, 784]}
%f = Cast(%x) {to: f32}
%scale = Constant() {value: tensor(f32[], [0.5])}
%m = Mul(%f, %scale)
%a = Add(%m, %scale)
%w = weft.Variable() {dtype: f32, shape: [784, 512]}
%y = MatMul(%a, %w)
%s = ReduceSum(%y) {keepdims: 0}
%o = weft.Output(%s) {name: "s"}
})";

// Whoever needs all images decodes all, where passes are faster than a gather;
// the two passes that become one region count as one.
TEST(Sharding, DataAreDecodedByAllWhoReadThem) {
  const Graph graph = Parse(kDecoded);
  ShardingSpec spec = On(MeshOf({{"model", 2}}));
  spec.topology.mapped_bytes = 4097;
  spec.constraints = {{Named(graph, "w"), 0, Sbp::Split(1), "test"}};
  const auto how = [&](const std::string& node) {
    return How(graph, ChooseSharding(graph, spec).value(), node);
  };
  EXPECT_EQ(how("y"), "B, S(1) -> S(1)");
  EXPECT_EQ(how("f"), "B -> B");
  EXPECT_EQ(how("a"), "B, B -> B");
  spec.rate.bytes_per_s = 2e10;
  EXPECT_EQ(how("y"), "B, S(1) -> S(1)");
  EXPECT_EQ(how("f"), "S(0) -> S(0)");
}

TEST(Sharding, TwoAxes) {
  const Graph graph = Parse(kTwoLayers);
  ShardingSpec spec = On(MeshOf({{"rows", 2}, {"columns", 2}}));
  spec.constraints = {{Named(graph, "w1"), 0, Sbp::Split(0), "test"},
                      {Named(graph, "w1"), 1, Sbp::Split(1), "test"},
                      {Named(graph, "a"), 0, Sbp::Split(0), "test"}};
  absl::StatusOr<Sharding> sharding = ChooseSharding(graph, spec);
  ASSERT_TRUE(sharding.ok()) << sharding.status();
  EXPECT_EQ(How(graph, *sharding, "w1"), "-> (S(0), S(1))");
  EXPECT_EQ(ToString(sharding->of(Named(graph, "a"))), "(S(0), B)");
  ExpectComputesTheWhole(graph, spec, *sharding);
}

// Of a value that is not state, its readers get what the user says.
TEST(Sharding, AValueIsGivenAsTheUserSays) {
  const Graph graph = Parse(kTwoLayers);
  for (const std::string how : {"B", "S(0)", "S(1)", "P(sum)", "P(max)"}) {
    ShardingSpec spec = On(MeshOf({{"model", 2}}));
    spec.constraints = {{Named(graph, "h"), 0, ParseSbp(how).value(), "test"}};
    absl::StatusOr<Sharding> sharding = ChooseSharding(graph, spec);
    ASSERT_TRUE(sharding.ok()) << sharding.status();
    EXPECT_EQ(ToString(sharding->of(Named(graph, "h"))), how);
    ExpectComputesTheWhole(graph, spec, *sharding);
  }
}

constexpr char kUpdated[] = R"(graph "g" {
%x = weft.Input() {dtype: f32, shape: [4, 6]}
%w = weft.Variable() {dtype: f32, shape: [4, 6]}
%m = weft.Variable() {dtype: f32, shape: [4, 6]}
%rate = Constant() {value: tensor(f32[], [0.5])}
%u = weft.MomentumUpdate(%w, %m, %x, %rate) {momentum: 0.5}
%s = ReduceSum(%w) {keepdims: 0}
%o = weft.Output(%s) {name: "s"}
})";

TEST(Sharding, StateThatIsUpdatedTogetherLiesAlike) {
  const Graph graph = Parse(kUpdated);
  ShardingSpec spec = On(MeshOf({{"data", 2}}));
  spec.constraints = {{Named(graph, "w"), 0, Sbp::Split(1), "test"}};
  absl::StatusOr<Sharding> sharding = ChooseSharding(graph, spec);
  ASSERT_TRUE(sharding.ok()) << sharding.status();
  EXPECT_EQ(How(graph, *sharding, "m"), "-> S(1)");
  ExpectComputesTheWhole(graph, spec, *sharding);
}

void ExpectRefused(const Graph& graph, const ShardingSpec& spec, ErrorCode code,
                   const std::vector<std::string>& parts) {
  const absl::Status status = ChooseSharding(graph, spec).status();
  EXPECT_TRUE(IsError(status, code)) << status;
  for (const std::string& part : parts) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

// On three axes, with splits in groups, an update has more ways than are looked
// at; those that split most are the cheapest. The user's must be among them.
TEST(Sharding, AnUpdateFollowsItsStateHoweverManyWaysThereAre) {
  const Graph graph = Parse(R"(graph "g" {
%w = weft.Variable() {dtype: f32, shape: [24, 24]}
%other = weft.Variable() {dtype: f32, shape: [24, 24]}
%g = Tanh(%other)
%rate = Constant() {value: tensor(f32[], [0.5])}
%u = weft.SgdUpdate(%w, %g, %rate)
})");
  ShardingSpec spec = On(MeshOf({{"a", 2}, {"b", 2}, {"c", 2}}));
  const Value w = Named(graph, "w");
  spec.constraints = {{w, 0, Sbp::Split(0), "w"},
                      {w, 2, Sbp::Broadcast(), "w"},
                      {Named(graph, "other"), 0, Sbp::Split(1, 3), "other"}};
  auto sharding = ChooseSharding(graph, spec);
  ASSERT_TRUE(sharding.ok()) << sharding.status();
  EXPECT_EQ(sharding->of(w)[0], Sbp::Split(0));
  EXPECT_EQ(sharding->of(w)[2], Sbp::Broadcast());
  ExpectComputesTheWhole(graph, spec, *sharding);
}

TEST(Sharding, ContradictionsNameBothSides) {
  const Graph graph = Parse(kTwoLayers);
  ShardingSpec spec = On(MeshOf({{"model", 2}}));
  const Value w1 = Named(graph, "w1");
  spec.constraints = {{w1, 0, Sbp::Split(1), "line 3"},
                      {w1, 0, Sbp::Split(0), "line 7"}};
  ExpectRefused(graph, spec, ErrorCode::kBadValue,
                {"'w1'", "S(1) by line 3", "S(0) by line 7", "'model'"});
  spec.constraints = {{w1, 0, Sbp::Partial(), "line 3"}};
  ExpectRefused(graph, spec, ErrorCode::kBadValue, {"'w1' cannot be P(sum)"});
}

TEST(Sharding, StateThatCannotLieAlikeIsRefusedWithBothSides) {
  const Graph graph = Parse(kUpdated);
  ShardingSpec spec = On(MeshOf({{"data", 2}}));
  for (const std::string other : {"S(0)", "B"}) {
    spec.constraints = {
        {Named(graph, "w"), 0, Sbp::Split(1), "line 3"},
        {Named(graph, "m"), 0, ParseSbp(other).value(), "line 7"}};
    ExpectRefused(graph, spec, ErrorCode::kBadValue,
                  {"'w' and 'm'", "S(1) by line 3", other + " by line 7"});
  }
  spec.constraints = {{Named(graph, "u"), 0, Sbp::Split(1), "line 3"}};
  ExpectRefused(graph, spec, ErrorCode::kBadValue,
                {"line 3", "'u' is what an update leaves in 'w'"});
}

TEST(Sharding, ASplitThatDoesNotDivideIsRefusedByName) {
  const Graph graph = Parse(kTwoLayers);
  ShardingSpec spec = On(MeshOf({{"model", 3}}));
  spec.constraints = {{Named(graph, "w1"), 0, Sbp::Split(1), "line 3"}};
  ExpectRefused(graph, spec, ErrorCode::kShapeMismatch,
                {"line 3", "'w1'", "'model'", "3 pieces", "1024"});
  spec.constraints = {{Named(graph, "h"), 0, Sbp::Split(2), "line 3"}};
  ExpectRefused(graph, spec, ErrorCode::kShapeMismatch,
                {"'h'", "dimension 2", "has 2"});
}

// Gathered for each reader, once for all that it reads of it.
TEST(Sharding, AReaderMayReadAVariableTwice) {
  const Graph graph = Parse(R"(graph "g" {
%x = weft.Input() {dtype: f32, shape: [2, 4]}
%w = weft.Variable() {dtype: f32, shape: [4]}
%n = LayerNormalization(%x, %w, %w)
%y = Mul(%n, %w)
%s = weft.Accumulate(%y) {count: 2}
%o = weft.Output(%s) {name: "s"}
})");
  ShardingSpec spec = On(MeshOf({{"data", 2}}));
  spec.shares_micro_batches = true;
  spec.micro_batches = 2;
  spec.constraints = {{Named(graph, "w"), 0, Sbp::Split(0), "test"}};
  const Sharding sharding = ChooseSharding(graph, spec).value();
  std::vector<Graph> graphs;
  std::vector<const Graph*> all;
  for (int member : {0, 1}) {
    LoweringOptions options;
    options.member = member;
    options.gather_each_use = true;
    graphs.push_back(LowerSharding(graph, spec, sharding, options).value());
  }
  for (const Graph& g : graphs) all.push_back(&g);
  EXPECT_TRUE(MatchChannels(all).ok()) << MatchChannels(all);
  // Two readers, and the sum.
  EXPECT_EQ(Count(graphs[0], OpId::kRecv), 3);
}

TEST(Sharding, MicroBatchesAreNoValueToSplit) {
  const Graph graph = Parse(R"(graph "g" {
%x = weft.Input() {dtype: f32, shape: [4]}
%s = weft.Accumulate(%x) {count: 4}
%o = weft.Output(%s) {name: "s"}
})");
  ShardingSpec spec = On(MeshOf({{"data", 2}}));
  spec.shares_micro_batches = true;
  spec.micro_batches = 4;
  spec.constraints = {{Named(graph, "x"), 0, Sbp::Split(0), "line 3"}};
  ExpectRefused(graph, spec, ErrorCode::kBadValue, {"line 3", "'x'", "'data'"});
}

}  // namespace
}  // namespace weft
