#include "compiler/placement/group_updates.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/memory/state_layout.h"
#include "compiler/testing/fake_oracle.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

// %a and %b are variables, %ga and %gb their gradients, of `dims` elements.
std::string Start(int64_t dims, absl::string_view where_b = "") {
  return absl::StrCat(R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [1], dims: [)",
                      dims, R"(]}
    %c = weft.Counter()
    %lr = weft.LearningRate(%c) {base: 0.1}
    %a = weft.Variable() {dtype: f32, shape: [)",
                      dims, R"(]}
    %b = weft.Variable() {dtype: f32, shape: [)",
                      dims, "]} ", where_b, R"(
    %ga = Neg(%x)
    %gb = Abs(%x)
)");
}

constexpr char kClipped[] = R"(
    %norm = weft.GlobalNorm(%ga, %gb)
    %scale = weft.ClipScale(%norm) {clip_norm: 1.0}
    %ua = weft.SgdUpdate(%a, %ga, %lr, %scale)
    %ub = weft.SgdUpdate(%b, %gb, %lr, %scale)
  })";
constexpr char kPlain[] = R"(
    %ua = weft.SgdUpdate(%a, %ga, %lr)
    %ub = weft.SgdUpdate(%b, %gb, %lr)
  })";

constexpr int64_t kLarge = 100000;
constexpr int64_t kSmall = 100;

class GroupUpdatesTest : public ::testing::Test {
 protected:
  // How many groups are made of the text's updates.
  int Group(const std::string& text, uint32_t default_device = 0) {
    auto graph = ParseGraph(text);
    EXPECT_TRUE(graph.ok()) << graph.status();
    static const auto* devices =
        new std::vector<plan::Device>{HostDevice(), PrivateDevice("sim:0")};
    auto state =
        PlanState({&*graph}, *devices, (*devices)[default_device].name());
    EXPECT_TRUE(state.ok()) << state.status();
    PlacementOptions options;
    options.devices = *devices;
    options.default_device = default_device;
    CapabilityCache cache(&oracle_);
    auto placed = PlaceNodes(*std::move(graph), options, *state, &cache);
    EXPECT_TRUE(placed.ok()) << placed.status();
    placement_ = *std::move(placed);
    auto groups = GroupUpdates(&placement_, &cache);
    EXPECT_TRUE(groups.ok()) << groups.status();
    EXPECT_TRUE(VerifyGraph(placement_.graph).ok())
        << VerifyGraph(placement_.graph);
    EXPECT_EQ(placement_.nodes.size(),
              static_cast<size_t>(placement_.graph.id_bound()));
    return groups.value_or(-1);
  }

  const Node* Find(absl::string_view name) const {
    return placement_.graph.FindNode(name);
  }

  FakeOracle oracle_;
  Placement placement_{Graph("none"), {}};
};

TEST_F(GroupUpdatesTest, NothingToDo) {
  EXPECT_EQ(Group(absl::StrCat(Start(kSmall), "}")), 0);
  EXPECT_EQ(Group(absl::StrCat(Start(kSmall), "%u = weft.Assign(%a, %ga)}")),
            0);
  EXPECT_NE(Find("u"), nullptr);
}

TEST_F(GroupUpdatesTest, GradientsThatWaitForEachOther) {
  oracle_.Answer(OpId::kSgdUpdate).in_place = 1;
  EXPECT_EQ(Group(absl::StrCat(Start(kLarge), kClipped)), 1);
  EXPECT_EQ(Find("ua"), nullptr);
  EXPECT_EQ(Find("ub"), nullptr);
  const Node* group = Find("ua..ub");
  ASSERT_NE(group, nullptr);
  std::string operands;
  for (Value v : group->inputs()) {
    absl::StrAppend(&operands, placement_.graph.ValueName(v), " ");
  }
  EXPECT_EQ(operands, "a b ga gb lr scale ");
  EXPECT_EQ(group->num_outputs(), 2);
  const PlacedNode& placed = placement_.nodes[group->id()];
  EXPECT_EQ(placed.role, PlacedNode::Role::kUpdate);
  EXPECT_EQ(placed.in_place, 1u);
  EXPECT_EQ(placed.kernel.inputs_size(), 6);
  EXPECT_EQ(group->provenance.back(),
            "group_updates: 'ua', 'ub' in one launch; their gradients live "
            "together anyway");
}

