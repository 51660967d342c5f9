#include <cmath>
#include <limits>
#include <numeric>

#include "core/reference/gradient_check.h"
#include "core/reference/schema_check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsNan;
using testing::Pointwise;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

auto Near(std::vector<double> expected) {
  return Pointwise(testing::DoubleNear(1e-9), expected);
}

// ---- Softmax
// ------------------------------------------------------------------

TEST(SoftmaxTest, InfersAndChecks) {
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    EXPECT_EQ(InferText(op, {}, {"f32[2,3]"}), "f32[2,3]");
    EXPECT_EQ(InferText(op, {{"axis", -2}}, {"f16[2,3]"}), "f16[2,3]");
    EXPECT_THAT(InferText(op, {{"axis", 2}}, {"f32[2,3]"}),
                ErrorWith("WEFT-2003", {"2"}));
    EXPECT_THAT(InferText(op, {}, {"f32[]"}),
                ErrorWith("WEFT-2003", {"rank 0"}));
    EXPECT_THAT(InferText(op, {}, {"i32[2,3]"}),
                ErrorWith("WEFT-2005", {"i32[2,3]"}));
  }
}

TEST(SoftmaxTest, ComputesByHand) {
  Literal x = Literal::Of<double>({2, 2}, {0, std::log(3), 1000, 1000});
  EXPECT_THAT(ResultOf({"Softmax", {}, {x}}), Near({0.25, 0.75, 0.5, 0.5}));
  EXPECT_THAT(
      ResultOf({"LogSoftmax", {}, {x}}),
      Near({std::log(0.25), std::log(0.75), -std::log(2), -std::log(2)}));
  Literal columns = Literal::Of<double>({2, 2}, {0, 5, std::log(3), 5});
  EXPECT_THAT(ResultOf({"Softmax", {{"axis", 0}}, {columns}}),
              Near({0.25, 0.5, 0.75, 0.5}));
  // -inf: a class that cannot be. It has no effect on the others.
  Literal masked = Literal::Of<double>({3}, {7, -kInf, 7});
  EXPECT_THAT(ResultOf({"Softmax", {}, {masked}}), Near({0.5, 0, 0.5}));
}

TEST(SoftmaxTest, GradientAndDecomposition) {
  struct Case {
    Shape x;
    int axis;
  };
  for (const Case& k : std::vector<Case>{{{2, 3}, -1},
                                         {{3}, 0},
                                         {{2, 3, 2}, 1},
                                         {{2, 3, 2}, -3},
                                         {{2, 1}, 1},
                                         {{0, 3}, 1},
                                         {{3, 0}, 1},
                                         {{3, 0}, 0}}) {
    for (const char* op : {"Softmax", "LogSoftmax"}) {
      SCOPED_TRACE(testing::Message()
                   << op << k.x.ToString() << " axis " << k.axis);
      OpCase c = {op, {{"axis", k.axis}}, {RandomLiteral(k.x, 1, -3, 3)}};
      EXPECT_EQ(CheckGradient(c), absl::OkStatus());
      EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
    }
  }
}

// ---- Loss
// ---------------------------------------------------------------------

OpCase Loss(Literal scores, Literal labels, Literal weights, double smoothing) {
  return {"weft.SoftmaxCrossEntropyLoss",
          {{"label_smoothing", smoothing}},
          {std::move(scores), std::move(labels), std::move(weights)}};
}

