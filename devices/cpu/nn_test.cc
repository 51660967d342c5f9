// Matrix products, convolution, pooling, normalisation, softmax and losses
// against the reference.
#include <cmath>
#include <cstdlib>
#include <vector>

#include "devices/cpu/kernel_harness.h"
#include "gtest/gtest.h"

namespace weft::cpu {
namespace {

using Ints = std::vector<int64_t>;
const DType kFloats[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};

// 16-bit results of several roundings inside would need other tolerances.
const DType kWide[] = {DType::kF32, DType::kF64};

TEST(MatMul, Batches) {
  Values values(1);
  for (DType dtype : kFloats) {
    for (const auto& [a, b] :
         std::vector<std::pair<Shape, Shape>>{{{33, 65}, {65, 17}},
                                              {{64}, {64, 9}},
                                              {{5, 64}, {64}},
                                              {{31}, {31}},
                                              {{7, 3, 20}, {20, 11}},
                                              {{7, 3, 20}, {7, 20, 11}},
                                              {{3, 20}, {7, 20, 11}},
                                              {{2, 1, 5, 6}, {3, 6, 4}},
                                              {{2, 3, 1, 6}, {2, 3, 6, 1}},
                                              {{4, 1, 3, 5}, {1, 2, 5, 3}},
                                              {{4}, {2, 4, 3}},
                                              {{2, 3, 4}, {4}},
                                              {{0, 4}, {4, 3}},
                                              {{3, 0}, {0, 4}},
                                              {{0, 3, 4}, {4, 5}}}) {
      ExpectMatchesReference(
          {"MatMul",
           {},
           {values.Uniform(dtype, a, -1, 1), values.Uniform(dtype, b, -1, 1)}},
          Numerics::kAccumulated);
    }
  }
}

TEST(Gemm, TransposesScalesAndAddends) {
  Values values(2);
  for (DType dtype : kFloats) {
    for (int ta : {0, 1}) {
      for (int tb : {0, 1}) {
        for (double alpha : {1.0, -0.5}) {
          for (const Shape& c : {Shape({9, 14}), Shape({14}), Shape({9, 1}),
                                 Shape(), Shape({1, 14})}) {
            AttrMap attrs = {{"transA", ta},
                             {"transB", tb},
                             {"alpha", alpha},
                             {"beta", alpha == 1.0 ? 1.0 : 2.0}};
            std::vector<Literal> inputs = {
                values.Uniform(dtype, ta ? Shape({20, 9}) : Shape({9, 20}), -1,
                               1),
                values.Uniform(dtype, tb ? Shape({14, 20}) : Shape({20, 14}),
                               -1, 1)};
            ExpectMatchesReference({"Gemm", attrs, inputs},
                                   Numerics::kAccumulated);
            inputs.push_back(values.Uniform(dtype, c, -1, 1));
            ExpectMatchesReference({"Gemm", attrs, inputs},
                                   Numerics::kAccumulated);
          }
        }
      }
    }
  }
}

// Large enough for dnnl_sgemm; the last two are cut into blocks, too.
TEST(Gemm, LargeProducts) {
  // isa_test compares no products.
  if (std::getenv("TEST_ISA") != nullptr) GTEST_SKIP() << "slow reference";
  Values values(12);
  auto expect = [&](int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
    OpCase product = {
        "Gemm",
        {{"transA", ta ? 1 : 0},
         {"transB", tb ? 1 : 0},
         {"alpha", -0.5},
         {"beta", 2.0}},
        {values.Uniform(DType::kF32, ta ? Shape({k, m}) : Shape({m, k}), -1, 1),
         values.Uniform(DType::kF32, tb ? Shape({n, k}) : Shape({k, n}), -1,
                        1)}};
    ExpectMatchesReference(product, Numerics::kAccumulated);
    product.inputs.push_back(values.Uniform(DType::kF32, {m, n}, -1, 1));
    ExpectMatchesReference(product, Numerics::kAccumulated);
  };
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      expect(96, 80, 72, ta, tb);
      expect(1, 600, 900, ta, tb);
      expect(600, 1, 900, ta, tb);
      if (ta == tb) expect(800, 700, 1, ta, tb);
    }
  }
  expect(130, 260, 500, false, true);
  expect(260, 130, 500, true, false);
  // One product of all rows.
  ExpectMatchesReference({"MatMul",
                          {},
                          {values.Uniform(DType::kF32, {3, 40, 60}, -1, 1),
                           values.Uniform(DType::kF32, {60, 150}, -1, 1)}},
                         Numerics::kAccumulated);
}

