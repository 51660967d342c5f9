// Placement case by case: what a node asks for, what devices can do, and where
// it ends up. Ranks have theirs in compiler/partition/by_rank_test.cc.

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/memory/state_layout.h"
#include "compiler/placement/placement.h"
#include "compiler/testing/fake_oracle.h"
#include "core/base/error.h"
#include "core/graph/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using Role = PlacedNode::Role;

constexpr uint32_t kHost = 0, kSim0 = 1, kSim1 = 2;

std::vector<plan::Device> ThreeDevices() {
  return {HostDevice(), PrivateDevice("sim:0"), PrivateDevice("sim:1")};
}

// The host has all kernels, others what a test allows; the default is sim:0.
class PlacementCases : public ::testing::Test {
 protected:
  absl::StatusOr<Placement> Place(absl::string_view text, bool strict = false) {
    auto graph = ParseGraph(text);
    EXPECT_TRUE(graph.ok()) << graph.status();
    if (!graph.ok()) return graph.status();
    PlacementOptions options;
    options.devices = devices_;
    options.default_device = devices_.empty() ? 0 : kSim0;
    options.strict = strict;
    StateLayout state;
    if (!devices_.empty()) {
      auto planned = PlanState({&*graph}, devices_, devices_[kSim0].name());
      if (!planned.ok()) return planned.status();
      state = *std::move(planned);
    }
    CapabilityCache cache(&oracle_);
    return PlaceNodes(*std::move(graph), options, state, &cache);
  }

  // Where `node` is; what is said of it comes to `why`.
  uint32_t At(const absl::StatusOr<Placement>& placed, absl::string_view node,
              std::string* why = nullptr) {
    EXPECT_TRUE(placed.ok()) << placed.status();
    if (!placed.ok()) return ~0u;
    const Node* found = placed->graph.FindNode(node);
    EXPECT_NE(found, nullptr) << node;
    if (found == nullptr) return ~0u;
    if (why != nullptr) *why = placed->nodes[found->id()].reason;
    return placed->nodes[found->id()].device;
  }

  void ExpectRefused(const absl::Status& status, ErrorCode code,
                     const std::vector<std::string>& parts) {
    EXPECT_TRUE(IsError(status, code)) << status;
    for (const std::string& part : parts) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    }
  }

  std::vector<plan::Device> devices_ = ThreeDevices();
  FakeOracle oracle_;
};

// A node `y` that may ask for a device, between a source and an output.
std::string One(const std::string& op, const std::string& device,
                const std::string& more = "") {
  return R"(graph "g" {
  %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [1], dims: [4]}
  )" + more +
         "%y = " + op + (device.empty() ? "" : " device(\"" + device + "\")") +
         "\n  %o = weft.Output(%y) {name: \"y\"}\n}";
}

TEST_F(PlacementCases, NoConstraintIsTheDefaultDevice) {
  oracle_.AllowAll(kSim0);
  std::string why;
  EXPECT_EQ(At(Place(One("Neg(%x)", "")), "y", &why), kSim0);
  EXPECT_EQ(why, "");
}

TEST_F(PlacementCases, AlreadyAssignedStays) {
  oracle_.AllowAll(kSim0);
  oracle_.AllowAll(kSim1);
  std::string why;
  EXPECT_EQ(At(Place(One("Neg(%x)", "sim:1")), "y", &why), kSim1);
  EXPECT_THAT(why, HasSubstr("as asked"));
  EXPECT_EQ(At(Place(One("Neg(%x)", "cpu:0")), "y"), kHost);
}

TEST_F(PlacementCases, PartialSpecificationIsTheFirstOfItsKind) {
  oracle_.AllowAll(kSim0);
  oracle_.AllowAll(kSim1);
  EXPECT_EQ(At(Place(One("Neg(%x)", "sim")), "y"), kSim0);
  EXPECT_EQ(At(Place(One("Neg(%x)", "cpu")), "y"), kHost);
}

// Devices of what computes in the place of `y`, which is gone.
std::set<uint32_t> DevicesOfParts(const absl::StatusOr<Placement>& placed) {
  std::set<uint32_t> out;
  EXPECT_TRUE(placed.ok()) << placed.status();
  if (!placed.ok()) return out;
  EXPECT_EQ(placed->graph.FindNode("y"), nullptr);
  for (const Node* node : placed->graph.Nodes()) {
    const PlacedNode& at = placed->nodes[node->id()];
    if (at.role == Role::kCompute) out.insert(at.device);
  }
  return out;
}