TEST(LossTest, InfersAndChecks) {
  const char* op = "weft.SoftmaxCrossEntropyLoss";
  EXPECT_EQ(InferText(op, {}, {"f32[4,10]", "i32[4]", "f32[4]"}),
            "f32[] f32[4,10]");
  EXPECT_EQ(InferText(op, {}, {"f64[0,10]", "i64[0]", "f64[0]"}),
            "f64[] f64[0,10]");
  EXPECT_THAT(InferText(op, {}, {"f32[4,10]", "i32[5]", "f32[4]"}),
              ErrorWith("WEFT-2004", {"[4,10]", "[5]"}));
  EXPECT_THAT(InferText(op, {}, {"f32[4,10]", "i32[4]", "f32[4,1]"}),
              ErrorWith("WEFT-2004", {"[4,10]", "[4,1]"}));
  EXPECT_THAT(InferText(op, {}, {"f32[4,10,2]", "i32[4]", "f32[4]"}),
              ErrorWith("WEFT-2004", {"[4,10,2]"}));
  EXPECT_THAT(InferText(op, {}, {"f32[4,0]", "i32[4]", "f32[4]"}),
              ErrorWith("WEFT-2004", {"[4,0]", "no classes"}));
  EXPECT_THAT(InferText(op, {}, {"f32[4,10]", "u8[4]", "f32[4]"}),
              ErrorWith("WEFT-2005", {"u8[4]", "i32 or i64"}));
  EXPECT_THAT(InferText(op, {}, {"f32[4,10]", "i32[4]", "f64[4]"}),
              ErrorWith("WEFT-2005", {"f32[4,10]", "f64[4]"}));
  for (double bad : {-0.1, 1.1, kNan}) {
    EXPECT_THAT(InferText(op, {{"label_smoothing", bad}},
                          {"f32[4,10]", "i32[4]", "f32[4]"}),
                ErrorWith("WEFT-2003", {"label_smoothing"}));
  }
  const char* both = "weft.SoftmaxCrossEntropyLossAndGrad";
  EXPECT_EQ(InferText(both, {}, {"f32[4,10]", "i32[4]", "f32[4]", "f32[]"}),
            "f32[] f32[4,10]");
  EXPECT_THAT(InferText(both, {}, {"f32[4,10]", "i32[4]", "f32[4]", "f32[4]"}),
              ErrorWith("WEFT-2004", {"[4]"}));
  const char* grad = "weft.SoftmaxCrossEntropyLossGrad";
  EXPECT_EQ(InferText(grad, {}, {"f32[]", "f32[4,10]", "i32[4]", "f32[4]"}),
            "f32[4,10]");
  EXPECT_THAT(InferText(grad, {}, {"f32[1]", "f32[4,10]", "i32[4]", "f32[4]"}),
              ErrorWith("WEFT-2004", {"[1]"}));
  EXPECT_THAT(InferText(grad, {}, {"f32[]", "f32[4,10]", "i32[3]", "f32[4]"}),
              ErrorWith("WEFT-2004", {"[4,10]", "[3]"}));
}

TEST(LossTest, ComputesByHand) {
  // Probabilities 1/4, 3/4 and 1/2, 1/2.
  Literal scores = Literal::Of<double>({2, 2}, {0, std::log(3), 5, 5});
  Literal labels = Literal::Of<int64_t>({2}, {0, 1});
  Literal weights = Literal::Of<double>({2}, {2, 0.5});
  EXPECT_THAT(ResultOf(Loss(scores, labels, weights, 0.0)),
              Near({2 * std::log(4) + 0.5 * std::log(2)}));
  double first = 0.8 * std::log(4) + 0.1 * (std::log(4) + std::log(4.0 / 3));
  EXPECT_THAT(ResultOf(Loss(scores, labels, weights, 0.2)),
              Near({2 * first + 0.5 * std::log(2)}));
  EXPECT_THAT(
      ResultOf({"weft.SoftmaxCrossEntropyLossGrad",
                {{"label_smoothing", 0.2}},
                {Literal::Scalar<double>(10),
                 Literal::Of<double>({2, 2}, {std::log(0.25), std::log(0.75),
                                              std::log(0.5), std::log(0.5)}),
                 labels, weights}}),
      Near({20 * (0.25 - 0.9), 20 * (0.75 - 0.1), 5 * (0.5 - 0.1),
            5 * (0.5 - 0.9)}));
}

