#include "core/reference/interpreter.h"

#include "core/base/error.h"
#include "core/graph/text.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

Graph Parse(const std::string& body) {
  auto graph = ParseGraph("graph \"g\" {" + body + "}");
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph("broken");
}

Literal F(std::vector<float> values) {
  int64_t n = values.size();
  return Literal::Of<float>({n}, std::move(values));
}

TEST(InterpreterTest, OutputsAndUpdates) {
  Graph g = Parse(R"(
%x = weft.Input() {dtype: f32, shape: [2]}
%w = weft.Variable() {dtype: f32, shape: [2]}
%y = Mul(%x, %w)
%u = weft.Assign(%w, %y)
%o = weft.Output(%y) {name: "why"})");
  auto r = Interpret(g, {{"x", {F({1, 2})}}, {"w", {F({3, 4})}}});
  ASSERT_TRUE(r.ok()) << r.status();
  ASSERT_EQ(r->outputs.size(), 1u);
  EXPECT_TRUE(r->outputs["why"].at(0) == F({3, 8}));
  ASSERT_EQ(r->variables.size(), 1u);
  EXPECT_TRUE(r->variables["w"] == F({3, 8}));
}

TEST(InterpreterTest, MicroBatchesAccumulate) {
  Graph g = Parse(R"(
%x = weft.Input() {dtype: f32, shape: [1]}
%n = weft.Counter() {rate: "micro"}
%s = weft.Counter() {rate: "step"}
%w = weft.Variable() {dtype: f32, shape: [1]}
%y = Mul(%x, %w)
%a = weft.Accumulate(%y) {count: 3}
%u = weft.Assign(%w, %a)
%o = weft.Output(%y) {name: "y"}
%p = weft.Output(%n) {name: "n"}
%q = weft.Output(%s) {name: "s"})");
  std::vector<Feeds> micro = {
      {{"x", {F({1})}}}, {{"x", {F({2})}}}, {{"x", {F({4})}}}};
  Feeds step = {{"w", {F({10})}}, {"s", {Literal::Of<int64_t>({2}, {5, 0})}}};
  auto r = Interpret(g, step, micro);
  ASSERT_TRUE(r.ok()) << r.status();
  ASSERT_EQ(r->outputs["y"].size(), 3u);
  EXPECT_TRUE(r->outputs["y"][2] == F({40}));
  EXPECT_TRUE(r->outputs["n"][2] == Literal::Of<int64_t>({2}, {0, 2}));
  ASSERT_EQ(r->outputs["s"].size(), 1u);
  EXPECT_TRUE(r->outputs["s"][0] == Literal::Of<int64_t>({2}, {5, 0}));
  EXPECT_TRUE(r->variables["w"] == F({70}));
  // One micro-batch is another program.
  step["x"] = {F({1})};
  auto one = Interpret(g, step);
  EXPECT_EQ(ErrorCodeOf(one.status()), ErrorCode::kBadValue) << one.status();
}

TEST(InterpreterTest, FeedsAreChecked) {
  Graph g = Parse(R"(%x = weft.Input() {dtype: f32, shape: [2]}
%o = weft.Output(%x) {name: "x"})");
  absl::Status missing = Interpret(g, {}).status();
  EXPECT_EQ(ErrorCodeOf(missing), ErrorCode::kBadValue);
  EXPECT_NE(missing.message().find("'x'"), absl::string_view::npos);
  absl::Status wrong = Interpret(g, {{"x", {F({1, 2, 3})}}}).status();
  EXPECT_EQ(ErrorCodeOf(wrong), ErrorCode::kBadValue);
  EXPECT_NE(wrong.message().find("f32[2]"), absl::string_view::npos);
  EXPECT_NE(wrong.message().find("f32[3]"), absl::string_view::npos);
  EXPECT_EQ(ErrorCodeOf(Interpret(g, {{"x", {}}}).status()),
            ErrorCode::kBadValue);
}

}  // namespace
}  // namespace weft