// A kernel of the device; its parts there; the host; its parts on both.
TEST_F(PlacementCases, KernelPriority) {
  const std::string relu = One("Relu(%x)", "");
  oracle_.AllowAll(kSim0);
  EXPECT_EQ(At(Place(relu), "y"), kSim0);

  oracle_.Limit(OpId::kRelu, 0);  // nobody has it
  EXPECT_EQ(DevicesOfParts(Place(relu)), std::set<uint32_t>{kSim0});

  oracle_ = FakeOracle();
  std::string why;
  EXPECT_EQ(At(Place(relu), "y", &why), kHost);
  EXPECT_THAT(why, HasSubstr("host fallback, sim:0 has no kernel for Relu"));

  oracle_.Deny(OpId::kRelu);
  EXPECT_EQ(DevicesOfParts(Place(relu)), std::set<uint32_t>{kHost});
}

// A device with kernels for f32 alone, as accelerators are.
TEST_F(PlacementCases, TypeConstraint) {
  class FloatsOnly : public CapabilityOracle {
   public:
    MatchAnswer Match(uint32_t device, const plan::Kernel& kernel) override {
      MatchAnswer answer;
      answer.supported =
          device == kHost ||
          (kernel.inputs_size() > 0 &&
           kernel.inputs(0).dtype() == static_cast<uint32_t>(DType::kF32));
      return answer;
    }
  } floats;
  Graph graph = ParseGraph(R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [1, 4], ranks: [1, 1], dims: [4, 4]} : f32[4], f64[4]
    %a = Neg(%x)
    %b = Neg(%x:1)
    %o = weft.Output(%a) {name: "a"}
    %p = weft.Output(%b) {name: "b"}
  })")
                    .value();
  ASSERT_EQ(graph.FindNode("x")->output_type(1).dtype, DType::kF64);
  PlacementOptions options;
  options.devices = devices_;
  options.default_device = kSim0;
  CapabilityCache cache(&floats);
  auto placed = PlaceNodes(std::move(graph), options, StateLayout(), &cache);
  EXPECT_EQ(At(placed, "a"), kSim0);
  EXPECT_EQ(At(placed, "b"), kHost);
}

// Shapes are known when a plan is made: what only renames bytes is no work, and
// is wherever its operand is.
TEST_F(PlacementCases, MetadataFollowsItsInput) {
  oracle_.AllowAll(kSim0);
  oracle_.AllowAll(kSim1);
  auto placed = Place(One("Neg(%r)", "sim:1", R"(%n = Neg(%x) device("sim:1")
  %r = Reshape(%n) {shape: [2, 2]}
  )"));
  ASSERT_TRUE(placed.ok()) << placed.status();
  const Node* view = placed->graph.FindNode("r");
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(placed->nodes[view->id()].role, Role::kView);
  const Value root = placed->Root(view->output(0));
  EXPECT_EQ(placed->graph.node(root)->name(), "n");
  EXPECT_EQ(placed->nodes[root.node].device, kSim1);
}

// What reads nothing goes to its readers, where these are on one device.
TEST_F(PlacementCases, GeneratorWithAgreeingConsumers) {
  oracle_.AllowAll(kSim0);
  oracle_.AllowAll(kSim1);
  const std::string graph = R"(graph "g" {
    %i = weft.Iota() {shape: [4], dtype: f32, axis: 0}
    %a = Neg(%i) device("sim:1")
    %b = Abs(%i) device("sim:1")
    %o = weft.Output(%a) {name: "a"}
    %p = weft.Output(%b) {name: "b"}
  })";
  std::string why;
  EXPECT_EQ(At(Place(graph), "i", &why), kSim1);
  EXPECT_THAT(why, HasSubstr("where its readers are"));
}

TEST_F(PlacementCases, GeneratorWithDisagreeingConsumers) {
  oracle_.AllowAll(kSim0);
  oracle_.AllowAll(kSim1);
  EXPECT_EQ(At(Place(R"(graph "g" {
    %i = weft.Iota() {shape: [4], dtype: f32, axis: 0}
    %a = Neg(%i) device("sim:1")
    %b = Abs(%i) device("cpu:0")
    %o = weft.Output(%a) {name: "a"}
    %p = weft.Output(%b) {name: "b"}
  })"),
               "i"),
            kSim0);
}

constexpr char kState[] = R"(graph "g" {
    %w = weft.Variable() {dtype: f32, shape: [4]} DEVICE
    %k = Constant() {value: tensor(f32[4], splat(1.0))}
    %up = weft.Assign(%w, %k) UPDATE
})";