TEST(LossTest, GradientAndDecomposition) {
  GradientCheckOptions weights_are_data;
  weights_are_data.skip_inputs = {2};
  const std::vector<Literal> all_labels = {
      Literal::Of<int32_t>({4}, {0, 2, 1, 2}),
      Literal::Of<int64_t>({4}, {2, 2, 0, 1})};
  for (const Literal& labels : all_labels) {
    for (double smoothing : {0.0, 0.1, 1.0}) {
      SCOPED_TRACE(smoothing);
      OpCase c = Loss(RandomLiteral({4, 3}, 1, -2, 2), labels,
                      Literal::Of<double>({4}, {1, 0.5, 0, -2}), smoothing);
      EXPECT_EQ(CheckGradient(c, weights_are_data), absl::OkStatus());
      EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
      OpCase grad = {"weft.SoftmaxCrossEntropyLossGrad",
                     c.attrs,
                     {Literal::Scalar<double>(0.7), weft::RunOp(c).value()[1],
                      labels, c.inputs[2]}};
      EXPECT_EQ(CheckDecomposition(grad), absl::OkStatus());
      OpCase both = {"weft.SoftmaxCrossEntropyLossAndGrad",
                     c.attrs,
                     {c.inputs[0], labels, c.inputs[2], grad.inputs[0]}};
      EXPECT_EQ(CheckDecomposition(both), absl::OkStatus());
      EXPECT_EQ(ResultOf(both, 0), ResultOf(c, 0));
      EXPECT_EQ(ResultOf(both, 1), ResultOf(grad, 0));
    }
  }
  OpCase one_class =
      Loss(RandomLiteral({2, 1}, 1), Literal::Of<int64_t>({2}, {0, 0}),
           RandomLiteral({2}, 2), 0.1);
  EXPECT_EQ(CheckGradient(one_class, weights_are_data), absl::OkStatus());
  OpCase no_samples =
      Loss(RandomLiteral({0, 3}, 1), Literal::Of<int64_t>({0}, {}),
           RandomLiteral({0}, 2), 0.1);
  EXPECT_THAT(ResultOf(no_samples), ElementsAre(0));
  EXPECT_EQ(CheckDecomposition(no_samples), absl::OkStatus());
}

// Padded samples: whatever is in their scores and labels, they count for
// nothing.
TEST(LossTest, WeightZeroIsExactlyNothing) {
  for (double odd : {kNan, kInf, -kInf, 1e308}) {
    for (double smoothing : {0.0, 0.1}) {
      SCOPED_TRACE(testing::Message() << odd << " " << smoothing);
      OpCase c = Loss(Literal::Of<double>({2, 2}, {0, std::log(3), odd, odd}),
                      Literal::Of<int64_t>({2}, {1, 7}),
                      Literal::Of<double>({2}, {1, 0}), smoothing);
      OpCase alone = Loss(Literal::Of<double>({1, 2}, {0, std::log(3)}),
                          Literal::Of<int64_t>({1}, {1}),
                          Literal::Of<double>({1}, {1}), smoothing);
      EXPECT_EQ(ResultOf(c, 0), ResultOf(alone, 0));
      EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
      OpCase grad = {"weft.SoftmaxCrossEntropyLossGrad",
                     c.attrs,
                     {Literal::Scalar<double>(1), weft::RunOp(c).value()[1],
                      c.inputs[1], c.inputs[2]}};
      std::vector<double> dscores = ResultOf(grad);
      EXPECT_EQ(dscores[2], 0);
      EXPECT_EQ(dscores[3], 0);
      EXPECT_NE(dscores[0], 0);
      EXPECT_EQ(CheckDecomposition(grad), absl::OkStatus());
    }
  }
}

TEST(LossTest, ImpossibleOtherClassesDoNotSpoilTheLoss) {
  OpCase c =
      Loss(Literal::Of<double>({1, 3}, {2, -kInf, 2}),
           Literal::Of<int64_t>({1}, {0}), Literal::Of<double>({1}, {1}), 0.0);
  EXPECT_THAT(ResultOf(c), Near({std::log(2)}));
  EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
}

TEST(LossTest, ReferenceRefusesLabelsOutOfRange) {
  for (int64_t bad : {-1, 3}) {
    OpCase c =
        Loss(RandomLiteral({2, 3}, 1), Literal::Of<int64_t>({2}, {0, bad}),
             Literal::Of<double>({2}, {1, 1}), 0.0);
    absl::Status status = weft::RunOp(c).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kLabelRange)) << status;
    EXPECT_THAT(std::string(status.message()),
                testing::AllOf(testing::HasSubstr(std::to_string(bad)),
                               testing::HasSubstr("[0, 3)")));
  }
}

// ---- Dropout
// ------------------------------------------------------------------

OpCase DropoutTraining(const Shape& shape, double ratio, int64_t step,
                       int64_t micro_batch) {
  return {"weft.DropoutTraining",
          {{"ratio", ratio}, {"seed", 5}, {"stream", 3}},
          {RandomLiteral(shape, 1, 1, 2),
           Literal::Of<int64_t>({2}, {step, micro_batch})}};
}

