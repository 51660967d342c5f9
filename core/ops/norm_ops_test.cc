#include <cmath>

#include "core/reference/gradient_check.h"
#include "core/reference/schema_check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

auto Near(std::vector<double> expected) {
  return Pointwise(testing::DoubleNear(1e-9), expected);
}

std::vector<Shape> Images() {
  return {{4, 3}, {2, 3, 5}, {2, 3, 2, 2}, {2, 1, 2, 1, 3}, {3, 2, 1, 1}};
}

// Statistics as a data set would have them: the variance is positive.
OpCase BatchNormalization(const Shape& image, int training_mode) {
  Shape c = {image.dim(1)};
  return {
      "BatchNormalization",
      {{"epsilon", 1e-3}, {"momentum", 0.75}, {"training_mode", training_mode}},
      {RandomLiteral(image, 1), RandomLiteral(c, 2), RandomLiteral(c, 3),
       RandomLiteral(c, 4), RandomLiteral(c, 5, 0.5, 2)},
      training_mode ? 3 : 1};
}

TEST(BatchNormalizationTest, InfersAndChecks) {
  const std::string x = "f32[2,3,4,4]", c = "f32[3]";
  EXPECT_EQ(InferText("BatchNormalization", {}, {x, c, c, c, c}), x);
  AttrMap training = {{"training_mode", 1}};
  EXPECT_EQ(InferText("BatchNormalization", training, {x, c, c, c, c}, 3),
            "f32[2,3,4,4] f32[3] f32[3]");
  EXPECT_THAT(InferText("BatchNormalization", {}, {x, c, c, c, c}, 3),
              ErrorWith("WEFT-2006", {"3"}));
  EXPECT_THAT(InferText("BatchNormalization", {}, {x, c, c, c, "f32[4]"}),
              ErrorWith("WEFT-2004", {"operand 4", "[2,3,4,4]", "[4]"}));
  EXPECT_THAT(InferText("BatchNormalization", {}, {"f32[3]", c, c, c, c}),
              ErrorWith("WEFT-2004", {"f32[3]", "[N,C,...]"}));
  EXPECT_THAT(InferText("BatchNormalization", {}, {x, c, "f64[3]", c, c}),
              ErrorWith("WEFT-2005", {x, "f64[3]"}));
  EXPECT_THAT(
      InferText("BatchNormalization", {{"epsilon", -1e-5}}, {x, c, c, c, c}),
      ErrorWith("WEFT-2003", {"epsilon"}));
  EXPECT_THAT(
      InferText("BatchNormalization", {{"training_mode", 2}}, {x, c, c, c, c}),
      ErrorWith("WEFT-2003", {"training_mode"}));
  EXPECT_EQ(InferText("weft.BatchNormTraining", {}, {x, c, c}),
            "f32[2,3,4,4] f32[3] f32[3]");
  EXPECT_THAT(InferText("weft.BatchNormTraining", {}, {x, "f32[2]", c}),
              ErrorWith("WEFT-2004", {"[2,3,4,4]", "[2]"}));
  EXPECT_EQ(InferText("weft.BatchNormTraining", {{"activation", "relu"}},
                      {x, c, c, x}),
            "f32[2,3,4,4] f32[3] f32[3]");
  EXPECT_THAT(InferText("weft.BatchNormTraining", {}, {x, c, c, c}),
              ErrorWith("WEFT-2004", {"[2,3,4,4]", "[3]"}));
  EXPECT_THAT(
      InferText("weft.BatchNormTraining", {{"activation", "gelu"}}, {x, c, c}),
      ErrorWith("WEFT-2003", {"activation", "gelu", "relu"}));
  EXPECT_EQ(InferText("weft.BatchNormGrad", {}, {x, x, c, c, c}),
            "f32[2,3,4,4] f32[3] f32[3]");
  EXPECT_THAT(InferText("weft.BatchNormGrad", {}, {"f32[2,3,4,5]", x, c, c, c}),
              ErrorWith("WEFT-2004", {"[2,3,4,5]", "[2,3,4,4]"}));
}

