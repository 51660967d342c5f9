#include "compiler/transforms/epilogues.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/transforms/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

PassSettings All() {
  PassSettings settings;
  settings.runs_as_kernel = [](const Graph&, const Node&) { return true; };
  return settings;
}

constexpr char kMatrices[] = R"(
%x = weft.Input() {dtype: f32, shape: [2, 3]}
%w = weft.Input() {dtype: f32, shape: [3, 4]}
%b = weft.Input() {dtype: f32, shape: [4]}
)";
constexpr char kImages[] = R"(
%x = weft.Input() {dtype: f32, shape: [2, 3, 4, 4]}
%r = weft.Input() {dtype: f32, shape: [2, 3, 4, 4]}
%s = weft.Input() {dtype: f32, shape: [3]}
%b = weft.Input() {dtype: f32, shape: [3]}
)";
constexpr char kRows[] = R"(
%x = weft.Input() {dtype: f32, shape: [2, 6]}
%r = weft.Input() {dtype: f32, shape: [2, 6]}
%s = weft.Input() {dtype: f32, shape: [6]}
)";
constexpr char kSamples[] = R"(
%x = weft.Input() {dtype: f32, shape: [3, 4]}
%l = Constant() {value: tensor(i64[3], [0, 3, 1])}
%w = Constant() {value: tensor(f32[3], [1.0, 0.0, 2.0])}
%d = Constant() {value: tensor(f32[], [0.5])}
)";

std::string With(const char* inputs, const char* body) {
  return absl::StrCat(inputs, body);
}

TEST(EpiloguesTest, ReluOfAProduct) {
  const std::string body = With(kMatrices, R"(%g = Gemm(%x, %w, %b)
%y = Relu(%g)
%o = weft.Output(%y) {name: "y"})");
  PassRun run = RunPass("epilogues", body, All());
  EXPECT_TRUE(run.changed);
  EXPECT_THAT(
      run.body,
      testing::HasSubstr("%g/relu = Gemm(%x, %w, %b) {activation: \"relu\"}\n"
                         "%o = weft.Output(%g/relu)"));
  ExpectSameResults("epilogues", body, All(), 1e-6);
  EXPECT_EQ(Untouched("epilogues", run.body, All()), "") << "once is enough";
}

TEST(EpiloguesTest, ReluOfANormAndAResidual) {
  for (const char* add : {"Add(%n, %r)", "Add(%r, %n)"}) {
    const std::string body = absl::StrCat(
        kImages, "%n = weft.BatchNormTraining(%x, %s, %b)\n%a = ", add, R"(
%y = Relu(%a)
%o = weft.Output(%y) {name: "y"}
%m = weft.Output(%n:1) {name: "mean"})");
    PassRun run = RunPass("epilogues", body, All());
    EXPECT_THAT(run.body,
                testing::HasSubstr("weft.BatchNormTraining(%x, %s, %b, %r) "
                                   "{activation: \"relu\"}"));
    EXPECT_THAT(run.body, testing::Not(testing::HasSubstr("Add(")));
    ExpectSameResults("epilogues", body, All(), 1e-6);
  }
}

// The shortcut of a residual block is a normalisation too: the later one takes
// the other.
TEST(EpiloguesTest, OneOfTwoNorms) {
  const std::string body = With(kImages, R"(
%m = weft.BatchNormTraining(%x, %s, %b)
%n = weft.BatchNormTraining(%r, %s, %b)
%a = Add(%n, %m)
%y = Relu(%a)
%o = weft.Output(%y) {name: "y"})");
  PassRun run = RunPass("epilogues", body, All());
  EXPECT_THAT(run.body,
              testing::HasSubstr("BatchNormTraining(%r, %s, %b, %m)"));
  ExpectSameResults("epilogues", body, All(), 1e-6);
}

TEST(EpiloguesTest, ASumBeforeLayerNormalization) {
  const std::string body = With(kRows, R"(%a = Add(%x, %r)
%n = LayerNormalization(%a, %s)
%z = Mul(%a, %n)
%o = weft.Output(%z) {name: "y"})");
  PassRun run = RunPass("epilogues", body, All());
  EXPECT_THAT(run.body,
              testing::HasSubstr("= LayerNormalization(%x, %s, _, %r)\n"
                                 "%z = Mul(%n/of_sum:3, %n/of_sum)"));
  ExpectSameResults("epilogues", body, All(), 1e-6);
}

TEST(EpiloguesTest, TheLossAndItsGradient) {
  const std::string body = With(kSamples, R"(
%e = weft.SoftmaxCrossEntropyLoss(%x, %l, %w) {label_smoothing: 0.1}
%g = weft.SoftmaxCrossEntropyLossGrad(%d, %e:1, %l, %w) {label_smoothing: 0.1}
%o = weft.Output(%e) {name: "loss"}
%p = weft.Output(%g) {name: "gradient"})");
  PassRun run = RunPass("epilogues", body, All());
  EXPECT_THAT(run.body, testing::HasSubstr(
                            "weft.SoftmaxCrossEntropyLossAndGrad(%x, %l, %w, "
                            "%d) {label_smoothing: 0.1}"));
  ExpectSameResults("epilogues", body, All(), 1e-6);
}