std::string State(const std::string& variable, const std::string& update) {
  std::string text = kState;
  text.replace(text.find("DEVICE"), 6,
               variable.empty() ? "" : "device(\"" + variable + "\")");
  text.replace(text.find("UPDATE"), 6,
               update.empty() ? "" : "device(\"" + update + "\")");
  return text;
}

TEST_F(PlacementCases, StateMovesItsSet) {
  oracle_.AllowAll(kSim0);
  oracle_.AllowAll(kSim1);
  std::string why;
  auto placed = Place(State("sim:1", ""));
  EXPECT_EQ(At(placed, "w"), kSim1);
  EXPECT_EQ(At(placed, "up", &why), kSim1);
  EXPECT_THAT(why, HasSubstr("where its state lies"));
}

TEST_F(PlacementCases, ColocationValid) {
  oracle_.AllowAll(kSim1);
  auto placed = Place(State("sim:1", "sim:1"), /*strict=*/true);
  EXPECT_EQ(At(placed, "w"), kSim1);
  EXPECT_EQ(At(placed, "up"), kSim1);
}

// On one rank an update that is asked for elsewhere reads a copy of its state
// and ends in a write-back; between ranks it is refused (by_rank_test).
TEST_F(PlacementCases, MixedDeviceKindsInASet) {
  oracle_.AllowAll(kSim0);
  auto placed = Place(State("cpu:0", "sim:0"));
  EXPECT_EQ(At(placed, "w"), kHost);
  EXPECT_EQ(At(placed, "up"), kSim0);
}

TEST_F(PlacementCases, ColocationSoftFallsBackToAnotherDeviceOfTheRank) {
  std::string why;
  auto placed = Place(State("sim:1", ""));
  EXPECT_EQ(At(placed, "w"), kSim1);
  EXPECT_EQ(At(placed, "up", &why), kHost);
  EXPECT_THAT(why, HasSubstr("host fallback, sim:1 has no kernel"));
}

TEST_F(PlacementCases, ColocationHardIsAnError) {
  ExpectRefused(Place(State("sim:1", ""), /*strict=*/true).status(),
                ErrorCode::kNoKernel, {"'up'", "weft.Assign", "sim:1"});
}

// The host, and where that cannot either, whoever can.
TEST_F(PlacementCases, NoKernelLocalSoftFallsBack) {
  std::string why;
  EXPECT_EQ(At(Place(One("Erf(%x)", "sim:1")), "y", &why), kHost);
  EXPECT_THAT(why, HasSubstr("sim:1 has no kernel for Erf"));
  oracle_.Deny(OpId::kErf);
  oracle_.Allow(kSim1, OpId::kErf);
  EXPECT_EQ(At(Place(One("Erf(%x)", "sim:0")), "y", &why), kSim1);
  EXPECT_THAT(why, HasSubstr("sim:1"));
  EXPECT_THAT(why, HasSubstr("sim:0 has no kernel for Erf"));
}

// It says which devices there are and what they can do.
TEST_F(PlacementCases, NoKernelLocalHardListsTheDevices) {
  ExpectRefused(Place(One("Erf(%x)", "sim:1"), /*strict=*/true).status(),
                ErrorCode::kNoKernel,
                {"'y'", "Erf", "f32[4]", "strict", "cpu:0 has a kernel",
                 "sim:0 has none", "sim:1 has none"});
}

// Of another rank's node this one cannot tell; the rank itself will.
TEST_F(PlacementCases, NoKernelRemote) {
  oracle_.Allow(kSim0, OpId::kNeg);
  Graph graph = ParseGraph(One("Erf(%x)", "w1/sim:0")).value();
  PlacementOptions options;
  options.devices = devices_;
  options.default_device = kSim0;
  options.ranks = 2;
  options.strict = true;
  CapabilityCache cache(&oracle_);
  EXPECT_FALSE(RunsAsKernel(graph, *graph.FindNode("y"), options, &cache));
  options.strict = false;
  EXPECT_TRUE(RunsAsKernel(graph, *graph.FindNode("y"), options, &cache));
}

// A device that there is not is no wish that could be met half-way.
TEST_F(PlacementCases, MissingAcceleratorSoftAndHard) {
  for (bool strict : {false, true}) {
    ExpectRefused(Place(One("Neg(%x)", "gpu:0"), strict).status(),
                  ErrorCode::kDeviceNotFound,
                  {"'y'", "gpu:0", "cpu:0, sim:0, sim:1"});
  }
}

TEST_F(PlacementCases, NoDevices) {
  devices_.clear();
  ExpectRefused(Place(One("Neg(%x)", "cpu")).status(),
                ErrorCode::kDeviceNotFound, {"no devices"});
}

}  // namespace
}  // namespace weft