TEST(BatchNormalizationTest, ComputesByHand) {
  // Channel 0 holds 1, 3; channel 1 holds 2, 2.
  Literal x = Literal::Of<double>({2, 2}, {1, 2, 3, 2});
  Literal scale = Literal::Of<double>({2}, {10, 1});
  Literal bias = Literal::Of<double>({2}, {0.5, -1});
  OpCase training = {
      "weft.BatchNormTraining", {{"epsilon", 0.0}}, {x, scale, bias}};
  training.attrs.Set("epsilon", 0.44);  // sqrt(1 + 0.44) = 1.2
  EXPECT_THAT(ResultOf(training, 0),
              Near({0.5 - 10 / 1.2, -1, 0.5 + 10 / 1.2, -1}));
  EXPECT_THAT(ResultOf(training, 1), ElementsAre(2, 2));
  EXPECT_THAT(ResultOf(training, 2), ElementsAre(1, 0));

  OpCase model = {"BatchNormalization",
                  {{"epsilon", 0.25}, {"momentum", 0.75}},
                  {x, scale, bias, Literal::Of<double>({2}, {1, 0}),
                   Literal::Of<double>({2}, {2, 0})}};
  EXPECT_THAT(ResultOf(model),
              Near({0.5, 2 / 0.5 - 1, 0.5 + 20 / 1.5, 2 / 0.5 - 1}));
  model.attrs.Set("training_mode", 1);
  model.num_outputs = 3;
  EXPECT_THAT(ResultOf(model, 1), ElementsAre(1.25, 0.5));
  EXPECT_THAT(ResultOf(model, 2), ElementsAre(1.75, 0));
}

TEST(BatchNormalizationTest, GradientAndDecomposition) {
  for (const Shape& image : Images()) {
    SCOPED_TRACE(image.ToString());
    OpCase model = BatchNormalization(image, 0);
    GradientCheckOptions statistics_are_state;
    statistics_are_state.skip_inputs = {3, 4};
    EXPECT_EQ(CheckGradient(model, statistics_are_state), absl::OkStatus());
    EXPECT_EQ(CheckDecomposition(model), absl::OkStatus());

    OpCase in_training = BatchNormalization(image, 1);
    statistics_are_state.skip_outputs = {1, 2};
    EXPECT_EQ(CheckGradient(in_training, statistics_are_state),
              absl::OkStatus());
    EXPECT_EQ(CheckDecomposition(in_training), absl::OkStatus());
    in_training.num_outputs = 1;
    EXPECT_EQ(CheckDecomposition(in_training), absl::OkStatus());

    OpCase training = {"weft.BatchNormTraining",
                       {{"epsilon", 1e-3}},
                       {model.inputs[0], model.inputs[1], model.inputs[2]}};
    EXPECT_EQ(CheckGradient(training), absl::OkStatus());
    EXPECT_EQ(CheckDecomposition(training), absl::OkStatus());

    OpCase with_residual = training;
    with_residual.inputs.push_back(RandomLiteral(image, 7));
    for (const char* activation : {"none", "relu"}) {
      with_residual.attrs.Set("activation", activation);
      EXPECT_EQ(CheckGradient(with_residual), absl::OkStatus());
      EXPECT_EQ(CheckDecomposition(with_residual), absl::OkStatus());
    }

    OpCase grad = {"weft.BatchNormGrad",
                   {{"epsilon", 1e-3}},
                   {RandomLiteral(image, 6), model.inputs[0], model.inputs[1],
                    model.inputs[3], model.inputs[4]}};
    EXPECT_EQ(CheckDecomposition(grad), absl::OkStatus());
  }
}