// Of few rows, whose operands are turned around, and of some more or fewer.
TEST(Gemm, FewRows) {
  if (std::getenv("TEST_ISA") != nullptr) GTEST_SKIP() << "slow reference";
  Values values(13);
  const auto expect = [&](int64_t m, int64_t n, int64_t k) {
    OpCase product = {"Gemm",
                      {{"transB", 1}},
                      {values.Uniform(DType::kF32, {m, k}, -1, 1),
                       values.Uniform(DType::kF32, {n, k}, -1, 1)}};
    ExpectMatchesReference(product, Numerics::kAccumulated);
    product.inputs.push_back(values.Uniform(DType::kF32, {n}, -1, 1));
    ExpectMatchesReference(product, Numerics::kAccumulated);
    product.attrs.Set("activation", "relu");
    ExpectMatchesReference(product, Numerics::kAccumulated);
  };
  expect(16, 256, 256);
  expect(48, 272, 300);
  expect(128, 256, 520);  // in blocks
  expect(64, 784, 512);
  expect(80, 256, 300);  // few terms for so many rows
  for (int64_t more : {-1, 1}) {
    expect(16 + more, 256, 256);
    expect(16, 256 + more, 256);
    expect(16, 256, 256 + more);
  }
}

struct ConvCase {
  Shape x, w;
  Ints strides, pads, dilations;
  int64_t group;
};