// Who reads the sum, and may send it early, would wait for a scale that comes
// late from another rank.
TEST(EpiloguesTest, NoSumComesToWaitForARecv) {
  const std::string recv =
      "%late = weft.Recv() {channel: \"late\", dtype: f32, peer: 1, "
      "rate: \"step\", shape: [6]}\n";
  const std::string sum = "%a = Add(%x, %r)\n";
  const std::string rest = R"(%n = LayerNormalization(%a, %late)
%s1 = weft.Send(%a) {channel: "sum", peer: 1, rate: "step"}
%o = weft.Output(%n) {name: "y"})";
  EXPECT_EQ(Untouched("epilogues", kRows + recv + sum + rest, All()), "");
  // A sum that waits for it anyway.
  const std::string of_late = "%b = Mul(%r, %late)\n%a = Add(%x, %b)\n";
  const PassRun run =
      RunPass("epilogues", kRows + recv + of_late + rest, All());
  EXPECT_THAT(run.body, testing::HasSubstr("LayerNormalization(%x, %late, _"));
}

// What the first rewrite makes of its neighbours counts for the second.
TEST(EpiloguesTest, NoCycleThroughWhatWasRewritten) {
  const std::string body = With(kRows, R"(
%g = weft.Input() {dtype: f32, shape: [6]}
%y = weft.Input() {dtype: f32, shape: [2, 6]}
%a = Add(%x, %r)
%e = Exp(%a)
%m = weft.BatchNormTraining(%y, %g, %s)
%c = Mul(%m:1, %g)
%n = LayerNormalization(%a, %c)
%b = Add(%m, %e)
%z = Relu(%b)
%o = weft.Output(%z) {name: "z"}
%p = weft.Output(%n) {name: "n"})");
  ExpectSameResults("epilogues", body, All(), 1e-6);
}

TEST(EpiloguesTest, LeavesAlone) {
  for (const std::string& body : {
           // the product has another reader
           With(kMatrices,
                "%g = Gemm(%x, %w)\n%y = Relu(%g)\n%z = Exp(%g)\n"
                "%o = weft.Output(%y) {name: \"y\"}\n"
                "%p = weft.Output(%z) {name: \"z\"}"),
           // another function, another place, an order
           With(kMatrices, "%g = Gemm(%x, %w)\n%y = Tanh(%g)"),
           With(kMatrices,
                "%g = Gemm(%x, %w)\n%y = Relu(%g) device(\"sim:0\")"),
           With(kMatrices, "%g = Gemm(%x, %w)\n%y = Relu(%g) control(%x)"),
           // an activation that is there already
           With(kMatrices,
                "%g = Gemm(%x, %w) {activation: \"relu\"}\n%y = Relu(%g)"),
           // a residual that needs the norm's statistics, or broadcasts
           With(kImages,
                "%n = weft.BatchNormTraining(%x, %s, %b)\n"
                "%c = Reshape(%n:1) {shape: [3, 1, 1]}\n%f = Mul(%c, %r)\n"
                "%a = Add(%n, %f)\n%y = Relu(%a)"),
           With(kImages,
                "%n = weft.BatchNormTraining(%x, %s, %b)\n"
                "%c = Reshape(%s) {shape: [3, 1, 1]}\n"
                "%a = Add(%n, %c)\n%y = Relu(%a)"),
           // a scale that is made of the sum; a sum of other shapes
           With(kRows,
                "%a = Add(%x, %r)\n"
                "%c = ReduceSum(%a) {axes: [0], keepdims: 0}\n"
                "%n = LayerNormalization(%a, %c)"),
           With(kRows,
                "%a = Add(%x, %s)\n"
                "%n = LayerNormalization(%a, %s)"),
           // log probabilities that are wanted; a gradient that needs the loss
           With(kSamples,
                "%e = weft.SoftmaxCrossEntropyLoss(%x, %l, %w)\n"
                "%g = weft.SoftmaxCrossEntropyLossGrad(%d, %e:1, %l, %w)\n"
                "%o = weft.Output(%e:1) {name: \"log_prob\"}"),
           With(kSamples,
                "%e = weft.SoftmaxCrossEntropyLoss(%x, %l, %w)\n"
                "%g = weft.SoftmaxCrossEntropyLossGrad(%e, %e:1, %l, %w)"),
       }) {
    EXPECT_EQ(Untouched("epilogues", body, All()), "") << body;
  }
  // No device, or one without such kernels.
  const std::string body = With(kMatrices, "%g = Gemm(%x, %w)\n%y = Relu(%g)");
  EXPECT_EQ(Untouched("epilogues", body), "");
  PassSettings none;
  none.runs_as_kernel = [](const Graph&, const Node&) { return false; };
  EXPECT_EQ(Untouched("epilogues", body, none), "");
}

}  // namespace
}  // namespace weft