TEST(DropoutTest, InfersAndChecks) {
  EXPECT_EQ(InferText("Dropout", {}, {"f32[2,3]"}), "f32[2,3]");
  EXPECT_EQ(InferText("weft.DropoutTraining", {}, {"f16[2,3]", "i64[2]"}),
            "f16[2,3] bool[2,3]");
  EXPECT_THAT(InferText("weft.DropoutTraining", {}, {"f32[2,3]", "i32[2]"}),
              ErrorWith("WEFT-2005", {"i32[2]"}));
  EXPECT_THAT(InferText("weft.DropoutTraining", {}, {"f32[2,3]", "i64[3]"}),
              ErrorWith("WEFT-2004", {"[2]", "[3]"}));
  for (double bad : {-0.5, 1.0, kNan}) {
    EXPECT_THAT(InferText("Dropout", {{"ratio", bad}}, {"f32[2]"}),
                ErrorWith("WEFT-2003", {"ratio"}));
    EXPECT_THAT(InferText("weft.DropoutTraining", {{"ratio", bad}},
                          {"f32[2]", "i64[2]"}),
                ErrorWith("WEFT-2003", {"ratio"}));
  }
  EXPECT_THAT(InferText("Dropout", {}, {"i32[2]"}),
              ErrorWith("WEFT-2005", {"i32[2]"}));
}

TEST(DropoutTest, ModelFormIsIdentity) {
  OpCase c = {"Dropout", {{"ratio", 0.9}}, {RandomLiteral({2, 3}, 1)}};
  EXPECT_EQ(weft::RunOp(c).value()[0], c.inputs[0]);
  EXPECT_EQ(CheckGradient(c), absl::OkStatus());
  EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
}

TEST(DropoutTest, GradientAndDecomposition) {
  // 1/3 and 0.7 are no f32 numbers; 0.5 is a value that u can have.
  for (double ratio : {0.0, 0.25, 1.0 / 3, 0.5, 0.7, 0.999}) {
    for (const Shape& shape : std::vector<Shape>{{3, 5}, {}, {0, 2}}) {
      SCOPED_TRACE(testing::Message() << ratio << shape.ToString());
      OpCase c = DropoutTraining(shape, ratio, 2, 1);
      EXPECT_EQ(CheckGradient(c), absl::OkStatus());
      EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
    }
  }
}

TEST(DropoutTest, KeptShareAndScale) {
  OpCase c = DropoutTraining({100, 100}, 0.3, 0, 0);
  std::vector<double> x = c.inputs[0].ToDoubles();
  std::vector<double> y = ResultOf(c, 0), mask = ResultOf(c, 1);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_DOUBLE_EQ(y[i], mask[i] * x[i] / 0.7);
  }
  // 0.7 +- 5 standard deviations of 10^4 draws.
  EXPECT_NEAR(std::accumulate(mask.begin(), mask.end(), 0.0) / 1e4, 0.7, 0.023);
}

TEST(DropoutTest, Grad) {
  const char* op = "weft.DropoutGrad";
  EXPECT_EQ(InferText(op, {}, {"f16[2,3]", "bool[2,3]"}), "f16[2,3]");
  EXPECT_THAT(InferText(op, {}, {"f32[2,3]", "bool[3]"}),
              ErrorWith("WEFT-2004", {"[2,3]", "[3]"}));
  EXPECT_THAT(InferText(op, {}, {"f32[2]", "f32[2]"}),
              ErrorWith("WEFT-2005", {"operand 1", "bool"}));
  EXPECT_THAT(InferText(op, {{"ratio", 1.0}}, {"f32[2]", "bool[2]"}),
              ErrorWith("WEFT-2003", {"ratio"}));
  OpCase c = {op,
              {{"ratio", 0.75}},
              {Literal::Of<double>({3}, {1, 2, -3}),
               Literal::Of<bool>({3}, {true, false, true})}};
  EXPECT_THAT(ResultOf(c), ElementsAre(4, 0, -12));
  EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
}

// The mask belongs to the step's logical tensor: two micro-batches of 6 hold
// the mask of one batch of 12.
TEST(DropoutTest, MicroBatchesShareOneMask) {
  std::vector<double> whole = ResultOf(DropoutTraining({4, 3}, 0.5, 7, 0), 1);
  std::vector<double> parts = ResultOf(DropoutTraining({2, 3}, 0.5, 7, 0), 1);
  std::vector<double> second = ResultOf(DropoutTraining({2, 3}, 0.5, 7, 1), 1);
  parts.insert(parts.end(), second.begin(), second.end());
  EXPECT_EQ(whole, parts);
  EXPECT_NE(whole, ResultOf(DropoutTraining({4, 3}, 0.5, 8, 0), 1));
}