TEST(Conv, ForwardAndGradients) {
  Values values(3);
  const std::vector<ConvCase> cases = {
      {{2, 1, 12, 12}, {8, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
      {{2, 16, 9, 9}, {32, 16, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 1},
      {{1, 6, 10, 7}, {4, 3, 3, 2}, {1, 2}, {0, 1, 2, 0}, {2, 1}, 2},
      {{2, 8, 6, 6}, {8, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 8},
      {{3, 5, 4, 4}, {7, 5, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
      {{1, 2, 5, 5}, {3, 2, 5, 5}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
      {{2, 3, 8, 8}, {4, 3, 3, 3}, {3, 3}, {0, 0, 0, 0}, {1, 1}, 1},
      {{0, 3, 8, 8}, {4, 3, 3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1}};
  for (DType dtype : kFloats) {
    for (const ConvCase& c : cases) {
      AttrMap attrs = {{"strides", c.strides},
                       {"pads", c.pads},
                       {"dilations", c.dilations},
                       {"group", c.group}};
      Literal x = values.Uniform(dtype, c.x, -1, 1);
      Literal w = values.Uniform(dtype, c.w, -1, 1);
      Literal bias = values.Uniform(dtype, {c.w.dim(0)}, -1, 1);
      OpCase forward{"Conv", attrs, {x, w}};
      ExpectMatchesReference(forward, Numerics::kAccumulated);
      ExpectMatchesReference({"Conv", attrs, {x, w, bias}},
                             Numerics::kAccumulated);
      Literal dy = values.Uniform(dtype, OutputTypes(forward)[0].shape, -1, 1);
      AttrMap to_input = attrs, to_weights = attrs;
      to_input.Set("input_shape", Ints(c.x.dims().begin(), c.x.dims().end()));
      to_weights.Set("weight_shape",
                     Ints(c.w.dims().begin(), c.w.dims().end()));
      ExpectMatchesReference({"weft.ConvGradInput", to_input, {dy, w}},
                             Numerics::kAccumulated);
      ExpectMatchesReference({"weft.ConvGradWeights", to_weights, {dy, x}},
                             Numerics::kAccumulated);
      ExpectMatchesReference({"weft.ConvGradWeights", to_weights, {dy, x}, 2},
                             Numerics::kAccumulated);
    }
  }
}

TEST(Pool, ForwardAndGradients) {
  Values values(4);
  struct Case {
    Shape x;
    Ints kernel, strides, pads;
    int ceil_mode;
  };
  const std::vector<Case> cases = {
      {{2, 3, 8, 8}, {2, 2}, {2, 2}, {0, 0, 0, 0}, 0},
      {{2, 3, 9, 23}, {2, 2}, {2, 2}, {0, 0, 0, 0}, 0},
      {{2, 2, 7, 9}, {3, 2}, {2, 1}, {1, 0, 1, 1}, 0},
      {{1, 2, 7, 7}, {3, 3}, {2, 2}, {1, 1, 0, 1}, 1},
      {{1, 1, 6, 6}, {3, 3}, {2, 2}, {0, 0, 0, 0}, 1},
      {{2, 1, 4, 4}, {4, 4}, {1, 1}, {0, 0, 0, 0}, 0},
      {{0, 1, 4, 4}, {2, 2}, {1, 1}, {0, 0, 0, 0}, 0}};
  for (DType dtype : kFloats) {
    for (const Case& c : cases) {
      AttrMap attrs = {{"kernel_shape", c.kernel},
                       {"strides", c.strides},
                       {"pads", c.pads},
                       {"ceil_mode", c.ceil_mode}};
      // Few values, so that windows have equal maxima.
      Literal x = Literal::FromDoubles(
          {dtype, c.x}, values.Uniform(DType::kI32, c.x, -2, 3).ToDoubles());
      OpCase max{"MaxPool", attrs, {x}};
      ExpectMatchesReference(max, Numerics::kExact);
      Literal dy = values.Uniform(dtype, OutputTypes(max)[0].shape, -1, 1);
      ExpectMatchesReference({"weft.MaxPoolGrad", attrs, {dy, x}},
                             Numerics::kAccumulated);
      for (int include : {0, 1}) {
        AttrMap average = attrs;
        average.Set("count_include_pad", include);
        ExpectMatchesReference({"AveragePool", average, {x}},
                               Numerics::kAccumulated);
        average.Set("input_shape", Ints(c.x.dims().begin(), c.x.dims().end()));
        ExpectMatchesReference({"weft.AveragePoolGrad", average, {dy}},
                               Numerics::kAccumulated);
      }
      ExpectMatchesReference({"GlobalAveragePool", {}, {x}},
                             Numerics::kAccumulated);
    }
  }
  ExpectMatchesReference({"MaxPool",
                          {{"kernel_shape", Ints{2, 2}}},
                          {values.Special(DType::kF32, {1, 2, 9, 9})}},
                         Numerics::kExact);
  // NaN is above all numbers in the windows side by side, too.
  for (DType dtype : kWide) {
    ExpectMatchesReference(
        {"MaxPool",
         {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}},
         {values.Special(dtype, {1, 4, 10, 30})}},
        Numerics::kExact);
  }
}

TEST(Norm, BatchNormalization) {
  Values values(5);
  for (DType dtype : kWide) {
    for (const Shape& shape :
         {Shape({4, 3, 5, 6}), Shape({30, 7}), Shape({2, 3, 40})}) {
      auto channel = [&](double low) {
        return values.Uniform(dtype, {shape.dim(1)}, low, low + 1);
      };
      Literal x = values.Uniform(dtype, shape, -1, 3);
      Literal scale = channel(0.5), bias = channel(-0.5);
      Literal mean = channel(-0.5), variance = channel(0.5);
      for (int training : {0, 1}) {
        ExpectMatchesReference({"BatchNormalization",
                                {{"training_mode", training}},
                                {x, scale, bias, mean, variance},
                                training == 1 ? 3 : 1},
                               Numerics::kAccumulated);
      }
      ExpectMatchesReference(
          {"weft.BatchNormTraining", {{"epsilon", 1e-3}}, {x, scale, bias}},
          Numerics::kAccumulated);
      ExpectMatchesReference(
          {"weft.BatchNormGrad",
           {{"epsilon", 1e-3}},
           {values.Uniform(dtype, shape, -1, 1), x, scale, mean, variance}},
          Numerics::kAccumulated);
    }
  }
}

TEST(Norm, LayerNormalization) {
  Values values(6);
  for (DType dtype : kWide) {
    for (int64_t axis : {1, 2, -1}) {
      const Shape shape({3, 5, 70});
      Shape normalised = axis == 1 ? Shape({5, 70}) : Shape({70});
      Shape statistic = axis == 1 ? Shape({3, 1, 1}) : Shape({3, 5, 1});
      Literal x = values.Uniform(dtype, shape, -1, 3);
      Literal scale = values.Uniform(dtype, normalised, 0.5, 1.5);
      Literal bias = values.Uniform(dtype, normalised, -1, 1);
      AttrMap attrs = {{"axis", axis}};
      ExpectMatchesReference({"LayerNormalization", attrs, {x, scale, bias}},
                             Numerics::kAccumulated);
      ExpectMatchesReference({"LayerNormalization", attrs, {x, scale}},
                             Numerics::kAccumulated);
      ExpectMatchesReference({"weft.LayerNormGrad",
                              attrs,
                              {values.Uniform(dtype, shape, -1, 1), x, scale,
                               values.Uniform(dtype, statistic, -1, 1),
                               values.Uniform(dtype, statistic, 0.5, 1)}},
                             Numerics::kAccumulated);
    }
  }
}

TEST(Softmax, EveryAxis) {
  Values values(7);
  for (DType dtype : kFloats) {
    for (const char* op : {"Softmax", "LogSoftmax"}) {
      for (int64_t axis : {0, 1, 2, -1}) {
        ExpectMatchesReference(
            {op, {{"axis", axis}}, {values.Uniform(dtype, {4, 19, 3}, -8, 8)}},
            Numerics::kAccumulated);
      }
      // No overflow, however large the scores.
      ExpectMatchesReference(
          {op, {}, {values.Uniform(dtype, {3, 10}, 1000, 1010)}},
          Numerics::kAccumulated);
    }
  }
}

// Runs an attention and its gradient.
void ExpectAttention(const AttrMap& attrs, const Literal& qkv,
                     const Literal& counter, Values* values) {
  OpCase forward{"weft.SelfAttention", attrs, {qkv}};
  const bool drops = counter.type().dtype != DType::kInvalid;
  if (drops) forward.inputs.push_back(counter);
  ExpectMatchesReference(forward, Numerics::kAccumulated);
  absl::StatusOr<std::vector<Literal>> y = RunOnCpu(forward, {});
  ASSERT_TRUE(y.ok()) << y.status();
  const TensorType type = (*y)[0].type();
  OpCase grad{
      "weft.SelfAttentionGrad",
      attrs,
      {qkv, (*y)[0], (*y)[1], values->Uniform(type.dtype, type.shape, -1, 1)}};
  if (drops) {
    const TensorType lse = (*y)[1].type();
    grad.inputs.push_back(values->Uniform(lse.dtype, lse.shape, -1, 1));
    grad.inputs.push_back(counter);
  }
  ExpectMatchesReference(grad, Numerics::kAccumulated);
  if (drops) return;
  // The second result has a gradient too; no counter follows it.
  const TensorType lse = (*y)[1].type();
  grad.inputs.push_back(values->Uniform(lse.dtype, lse.shape, -1, 1));
  ExpectMatchesReference(grad, Numerics::kAccumulated);
}

TEST(Attention, ShapesAndHeads) {
  Values values(9);
  struct Case {
    int64_t batch, tokens, heads, head;
  };
  for (DType dtype : kFloats) {
    for (const Case& c : std::vector<Case>{{2, 1, 3, 4},
                                           {1, 31, 2, 16},
                                           {2, 33, 1, 20},
                                           {1, 128, 2, 32},
                                           {1, 131, 1, 7},
                                           {1, 301, 1, 40},
                                           {0, 5, 1, 4},
                                           {1, 0, 1, 4}}) {
      for (int causal : {0, 1}) {
        Literal qkv = values.Uniform(
            dtype, {c.batch, c.tokens, 3 * c.heads * c.head}, -2, 2);
        AttrMap attrs = {{"heads", c.heads}, {"causal", causal}};
        ExpectAttention(attrs, qkv, Literal(), &values);
        if (dtype != DType::kF32) continue;
        attrs.Set("scale", 0.3);
        attrs.Set("ratio", 0.2);
        attrs.Set("seed", 5);
        attrs.Set("stream", 6);
        ExpectAttention(attrs, qkv, Literal::Of<int64_t>({2}, {3, 1}), &values);
        // The second half of a batch, the last third of its heads.
        attrs.Set("cuts", std::vector<int64_t>{0, 2, 1, 1, 1, 3, 2, 1});
        ExpectAttention(attrs, qkv, Literal::Of<int64_t>({2}, {3, 1}), &values);
      }
    }
  }
}

TEST(Attention, ABlockOfScoresThatOverflow) {
  // As many keys as a block has and more: products of -infinity, all weights 0.
  constexpr int64_t kTokens = 300, kFar = 260;
  for (DType dtype : kWide) {
    const double large = dtype == DType::kF32 ? 1e20 : 1e160;
    std::vector<double> qkv;
    for (int64_t t = 0; t < kTokens; ++t) {
      const double key = t < kFar ? -large : 1 / large, value = double(t);
      qkv.insert(qkv.end(), {large, large, key, key, value, -value});
    }
    const Literal operand = Literal::FromDoubles({dtype, {1, kTokens, 6}}, qkv);
    absl::StatusOr<std::vector<Literal>> y = RunOnCpu(
        {"weft.SelfAttention", {{"heads", 1}, {"scale", 1.0}}, {operand}}, {});
    ASSERT_TRUE(y.ok()) << y.status();
    const double mean = (kFar + kTokens - 1) / 2.0;  // of the others' values
    for (int64_t t = 0; t < kTokens; ++t) {
      EXPECT_NEAR((*y)[0].ToDoubles()[2 * t], mean, 1e-4);
      EXPECT_NEAR((*y)[0].ToDoubles()[2 * t + 1], -mean, 1e-4);
      EXPECT_NEAR((*y)[1].ToDoubles()[t], 2 + std::log(kTokens - kFar), 1e-4);
    }
  }
}

TEST(Attention, ScoresFarApart) {
  Values values(10);
  for (DType dtype : kWide) {
    // Weights next to nothing, and maxima that grow from block to block. (The
    // error of a weight is that of a score, which grows with it.)
    ExpectAttention({{"heads", 2}, {"causal", 1}},
                    values.Uniform(dtype, {1, 300, 48}, -5, 5), Literal(),
                    &values);
  }
}

// A row knows nothing of what it does not see, infinities and NaN included.
TEST(Attention, SpecialValues) {
  Values values(11);
  for (DType dtype : kWide) {
    for (int causal : {0, 1}) {
      std::vector<double> x =
          values.Uniform(dtype, {2, 70, 24}, -1, 1).ToDoubles();
      x[50 * 24 + 3] = INFINITY;       // a query
      x[55 * 24 + 10] = std::nan("");  // a key
      x[60 * 24 + 20] = -INFINITY;     // a value
      x[70 * 24 + 5] = -0.0;
      x[70 * 24 + 6] = 1e-40;
      AttrMap attrs = {{"heads", 2}, {"causal", causal}};
      ExpectAttention(attrs, Literal::FromDoubles({dtype, {2, 70, 24}}, x),
                      Literal(), &values);
      attrs.Set("ratio", 0.4);
      ExpectAttention(attrs, Literal::FromDoubles({dtype, {2, 70, 24}}, x),
                      Literal::Of<int64_t>({2}, {3, 1}), &values);
    }
  }
}

TEST(Loss, CrossEntropyWithWeightsAndSmoothing) {
  Values values(8);
  for (DType dtype : kFloats) {
    for (double smoothing : {0.0, 0.1, 1.0}) {
      AttrMap attrs = {{"label_smoothing", smoothing}};
      Literal scores = values.Uniform(dtype, {37, 10}, -3, 3);
      Literal weights = Literal::FromDoubles(
          {dtype, {37}}, values.Uniform(DType::kI32, {37}, 0, 3).ToDoubles());
      for (DType label : {DType::kI32, DType::kI64}) {
        Literal labels = values.Uniform(label, {37}, 0, 10);
        OpCase loss{
            "weft.SoftmaxCrossEntropyLoss", attrs, {scores, labels, weights}};
        ExpectMatchesReference(loss, Numerics::kAccumulated);
        absl::StatusOr<std::vector<Literal>> forward = RunOnCpu(loss, {});
        ASSERT_TRUE(forward.ok()) << forward.status();
        ExpectMatchesReference({"weft.SoftmaxCrossEntropyLossGrad",
                                attrs,
                                {values.Uniform(dtype, {}, 0.5, 2),
                                 (*forward)[1], labels, weights}},
                               Numerics::kAccumulated);
      }
    }
  }
}

}  // namespace
}  // namespace weft::cpu