TEST(BatchNormalizationTest, ImagesInBlocksOfChannels) {
  const Shape image = {2, 2, 1, 2, 16};
  const Shape c = {32};
  const Literal x = RandomLiteral(image, 1), scale = RandomLiteral(c, 2);
  const Literal bias = RandomLiteral(c, 3), mean = RandomLiteral(c, 4);
  const Literal variance = RandomLiteral(c, 5, 0.5, 2);
  const AttrMap attrs = {{"epsilon", 1e-3}, {"layout", "NCHW16c"}};
  EXPECT_EQ(InferText("weft.BatchNormTraining", attrs,
                      {"f32[2,2,1,2,16]", "f32[32]", "f32[32]"}),
            "f32[2,2,1,2,16] f32[32] f32[32]");
  EXPECT_THAT(InferText("weft.BatchNormTraining", attrs,
                        {"f32[2,2,1,2,16]", "f32[2]", "f32[2]"}),
              ErrorWith("WEFT-2004", {"32", "[2]"}));
  OpCase training = {"weft.BatchNormTraining", attrs, {x, scale, bias}};
  EXPECT_EQ(CheckGradient(training), absl::OkStatus());
  EXPECT_EQ(CheckDecomposition(training), absl::OkStatus());
  OpCase model = {
      "BatchNormalization", attrs, {x, scale, bias, mean, variance}};
  GradientCheckOptions statistics_are_state;
  statistics_are_state.skip_inputs = {3, 4};
  EXPECT_EQ(CheckGradient(model, statistics_are_state), absl::OkStatus());
  EXPECT_EQ(CheckDecomposition(model), absl::OkStatus());
  EXPECT_EQ(
      CheckDecomposition({"weft.BatchNormGrad",
                          attrs,
                          {RandomLiteral(image, 6), x, scale, mean, variance}}),
      absl::OkStatus());
}

// An empty batch has no mean: statistics are NaN, by every way.
TEST(BatchNormalizationTest, EmptyBatch) {
  Shape c = {2};
  OpCase training = {
      "weft.BatchNormTraining",
      {},
      {RandomLiteral({0, 2, 3}, 1), RandomLiteral(c, 2), RandomLiteral(c, 3)}};
  EXPECT_THAT(ResultOf(training, 1),
              ElementsAre(testing::IsNan(), testing::IsNan()));
  EXPECT_EQ(CheckDecomposition(training), absl::OkStatus());
  OpCase model = BatchNormalization({0, 2, 3}, 0);
  EXPECT_EQ(CheckGradient(model, {1e-5, 1e-6, {3, 4}}), absl::OkStatus());
  EXPECT_EQ(CheckDecomposition(model), absl::OkStatus());
}

TEST(LayerNormalizationTest, InfersAndChecks) {
  const std::string x = "f32[2,3,4]";
  EXPECT_EQ(InferText("LayerNormalization", {}, {x, "f32[4]", "f32[4]"}),
            "f32[2,3,4] f32[2,3,1] f32[2,3,1]");
  EXPECT_EQ(InferText("LayerNormalization", {{"axis", 1}}, {x, "f32[3,4]"}),
            "f32[2,3,4] f32[2,1,1] f32[2,1,1]");
  EXPECT_EQ(InferText("LayerNormalization", {{"axis", -3}}, {x, "f32[2,3,4]"}),
            "f32[2,3,4] f32[1,1,1] f32[1,1,1]");
  EXPECT_THAT(InferText("LayerNormalization", {}, {x, "f32[3]"}),
              ErrorWith("WEFT-2004", {"[4]", "[2,3,4]", "[3]"}));
  EXPECT_THAT(InferText("LayerNormalization", {}, {x, "f32[4]", "f32[3,4]"}),
              ErrorWith("WEFT-2004", {"operand 2", "[3,4]"}));
  EXPECT_THAT(InferText("LayerNormalization", {{"axis", 3}}, {x, "f32[4]"}),
              ErrorWith("WEFT-2003", {"3"}));
  EXPECT_THAT(InferText("LayerNormalization", {}, {"f32[]", "f32[]"}),
              ErrorWith("WEFT-2003", {"rank 0"}));
  EXPECT_THAT(InferText("LayerNormalization", {}, {x, "f64[4]"}),
              ErrorWith("WEFT-2005", {x, "f64[4]"}));
  EXPECT_THAT(InferText("LayerNormalization", {}, {"i32[4]", "i32[4]"}),
              ErrorWith("WEFT-2005", {"i32[4]"}));
  EXPECT_EQ(InferText("LayerNormalization", {}, {x, "f32[4]", "", x}, 4),
            "f32[2,3,4] f32[2,3,1] f32[2,3,1] f32[2,3,4]");
  EXPECT_THAT(InferText("LayerNormalization", {}, {x, "f32[4]"}, 4),
              ErrorWith("WEFT-2006", {"4"}));
  EXPECT_THAT(
      InferText("LayerNormalization", {}, {x, "f32[4]", "", "f32[2,3]"}),
      ErrorWith("WEFT-2004", {"[2,3,4]", "[2,3]"}));
  const std::string stat = "f32[2,3,1]";
  EXPECT_EQ(InferText("weft.LayerNormGrad", {}, {x, x, "f32[4]", stat, stat}),
            "f32[2,3,4] f32[4] f32[4]");
  EXPECT_THAT(
      InferText("weft.LayerNormGrad", {}, {x, x, "f32[4]", stat, "f32[2,3]"}),
      ErrorWith("WEFT-2004", {"[2,3,1]", "[2,3]"}));
  EXPECT_THAT(InferText("weft.LayerNormGrad", {},
                        {"f32[2,3]", x, "f32[4]", stat, stat}),
              ErrorWith("WEFT-2004", {"[2,3]", "[2,3,4]"}));
}