// ---- Norm of gradients
// ----------------------------------------------------------

TEST(GlobalNormTest, InfersAndChecks) {
  EXPECT_EQ(InferText("weft.GlobalNorm", {}, {"f16[2]", "f16[]", "f16[3,0]"}),
            "f32[]");
  EXPECT_EQ(
      InferText("weft.GlobalNorm", {}, std::vector<std::string>(32, "f64[2]")),
      "f32[]");
  EXPECT_THAT(
      InferText("weft.GlobalNorm", {}, std::vector<std::string>(33, "f32[2]")),
      ErrorWith("WEFT-2006", {"32", "33"}));
  EXPECT_THAT(InferText("weft.GlobalNorm", {}, {}), ErrorWith("WEFT-2006", {}));
  EXPECT_THAT(InferText("weft.GlobalNorm", {}, {"f32[2]", "f64[2]"}),
              ErrorWith("WEFT-2005", {"f32[2]", "f64[2]"}));
  EXPECT_THAT(InferText("weft.GlobalNorm", {}, {"i32[2]"}),
              ErrorWith("WEFT-2005", {"i32[2]"}));
}

TEST(GlobalNormTest, ComputesAndDecomposes) {
  OpCase c = {"weft.GlobalNorm",
              {},
              {Literal::Of<float>({2}, {1, 2}), Literal::Of<float>({}, {-4}),
               Literal::Of<float>({0}, {}), Literal::Of<float>({1, 1}, {10})}};
  EXPECT_THAT(ResultOf(c), ElementsAre(11));
  EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
  for (DType dtype : {DType::kF16, DType::kF64}) {
    c.inputs = {Literal::FromDoubles({dtype, {2}}, {3, 4})};
    EXPECT_THAT(ResultOf(c), ElementsAre(5));
    EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
  }
}

TEST(GlobalNormTest, NormOfNormsIsTheNormOfAll) {
  auto norm = [](std::vector<float> v) {
    int64_t n = static_cast<int64_t>(v.size());
    return ResultOf({"weft.GlobalNorm", {}, {Literal::Of<float>({n}, v)}})[0];
  };
  float left = static_cast<float>(norm({2, 3, 6}));
  float right = static_cast<float>(norm({24}));
  EXPECT_EQ(norm({left, right}), norm({2, 3, 6, 24}));
}

TEST(ClipScaleTest, Everything) {
  AttrMap attrs = {{"clip_norm", 2.0}};
  EXPECT_EQ(InferText("weft.ClipScale", attrs, {"f32[]"}), "f32[]");
  EXPECT_THAT(InferText("weft.ClipScale", {}, {"f32[]"}),
              ErrorWith("WEFT-2003", {"clip_norm"}));
  EXPECT_THAT(InferText("weft.ClipScale", attrs, {"f32[1]"}),
              ErrorWith("WEFT-2004", {"[1]"}));
  EXPECT_THAT(InferText("weft.ClipScale", attrs, {"f64[]"}),
              ErrorWith("WEFT-2005", {"f64[]"}));
  for (double bad : {0.0, -1.0, kNan, kInf}) {
    EXPECT_THAT(InferText("weft.ClipScale", {{"clip_norm", bad}}, {"f32[]"}),
                ErrorWith("WEFT-2003", {"clip_norm"}));
  }
  const std::vector<std::pair<double, double>> cases = {
      {8, 0.25}, {2, 1}, {1, 1}, {0, 1}, {kInf, 0}};
  for (const auto& [norm, scale] : cases) {
    OpCase c = {"weft.ClipScale",
                attrs,
                {Literal::Scalar<float>(static_cast<float>(norm))}};
    EXPECT_THAT(ResultOf(c), ElementsAre(scale)) << norm;
    EXPECT_EQ(CheckDecomposition(c), absl::OkStatus()) << norm;
  }
  // A norm that is no number must be seen, not clipped away.
  OpCase c = {"weft.ClipScale", attrs, {Literal::Scalar<float>(NAN)}};
  EXPECT_THAT(ResultOf(c), Each(IsNan()));
  EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
}

}  // namespace
}  // namespace weft
