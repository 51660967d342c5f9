#include "compiler/transforms/testing.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(DceTest, NothingToDo) {
  EXPECT_EQ(Untouched("dce", R"(
%x = weft.Input() {dtype: f32, shape: [2]}
%y = Relu(%x)
%o = weft.Output(%y) {name: "y"})"),
            "");
}

TEST(DceTest, KeepsSideEffectsAndWhatTheyWaitFor) {
  EXPECT_EQ(Untouched("dce", R"(
%x = weft.Input() {dtype: f32, shape: [2]}
%unread = weft.Input() {dtype: f32, shape: [2]}
%w = weft.Variable() {dtype: f32, shape: [2]}
%spare = weft.Variable() {dtype: f32, shape: [2]}
%wait = Relu(%x)
%u = weft.Assign(%w, %x) control(%wait))"),
            "");
}

TEST(DceTest, RemovesChainsAndUnreadCounters) {
  PassRun run = RunPass("dce", R"(
%x = weft.Input() {dtype: f32, shape: [2]}
%c = weft.Counter() {rate: "micro"}
%r = weft.RandomUniform(%c) {dtype: f32, shape: [2]}
%a = Add(%x, %r)
%b = Neg(%a)
%y = Relu(%x)
%o = weft.Output(%y) {name: "y"})");
  EXPECT_TRUE(run.changed);
  EXPECT_EQ(run.body, R"(%x = weft.Input() {dtype: f32, shape: [2]}
%y = Relu(%x)
%o = weft.Output(%y) {name: "y"}
)");
}

}  // namespace
}  // namespace weft