// Each large gradient may go as soon as its own update has acted.
TEST_F(GroupUpdatesTest, WithoutClippingOnlySmallOnes) {
  EXPECT_EQ(Group(absl::StrCat(Start(kLarge), kPlain)), 0);
  EXPECT_EQ(Group(absl::StrCat(Start(kSmall), kPlain)), 1);
  EXPECT_TRUE(absl::StrContains(Find("ua..ub")->provenance.back(), "small"));
}

TEST_F(GroupUpdatesTest, SmallOnesUpToALimit) {
  std::string text = Start(4096);  // 16 KiB each: four to a group
  for (int i = 0; i < 6; ++i) {
    absl::StrAppend(&text, "%v", i,
                    " = weft.Variable() {dtype: f32, shape: [4096]}\n%u", i,
                    " = weft.SgdUpdate(%v", i, ", %ga, %lr)\n");
  }
  EXPECT_EQ(Group(absl::StrCat(text, "}")), 2);
  EXPECT_NE(Find("u0..u3"), nullptr);
  EXPECT_NE(Find("u4..u5"), nullptr);
}

TEST_F(GroupUpdatesTest, NoMoreThanSixtyFourOperands) {
  std::string text = Start(kSmall);
  for (int i = 0; i < 40; ++i) {
    absl::StrAppend(
        &text, "%v", i, " = weft.Variable() {dtype: f32, shape: [2]}\n%h", i,
        " = weft.Variable() {dtype: f32, shape: [2]}\n%g", i,
        " = Reshape(%s) {shape: [2]}\n%u", i, " = weft.MomentumUpdate(%v", i,
        ", %h", i, ", %g", i, ", %lr) {momentum: 0.5}\n");
  }
  text.insert(text.find("%v0"),
              "%s = Slice(%ga) {starts: [0], ends: [2], axes: [0]}\n");
  EXPECT_EQ(Group(absl::StrCat(text, "}")), 2);
  EXPECT_EQ(Find("u0..u20")->inputs().size(), 64u);
  EXPECT_EQ(Find("u21..u39")->inputs().size(), 58u);
}

TEST_F(GroupUpdatesTest, DifferentAttributesStayApart) {
  EXPECT_EQ(Group(absl::StrCat(Start(kSmall), R"(
    %ua = weft.SgdUpdate(%a, %ga, %lr)
    %ub = weft.SgdUpdate(%b, %gb, %lr) {weight_decay: 0.5}
  })")),
            0);
  EXPECT_EQ(Group(absl::StrCat(Start(kSmall), R"(
    %ua = weft.SgdUpdate(%a, %ga, %lr)
    %ub = weft.EmaUpdate(%b, %gb) {momentum: 0.5}
  })")),
            0);
}

// The update of a would read b while the group changes it.
TEST_F(GroupUpdatesTest, ReadersOfVariablesStayAlone) {
  EXPECT_EQ(Group(absl::StrCat(Start(kSmall), R"(
    %ua = weft.EmaUpdate(%a, %b) {momentum: 0.5}
    %ub = weft.EmaUpdate(%b, %gb) {momentum: 0.5}
  })")),
            0);
}

TEST_F(GroupUpdatesTest, OtherDevicesStateAndKernelsStayAsTheyAre) {
  const std::string text = absl::StrCat(Start(kSmall), kClipped);
  // State on a device without kernels: the host works on copies.
  EXPECT_EQ(Group(text, 1), 0);
  oracle_.AllowAll(1);
  EXPECT_EQ(Group(text, 1), 1);
  EXPECT_EQ(
      Group(absl::StrCat(Start(kSmall, "device(\"cpu:0\")"), kClipped), 1), 0);
  oracle_.Limit(OpId::kSgdUpdate, 1);  // one variable at a time
  EXPECT_EQ(Group(text, 1), 0);
  EXPECT_EQ(placement_.nodes[Find("ua")->id()].device, 1u);
}

TEST_F(GroupUpdatesTest, AKernelWithAWorkspaceWouldTakeMoreMemory) {
  oracle_.Answer(OpId::kSgdUpdate).workspace_bytes = 64;
  EXPECT_EQ(Group(absl::StrCat(Start(kLarge), kClipped)), 0);
  EXPECT_NE(Find("ua"), nullptr);
}

}  // namespace
}  // namespace weft
