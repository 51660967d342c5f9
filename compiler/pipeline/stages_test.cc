#include "compiler/pipeline/stages.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/graph/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Graph Parse(const std::string& body) {
  auto graph = ParseGraph(absl::StrCat("graph \"g\" {\n", body, "\n}"));
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

// Products of `widths`: each costs as much as it is wide.
Graph Products(const std::vector<int>& widths) {
  std::string body = "%x = weft.Input() {dtype: f32, shape: [4, 1]}\n";
  std::string last = "x";
  int k = 1;
  for (size_t i = 0; i < widths.size(); ++i) {
    absl::StrAppend(&body, "%w", i, " = weft.Variable() {dtype: f32, shape: [",
                    k, ", ", widths[i], "]}\n%y", i, " = MatMul(%", last,
                    ", %w", i, ")\n");
    last = absl::StrCat("y", i);
    k = widths[i];
  }
  return Parse(body);
}

std::vector<int> StagesOf(const Graph& graph, const std::string& prefix,
                          int n) {
  std::vector<int> out;
  for (int i = 0; i < n; ++i) {
    out.push_back(graph.FindNode(absl::StrCat(prefix, i))->stage);
  }
  return out;
}

TEST(StagesTest, PartsCostAboutTheSame) {
  Graph even = Products({8, 8, 8, 8, 8, 8, 8});
  ASSERT_TRUE(CutIntoStages(3, &even).ok());
  EXPECT_THAT(StagesOf(even, "y", 7), ElementsAre(0, 0, 0, 1, 1, 2, 2));
  // A variable is where it is read.
  EXPECT_THAT(StagesOf(even, "w", 7), ElementsAre(0, 0, 0, 1, 1, 2, 2));
  EXPECT_EQ(even.FindNode("x")->stage, 0);
  // One dear product in the middle: 1*100, 100*100, 100*1, ...
  Graph uneven = Products({100, 100, 1, 100, 1});
  ASSERT_TRUE(CutIntoStages(3, &uneven).ok());
  EXPECT_EQ(uneven.FindNode("y0")->stage, 0);
  EXPECT_EQ(uneven.FindNode("y1")->stage, 1);
  EXPECT_EQ(uneven.FindNode("y4")->stage, 2);
}

TEST(StagesTest, EveryStageHasWork) {
  Graph graph = Products({1000, 1, 1, 1});
  ASSERT_TRUE(CutIntoStages(4, &graph).ok());
  EXPECT_THAT(StagesOf(graph, "y", 4), ElementsAre(0, 1, 2, 3));
  const absl::Status status = CutIntoStages(5, &graph);
  EXPECT_TRUE(IsError(status, ErrorCode::kBadJob)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("pipeline.stages is 5, but model 'g' has 4 nodes with "
                        "work to share"));
}

TEST(StagesTest, ValuesOnlyGoForward) {
  Graph graph = Parse(R"(
    %x = weft.Input() {dtype: f32, shape: [4, 4]}
    %v = weft.Variable() {dtype: f32, shape: [4, 4]}
    %t = Transpose(%v) {perm: [1, 0]}
    %a = MatMul(%x, %t)
    %b = MatMul(%a, %a)
    %c = Add(%a, %b)
    %d = MatMul(%c, %t))");
  ASSERT_TRUE(CutIntoStages(3, &graph).ok());
  EXPECT_TRUE(CheckStagesFlow(graph).ok());
  // Read in two stages: with the first.
  EXPECT_EQ(graph.FindNode("d")->stage, 2);
  EXPECT_EQ(graph.FindNode("t")->stage, 0);
  EXPECT_EQ(graph.FindNode("v")->stage, 0);
  graph.FindNode("b")->stage = 0;
  graph.FindNode("a")->stage = 2;
  const absl::Status status = CheckStagesFlow(graph);
  EXPECT_TRUE(IsError(status, ErrorCode::kBadJob)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("'b' of stage 0 reads 'a' of stage 2"));
}

TEST(StagesTest, GradientsLeadBack) {
  Graph graph = Parse(R"(
    %x = weft.Input() {dtype: f32, shape: [4]}
    %a = Neg(%x) stage(0)
    %b = Neg(%a) stage(2)
    %gb = Neg(%b) stage(2)
    %ga = Neg(%gb) stage(0)
    %loss = Neg(%gb))");
  MirrorStages(graph.FindNode("gb")->id(), &graph);
  EXPECT_EQ(graph.FindNode("b")->stage, 2);
  EXPECT_EQ(graph.FindNode("gb")->stage, 3);
  EXPECT_EQ(graph.FindNode("ga")->stage, 5);
  EXPECT_EQ(graph.FindNode("loss")->stage, -1);
}

}  // namespace
}  // namespace weft