TEST(LayerNormalizationTest, ComputesByHand) {
  OpCase c = {
      "LayerNormalization",
      {{"epsilon", 0.44}},
      {Literal::Of<double>({2, 2}, {1, 3, 5, 5}),
       Literal::Of<double>({2}, {10, 1}), Literal::Of<double>({2}, {0.5, -1})}};
  EXPECT_THAT(ResultOf(c, 0), Near({0.5 - 10 / 1.2, -1 + 1 / 1.2, 0.5, -1}));
  EXPECT_THAT(ResultOf(c, 1), ElementsAre(2, 5));
  EXPECT_THAT(ResultOf(c, 2), Near({1 / 1.2, 1 / std::sqrt(0.44)}));
}

TEST(LayerNormalizationTest, GradientAndDecomposition) {
  struct Case {
    Shape x;
    int axis;
    Shape normalized;
  };
  for (const Case& k : std::vector<Case>{{{3, 4}, -1, {4}},
                                         {{4}, 0, {4}},
                                         {{2, 3, 4}, 1, {3, 4}},
                                         {{2, 3, 2}, 0, {2, 3, 2}},
                                         {{2, 1, 3}, 2, {3}},
                                         {{0, 3}, -1, {3}}}) {
    SCOPED_TRACE(testing::Message() << k.x.ToString() << " axis " << k.axis);
    OpCase c = {"LayerNormalization",
                {{"axis", k.axis}, {"epsilon", 1e-3}},
                {RandomLiteral(k.x, 1), RandomLiteral(k.normalized, 2),
                 RandomLiteral(k.normalized, 3)}};
    EXPECT_EQ(CheckGradient(c), absl::OkStatus());
    EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
    OpCase of_sum = c;
    of_sum.inputs.push_back(RandomLiteral(k.x, 5));
    for (int outputs : {3, 4}) {  // without and with the sum
      of_sum.num_outputs = outputs;
      EXPECT_EQ(CheckGradient(of_sum), absl::OkStatus());
      EXPECT_EQ(CheckDecomposition(of_sum), absl::OkStatus());
    }
    c.inputs.pop_back();
    EXPECT_EQ(CheckGradient(c), absl::OkStatus());
    EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
    std::vector<Literal> y = weft::RunOp(c).value();
    EXPECT_EQ(CheckDecomposition({"weft.LayerNormGrad",
                                  {{"axis", k.axis}},
                                  {RandomLiteral(k.x, 4), c.inputs[0],
                                   c.inputs[1], y[1], y[2]}}),
              absl::OkStatus());
  }
  // Rows of no elements have no mean.
  OpCase empty_rows = {"LayerNormalization",
                       {},
                       {RandomLiteral({2, 0}, 1), RandomLiteral({0}, 2)}};
  EXPECT_THAT(ResultOf(empty_rows, 1),
              ElementsAre(testing::IsNan(), testing::IsNan()));
  EXPECT_EQ(CheckDecomposition(empty_rows), absl::OkStatus());
}

}  // namespace
}  // namespace weft
