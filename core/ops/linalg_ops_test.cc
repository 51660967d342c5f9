#include "core/reference/gradient_check.h"
#include "core/reference/schema_check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using testing::ElementsAre;

// Small integers, so that products are exact: 1, 2, 3, ...
Literal Counting(const Shape& shape) {
  std::vector<double> values(shape.num_elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = i + 1.0;
  return Literal::FromDoubles({DType::kF64, shape}, values);
}

TEST(MatMulTest, InfersNumpyShapes) {
  struct Case {
    const char *a, *b, *out;
  };
  for (const Case& c : std::vector<Case>{
           {"f32[2,3]", "f32[3,4]", "f32[2,4]"},
           {"f64[3]", "f64[3]", "f64[]"},
           {"f16[3]", "f16[3,4]", "f16[4]"},
           {"bf16[2,3]", "bf16[3]", "bf16[2]"},
           {"f32[3]", "f32[5,3,4]", "f32[5,4]"},
           {"f32[5,2,3]", "f32[3]", "f32[5,2]"},
           {"f32[7,1,2,3]", "f32[5,3,4]", "f32[7,5,2,4]"},
           {"f32[0,3]", "f32[3,4]", "f32[0,4]"},
           {"f32[2,0]", "f32[0,4]", "f32[2,4]"},
           {"f32[0,2,3]", "f32[1,3,4]", "f32[0,2,4]"},
       }) {
    EXPECT_EQ(InferText("MatMul", {}, {c.a, c.b}), c.out);
  }
}

TEST(MatMulTest, ErrorsNameBothShapes) {
  EXPECT_THAT(InferText("MatMul", {}, {"f32[2,3]", "f32[4,5]"}),
              ErrorWith("WEFT-2004", {"'n'", "[2,3]", "[4,5]", "3 and 4"}));
  EXPECT_THAT(InferText("MatMul", {}, {"f32[]", "f32[4,5]"}),
              ErrorWith("WEFT-2004", {"[]", "[4,5]", "scalar"}));
  EXPECT_THAT(InferText("MatMul", {}, {"f32[2,1,3]", "f32[5,3,4]"}),
              ErrorWith("WEFT-2004", {"[2,1,3]", "[5,3,4]", "batch"}));
  EXPECT_THAT(InferText("MatMul", {}, {"f32[2,3]", "f64[3,4]"}),
              ErrorWith("WEFT-2005", {"f32[2,3]", "f64[3,4]"}));
  EXPECT_THAT(InferText("MatMul", {}, {"i32[2,3]", "i32[3,4]"}),
              ErrorWith("WEFT-2005", {"float", "i32[2,3]"}));
  EXPECT_THAT(InferText("MatMul", {}, {"f32[2,3]"}),
              ErrorWith("WEFT-2006", {"2"}));
}

TEST(MatMulTest, MultipliesByHand) {
  // [1 2 3; 4 5 6] x [1 2; 3 4; 5 6]
  EXPECT_THAT(ResultOf({"MatMul", {}, {Counting({2, 3}), Counting({3, 2})}}),
              ElementsAre(22, 28, 49, 64));
  EXPECT_THAT(ResultOf({"MatMul", {}, {Counting({3}), Counting({3})}}),
              ElementsAre(14));
  // Two matrices on the left, one on the right.
  EXPECT_THAT(ResultOf({"MatMul", {}, {Counting({2, 1, 2}), Counting({2, 2})}}),
              ElementsAre(7, 10, 15, 22));
  // An empty sum is 0.
  EXPECT_THAT(ResultOf({"MatMul", {}, {Counting({1, 0}), Counting({0, 2})}}),
              ElementsAre(0, 0));
}

TEST(MatMulTest, Gradient) {
  const std::vector<std::pair<Shape, Shape>> cases = {{{2, 3}, {3, 4}},
                                                      {{3}, {3}},
                                                      {{3}, {3, 2}},
                                                      {{2, 3}, {3}},
                                                      {{2, 2, 3}, {3, 2}},
                                                      {{2, 2, 3}, {2, 3, 2}},
                                                      {{2, 1, 2, 3}, {2, 3, 2}},
                                                      {{3}, {2, 3, 2}},
                                                      {{2, 2, 3}, {3}},
                                                      {{0, 3}, {3, 2}},
                                                      {{2, 0}, {0, 2}},
                                                      {{2, 0, 3}, {3, 2}},
                                                      {{1, 2, 3}, {2, 3, 0}}};
  for (const auto& [a, b] : cases) {
    SCOPED_TRACE(a.ToString() + " x " + b.ToString());
    OpCase c = {"MatMul", {}, {RandomLiteral(a, 1), RandomLiteral(b, 2)}};
    EXPECT_EQ(CheckGradient(c), absl::OkStatus());
  }
}

// Transposing would copy the operands; Gemm's flags do not.
TEST(MatMulTest, GradientOfMatricesIsTwoGemms) {
  EXPECT_THAT(GradientOps("MatMul", {}, {"f32[2,3]", "f32[3,4]"}),
              ElementsAre("Gemm", "Gemm"));
  EXPECT_THAT(GradientOps("Gemm", {{"transB", 1}}, {"f32[2,3]", "f32[4,3]"}),
              ElementsAre("Gemm", "Gemm"));
}

AttrMap GemmAttrs(int trans_a, int trans_b) {
  return {
      {"alpha", 0.5}, {"beta", -2.0}, {"transA", trans_a}, {"transB", trans_b}};
}

TEST(GemmTest, InfersAndChecks) {
  EXPECT_EQ(InferText("Gemm", {}, {"f32[2,3]", "f32[3,4]"}), "f32[2,4]");
  EXPECT_EQ(
      InferText("Gemm", GemmAttrs(1, 0), {"f32[3,2]", "f32[3,4]", "f32[4]"}),
      "f32[2,4]");
  EXPECT_EQ(
      InferText("Gemm", GemmAttrs(0, 1), {"f32[2,3]", "f32[4,3]", "f32[]"}),
      "f32[2,4]");
  EXPECT_EQ(InferText("Gemm", {}, {"f32[2,3]", "f32[3,4]", ""}), "f32[2,4]");
  EXPECT_THAT(
      InferText("Gemm", GemmAttrs(1, 1), {"f32[2,3]", "f32[3,4]"}),
      ErrorWith("WEFT-2004", {"[2,3] (transposed)", "[3,4]", "2 and 4"}));
  EXPECT_THAT(InferText("Gemm", {}, {"f32[2,2,3]", "f32[3,4]"}),
              ErrorWith("WEFT-2004", {"[2,2,3]", "matrices"}));
  EXPECT_THAT(InferText("Gemm", {}, {"f32[2,3]", "f32[3,4]", "f32[3]"}),
              ErrorWith("WEFT-2004", {"[3]", "[2,4]"}));
  // C must not widen the product.
  EXPECT_THAT(InferText("Gemm", {}, {"f32[1,3]", "f32[3,4]", "f32[2,4]"}),
              ErrorWith("WEFT-2004", {"[2,4]", "[1,4]"}));
  EXPECT_THAT(InferText("Gemm", {}, {"f32[2,3]", "f32[3,4]", "f64[4]"}),
              ErrorWith("WEFT-2005", {"f64[4]"}));
  EXPECT_THAT(InferText("Gemm", {{"transA", 2}}, {"f32[2,3]", "f32[3,4]"}),
              ErrorWith("WEFT-2003", {"transA", "2"}));
}

TEST(GemmTest, MultipliesByHand) {
  // 0.5 [1 2; 3 4]^T [1 2; 3 4] - 2 [1 2]
  EXPECT_THAT(ResultOf({"Gemm",
                        GemmAttrs(1, 0),
                        {Counting({2, 2}), Counting({2, 2}), Counting({2})}}),
              ElementsAre(5 - 2, 7 - 4, 7 - 2, 10 - 4));
}

TEST(GemmTest, GradientAndDecomposition) {
  for (int trans_a : {0, 1}) {
    for (int trans_b : {0, 1}) {
      for (const Shape& c_shape :
           std::vector<Shape>{{2, 4}, {4}, {2, 1}, {1, 1}, {}}) {
        SCOPED_TRACE(testing::Message()
                     << trans_a << trans_b << " C " << c_shape.ToString());
        Shape a = trans_a ? Shape({3, 2}) : Shape({2, 3});
        Shape b = trans_b ? Shape({4, 3}) : Shape({3, 4});
        OpCase c = {"Gemm",
                    GemmAttrs(trans_a, trans_b),
                    {RandomLiteral(a, 1), RandomLiteral(b, 2),
                     RandomLiteral(c_shape, 3)}};
        EXPECT_EQ(CheckGradient(c), absl::OkStatus());
        EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
        OpCase activated = c;
        activated.attrs.Set("activation", "relu");
        EXPECT_EQ(CheckGradient(activated), absl::OkStatus());
        EXPECT_EQ(CheckDecomposition(activated), absl::OkStatus());
        c.inputs.pop_back();
        EXPECT_EQ(CheckGradient(c), absl::OkStatus());
        EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
      }
    }
  }
  OpCase empty = {"Gemm",
                  {},
                  {RandomLiteral({0, 3}, 1), RandomLiteral({3, 2}, 2),
                   RandomLiteral({2}, 3)}};
  EXPECT_EQ(CheckGradient(empty), absl::OkStatus());
  EXPECT_EQ(CheckDecomposition(empty), absl::OkStatus());
}

TEST(GemmTest, CostCountsMultiplyAndAdd) {
  EXPECT_EQ(CostOf("MatMul", {}, {"f32[2,3]", "f32[3,4]"}).flops,
            2 * 2 * 3 * 4);
  EXPECT_EQ(CostOf("MatMul", {}, {"f32[2,3]", "f32[3,4]"}).bytes,
            4 * (6 + 12 + 8));
  EXPECT_EQ(CostOf("Gemm", {}, {"f32[2,3]", "f32[3,4]", "f32[4]"}).flops,
            2 * 2 * 3 * 4 + 2 * 8);
}

}  // namespace
}  // namespace weft
