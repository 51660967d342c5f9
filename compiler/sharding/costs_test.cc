// What a node is taken to cost: on a mesh of one member, so that no choice
// changes it.
#include <algorithm>
#include <string>

#include "compiler/sharding/sharding.h"
#include "core/graph/text.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

constexpr double kFast = 1e30;

class CostsTest : public testing::Test {
 protected:
  CostsTest() { spec_.meshes = {Mesh::Create({{"model", 1}}).value()}; }

  void Build(const std::string& statements) {
    graph_ = ParseGraph("graph \"g\" {" + statements + "\n}").value();
  }
  double SecondsOf(const std::string& node, const ComputeRate& rate) {
    spec_.rate = rate;
    const auto sharding = ChooseSharding(graph_, spec_);
    EXPECT_TRUE(sharding.ok()) << sharding.status();
    return sharding->nodes[graph_.FindNode(node)->id()].seconds;
  }
  double BytesOf(const std::string& node) {
    return SecondsOf(node, {kFast, kFast, 1, 0});
  }

  Graph graph_{"g"};
  ShardingSpec spec_;
};

TEST_F(CostsTest, FlopsOrBytesWhicheverIsMore) {
  Build(R"(
%x = weft.Input() {dtype: f32, shape: [8, 16]}
%w = weft.Variable() {dtype: f32, shape: [16, 4]}
%y = MatMul(%x, %w)
%s = Softmax(%y)
%o = weft.Output(%s) {name: "s"})");
  const double flops = 2 * 8 * 16 * 4, bytes = 4 * (8 * 16 + 16 * 4 + 8 * 4);
  EXPECT_DOUBLE_EQ(SecondsOf("y", {1, kFast, kFast, 0}), flops);
  EXPECT_DOUBLE_EQ(BytesOf("y"), bytes);
  EXPECT_DOUBLE_EQ(SecondsOf("y", {1, kFast, 1, 0}), std::max(flops, bytes));
  EXPECT_DOUBLE_EQ(SecondsOf("y", {8, kFast, 1, 0}), bytes);
  // Of what is no product, by a rate of its own.
  const double others = SecondsOf("s", {kFast, 1, kFast, 0});
  EXPECT_GE(others, 8 * 4);
  EXPECT_DOUBLE_EQ(SecondsOf("s", {1, 2, kFast, 0}), others / 2);
}

TEST_F(CostsTest, WhatStaysWithinAFusedRegionMovesNoBytes) {
  Build(R"(
%x = weft.Input() {dtype: f32, shape: [256]}
%a = Neg(%x)
%b = Abs(%a)
%alone = Neg(%x)
%o = weft.Output(%b) {name: "b"}
%p = weft.Output(%alone) {name: "alone"})");
  EXPECT_DOUBLE_EQ(BytesOf("a"), 4 * 256) << "x is read";
  EXPECT_DOUBLE_EQ(BytesOf("b"), 4 * 256) << "b is written";
  EXPECT_DOUBLE_EQ(BytesOf("alone"), 2 * 4 * 256) << "no two nodes";
}

TEST_F(CostsTest, WhatIsNotFusedMovesItsBytes) {
  Build(R"(
%x = weft.Input() {dtype: u8, shape: [256]}
%cast = Cast(%x) {to: f32}
%a = Neg(%cast)
%b = Abs(%a)
%c = Exp(%a)
%d = ReduceSum(%c) {keepdims: 0}
%o = weft.Output(%b) {name: "b"}
%p = weft.Output(%d) {name: "d"})");
  EXPECT_DOUBLE_EQ(BytesOf("cast"), (1 + 4) * 256) << "from integers";
  EXPECT_DOUBLE_EQ(BytesOf("a"), 2 * 4 * 256) << "two read it";
  EXPECT_DOUBLE_EQ(BytesOf("c"), 2 * 4 * 256) << "a sum reads it";
}

TEST_F(CostsTest, RenamedBytesCostNothing) {
  Build(R"(
%x = weft.Input() {dtype: f32, shape: [8, 4]}
%y = Reshape(%x) {shape: [32]}
%o = weft.Output(%y) {name: "y"})");
  EXPECT_EQ(SecondsOf("y", {1, 1, 1, 0}), 0);
}

// Layers that are alike are priced once.
TEST_F(CostsTest, OneOpOfOtherTypesCostsSomethingElse) {
  Build(R"(
%x = weft.Input() {dtype: f32, shape: [8, 16]}
%v = weft.Variable() {dtype: f32, shape: [16, 16]}
%w = weft.Variable() {dtype: f32, shape: [16, 16]}
%u = weft.Variable() {dtype: f32, shape: [16, 4]}
%a = MatMul(%x, %v)
%b = MatMul(%a, %w)
%c = MatMul(%b, %u)
%o = weft.Output(%c) {name: "c"})");
  const ComputeRate rate = {1, kFast, kFast, 0};
  EXPECT_DOUBLE_EQ(SecondsOf("a", rate), 2 * 8 * 16 * 16);
  EXPECT_DOUBLE_EQ(SecondsOf("b", rate), 2 * 8 * 16 * 16);
  EXPECT_DOUBLE_EQ(SecondsOf("c", rate), 2 * 8 * 16 * 4);
}

}  // namespace
}  // namespace weft
