#include "compiler/transforms/pool_first.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/transforms/testing.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

constexpr char kInput[] =
    "%x = weft.Input() {dtype: f32, shape: [2, 3, 7, 8]}\n";

TEST(PoolFirstTest, ChangesPlaces) {
  PassRun run = RunPass("pool_first", std::string(kInput) + R"(
%r = Relu(%x)
%p = MaxPool(%r) {kernel_shape: [2,2], strides: [2,2]}
%o = weft.Output(%p) {name: "y"})");
  EXPECT_TRUE(run.changed);
  EXPECT_EQ(run.body, absl::StrCat(kInput, R"(%p/moved = MaxPool(%x) )",
                                   R"({kernel_shape: [2, 2], strides: [2, 2]}
%r/moved = Relu(%p/moved)
%o = weft.Output(%r/moved) {name: "y"}
)"));
}

TEST(PoolFirstTest, KeepsResults) {
  // Windows that overlap, and one that leaves a row over.
  for (const char* pool :
       {"{kernel_shape: [2,2], strides: [2,2]}",
        "{kernel_shape: [3,2], strides: [1,1]}", "{kernel_shape: [1,1]}"}) {
    ExpectSameResults("pool_first",
                      std::string(kInput) + "%r = Relu(%x)\n%p = MaxPool(%r) " +
                          pool + "\n%o = weft.Output(%p) {name: \"y\"}");
  }
}

TEST(PoolFirstTest, LeavesAlone) {
  for (const char* body : {
           // another reader of Relu
           "%r = Relu(%x)\n%p = MaxPool(%r) {kernel_shape: [2,2]}\n"
           "%o = weft.Output(%r) {name: \"y\"}",
           // another function, another pool
           "%r = Abs(%x)\n%p = MaxPool(%r) {kernel_shape: [2,2]}",
           "%r = Relu(%x)\n%p = AveragePool(%r) {kernel_shape: [2,2]}",
           // windows that may lie in the padding
           "%r = Relu(%x)\n"
           "%p = MaxPool(%r) {kernel_shape: [2,2], pads: [1,1,1,1]}",
           "%r = Relu(%x)\n"
           "%p = MaxPool(%r) {ceil_mode: 1, kernel_shape: [2,2]}",
           // other places, an order
           "%r = Relu(%x) device(\"cpu:0\")\n"
           "%p = MaxPool(%r) {kernel_shape: [2,2]}",
           "%r = Relu(%x)\n%p = MaxPool(%r) {kernel_shape: [2,2]} control(%x)",
       }) {
    EXPECT_EQ(Untouched("pool_first", std::string(kInput) + body), "") << body;
  }
}

}  // namespace
}  // namespace weft
