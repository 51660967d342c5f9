#include "compiler/transforms/mixed_precision.h"

#include <string>

#include "absl/strings/str_replace.h"
#include "compiler/transforms/testing.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

constexpr char kTwoLayers[] = R"(
%x = weft.Input() {dtype: f32, shape: [4, 3]}
%w1 = weft.Variable() {dtype: f32, shape: [5, 3]}
%b1 = weft.Variable() {dtype: f32, shape: [5]}
%w2 = weft.Variable() {dtype: f32, shape: [2, 5]}
%fc1 = Gemm(%x, %w1, %b1) {transB: 1}
%relu = Relu(%fc1)
%fc2 = Gemm(%relu, %w2) {transB: 1}
%soft = Softmax(%fc2)
%o = weft.Output(%soft) {name: "y"})";

TEST(MixedPrecisionTest, ProductsAndWhatFollowsThem) {
  PassRun run = RunPass("mixed_precision", kTwoLayers);
  EXPECT_TRUE(run.changed);
  EXPECT_EQ(run.body, R"(%x = weft.Input() {dtype: f32, shape: [4, 3]}
%w1 = weft.Variable() {dtype: f32, shape: [5, 3]}
%b1 = weft.Variable() {dtype: f32, shape: [5]}
%w2 = weft.Variable() {dtype: f32, shape: [2, 5]}
%x/to_bf16 = Cast(%x) {to: bf16}
%w1/to_bf16 = Cast(%w1) {to: bf16}
%b1/to_bf16 = Cast(%b1) {to: bf16}
%fc1/bf16 = Gemm(%x/to_bf16, %w1/to_bf16, %b1/to_bf16) {transB: 1}
%relu/bf16 = Relu(%fc1/bf16)
%w2/to_bf16 = Cast(%w2) {to: bf16}
%fc2/bf16 = Gemm(%relu/bf16, %w2/to_bf16) {transB: 1}
%fc2/bf16/to_f32 = Cast(%fc2/bf16) {to: f32}
%soft = Softmax(%fc2/bf16/to_f32)
%o = weft.Output(%soft) {name: "y"}
)");
}

TEST(MixedPrecisionTest, ResultsStayNear) {
  ExpectSameResults("mixed_precision", kTwoLayers, {}, 0.02);
}

// The same graph, with eight times the digits.
TEST(MixedPrecisionTest, F16IsASibling) {
  const Graph before = ParseBody(kTwoLayers);
  Graph f16 = before.Clone();
  ASSERT_TRUE(MixedPrecision(&f16, DType::kF16).value());
  EXPECT_EQ(absl::StrReplaceAll(Body(f16), {{"f16", "bf16"}}),
            RunPass("mixed_precision", kTwoLayers).body);
  ExpectSameResults(before, f16, 0.0025);
}

TEST(MixedPrecisionTest, ASumWithAnF32OperandIsF32) {
  PassRun run = RunPass("mixed_precision", R"(
%x = weft.Input() {dtype: f32, shape: [2, 2]}
%y = MatMul(%x, %x)
%half = Constant() {value: tensor(f32[], [0.5])}
%scaled = Mul(%y, %half)
%sum = Add(%x, %scaled)
%o = weft.Output(%sum) {name: "y"})");
  EXPECT_EQ(run.body, R"(%x = weft.Input() {dtype: f32, shape: [2, 2]}
%half = Constant() {value: tensor(f32[], [0.5])}
%x/to_bf16 = Cast(%x) {to: bf16}
%y/bf16 = MatMul(%x/to_bf16, %x/to_bf16)
%half/to_bf16 = Cast(%half) {to: bf16}
%scaled/bf16 = Mul(%y/bf16, %half/to_bf16)
%scaled/bf16/to_f32 = Cast(%scaled/bf16) {to: f32}
%sum = Add(%x, %scaled/bf16/to_f32)
%o = weft.Output(%sum) {name: "y"}
)");
}

TEST(MixedPrecisionTest, ResultsOfOtherTypesGoOn) {
  // Dropout's mask is no float.
  PassRun run = RunPass("mixed_precision", R"(
%x = weft.Input() {dtype: f32, shape: [2, 2]}
%n = weft.Counter() {rate: "micro"}
%y = MatMul(%x, %x)
%d = weft.DropoutTraining(%y, %n) {ratio: 0.5, seed: 1, stream: 2} : f32[2,2], bool[2,2]
%p = MatMul(%d, %d)
%m = Cast(%d:1) {to: f32}
%o = weft.Output(%p) {name: "p"}
%q = weft.Output(%m) {name: "m"})");
  EXPECT_TRUE(run.changed);
  EXPECT_NE(run.body.find("weft.DropoutTraining(%y/bf16, %n)"),
            std::string::npos)
      << run.body;
  EXPECT_NE(run.body.find("%m = Cast(%d/bf16:1)"), std::string::npos)
      << run.body;
}

TEST(MixedPrecisionTest, LeavesAlone) {
  for (const char* body : {
           // no product
           "%x = weft.Input() {dtype: f32, shape: [2, 2]}\n%r = Relu(%x)\n"
           "%o = weft.Output(%r) {name: \"y\"}",
           // another type
           "%x = weft.Input() {dtype: f64, shape: [2, 2]}\n"
           "%y = MatMul(%x, %x)\n%o = weft.Output(%y) {name: \"y\"}",
       }) {
    EXPECT_EQ(Untouched("mixed_precision", body), "") << body;
  }
}

}  // namespace
}  // namespace weft
