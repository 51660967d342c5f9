// Ops with an epilogue: the bits of the ops that they stand for, and close to
// the reference.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/ops/image_layout.h"
#include "devices/cpu/kernel_harness.h"
#include "gtest/gtest.h"

namespace weft::cpu {
namespace {

std::vector<Literal> ResultsOf(const OpCase& c) {
  absl::StatusOr<std::vector<Literal>> out = RunOnCpu(c, {});
  EXPECT_TRUE(out.ok()) << c.ToString() << ": " << out.status();
  return out.ok() ? *out : std::vector<Literal>(4);
}

void ExpectSameBits(const Literal& got, const Literal& want,
                    const std::string& what) {
  EXPECT_EQ(got.type(), want.type()) << what;
  EXPECT_TRUE(got.bytes() == want.bytes()) << what;
}

OpCase WithRelu(OpCase c) {
  c.attrs.Set("activation", "relu");
  return c;
}

// (By hand: no kernel's result that rests on a product may be in the digest of
// isa_test.)
Literal ReluOf(const Literal& x) {
  std::vector<double> values = x.ToDoubles();
  for (double& v : values) v = v < 0 ? 0 : v;
  return Literal::FromDoubles(x.type(), values);
}

// `plain` and a Relu, against both in one.
void ExpectReluInside(const OpCase& plain) {
  const OpCase both = WithRelu(plain);
  ExpectMatchesReference(both, Numerics::kAccumulated);
  std::vector<Literal> want = ResultsOf(plain);
  want[0] = ReluOf(want[0]);
  const std::vector<Literal> got = ResultsOf(both);
  for (size_t i = 0; i < got.size(); ++i) {
    ExpectSameBits(got[i], want[i], both.ToString());
  }
}

TEST(Epilogue, Products) {
  Values values(1);
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    for (const Shape& c : {Shape({14}), Shape({9, 14}), Shape({9, 1})}) {
      ExpectReluInside({"Gemm",
                        {},
                        {values.Uniform(dtype, {9, 20}, -1, 1),
                         values.Uniform(dtype, {20, 14}, -1, 1),
                         values.Uniform(dtype, c, -1, 1)}});
    }
  }
  // Blocks of dnnl_sgemm, and of primitives that add a bias.
  const Literal a = values.Uniform(DType::kF32, {200, 150}, -1, 1);
  const Literal b = values.Uniform(DType::kF32, {150, 260}, -1, 1);
  ExpectReluInside({"Gemm", {}, {a, b}});
  ExpectReluInside(
      {"Gemm", {}, {a, b, values.Uniform(DType::kF32, {260}, -1, 1)}});
  // Turned around.
  const Literal few = values.Uniform(DType::kF32, {16, 256}, -1, 1);
  const Literal w = values.Uniform(DType::kF32, {272, 256}, -1, 1);
  ExpectReluInside({"Gemm", {{"transB", 1}}, {few, w}});
  ExpectReluInside({"Gemm",
                    {{"transB", 1}},
                    {few, w, values.Uniform(DType::kF32, {272}, -1, 1)}});
}

TEST(Epilogue, ProductsKeepNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int64_t columns : {1, 200}) {
    std::vector<float> a(200, nan), b(static_cast<size_t>(200 * columns), 1);
    const std::vector<Literal> out =
        ResultsOf(WithRelu({"Gemm",
                            {},
                            {Literal::Of<float>({1, 200}, a),
                             Literal::Of<float>({200, columns}, b)}}));
    for (double y : out[0].ToDoubles()) EXPECT_TRUE(std::isnan(y));
  }
  std::vector<float> a(16 * 256, nan), w(256 * 256, 1);
  const std::vector<Literal> turned = ResultsOf(WithRelu(
      {"Gemm",
       {{"transB", 1}},
       {Literal::Of<float>({16, 256}, a), Literal::Of<float>({256, 256}, w)}}));
  for (double y : turned[0].ToDoubles()) EXPECT_TRUE(std::isnan(y));
}

TEST(Epilogue, Convolutions) {
  Values values(2);
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    const Literal x = values.Uniform(dtype, {3, 5, 8, 7}, -1, 1);
    const Literal w = values.Uniform(dtype, {6, 5, 3, 3}, -1, 1);
    ExpectReluInside(
        {"Conv", {{"pads", std::vector<int64_t>{1, 1, 1, 1}}}, {x, w}});
    ExpectReluInside({"Conv", {}, {x, w, values.Uniform(dtype, {6}, -1, 1)}});
  }
}

// Batch normalisation of planes and of blocks, with each epilogue.
TEST(Epilogue, BatchNormalization) {
  Values values(3);
  for (DType dtype : {DType::kF32, DType::kF64}) {
    for (bool blocked : {false, true}) {
      const Shape image = {3, 32, 5, 6};
      const Shape stored = blocked ? ToBlocks(image) : image;
      OpCase plain = {"weft.BatchNormTraining",
                      {{"epsilon", 1e-3}},
                      {values.Uniform(dtype, stored, -1, 3),
                       values.Uniform(dtype, {32}, 0.5, 1.5),
                       values.Uniform(dtype, {32}, -0.5, 0.5)}};
      if (blocked) plain.attrs.Set("layout", kNchw16c);
      ExpectReluInside(plain);

      OpCase with_residual = plain;
      const Literal residual = values.Special(dtype, stored);
      with_residual.inputs.push_back(residual);
      std::vector<Literal> want = ResultsOf(plain);
      want[0] = ResultsOf({"Add", {}, {want[0], residual}})[0];
      const std::vector<Literal> got = ResultsOf(with_residual);
      for (size_t i = 0; i < got.size(); ++i) {
        ExpectSameBits(got[i], want[i], with_residual.ToString());
      }
      ExpectReluInside(with_residual);
    }
  }
}

TEST(Epilogue, LayerNormalizationOfASum) {
  Values values(4);
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    const Literal x = values.Uniform(dtype, {6, 70}, -1, 3);
    const Literal more = values.Uniform(dtype, {6, 70}, -1, 1);
    const Literal scale = values.Uniform(dtype, {70}, 0.5, 1.5);
    const Literal bias = values.Uniform(dtype, {70}, -1, 1);
    for (bool with_bias : {false, true}) {
      const Literal maybe = with_bias ? bias : Literal();
      OpCase of_sum = {"LayerNormalization", {}, {x, scale, maybe, more}, 4};
      ExpectMatchesReference(of_sum, Numerics::kAccumulated);
      const Literal sum = ResultsOf({"Add", {}, {x, more}})[0];
      OpCase plain = {"LayerNormalization", {}, {sum, scale}};
      if (with_bias) plain.inputs.push_back(bias);
      std::vector<Literal> want = ResultsOf(plain);
      want.push_back(sum);
      const std::vector<Literal> got = ResultsOf(of_sum);
      of_sum.num_outputs = 3;
      const std::vector<Literal> without_sum = ResultsOf(of_sum);
      for (size_t i = 0; i < 4; ++i) {
        ExpectSameBits(got[i], want[i], of_sum.ToString());
        if (i == 3) continue;
        ExpectSameBits(without_sum[i], want[i], "without the sum");
      }
    }
  }
}

TEST(Epilogue, LossWithItsGradient) {
  Values values(5);
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    for (double smoothing : {0.0, 0.1, 1.0}) {
      for (int64_t classes : {1, 10, 70}) {
        const Literal weights = Literal::FromDoubles(
            {dtype, {300}},
            values.Uniform(DType::kI32, {300}, 0, 3).ToDoubles());
        for (DType label : {DType::kI32, DType::kI64}) {
          ExpectMatchesReference(
              {"weft.SoftmaxCrossEntropyLossAndGrad",
               {{"label_smoothing", smoothing}},
               {values.Uniform(dtype, {300, classes}, -3, 3),
                values.Uniform(label, {300}, 0, static_cast<double>(classes)),
                weights, values.Uniform(dtype, {}, 0.5, 2)}},
              Numerics::kAccumulated);
        }
      }
    }
  }
}

// Scores far apart, classes that cannot be, samples that do not count.
TEST(Epilogue, LossOfExtremeScores) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Literal> out = ResultsOf(
      {"weft.SoftmaxCrossEntropyLossAndGrad",
       {},
       {Literal::Of<float>({4, 3}, {1000, 0, -1000, -inf, 2, 2, nan, nan, nan,
                                    -1e30f, 1e30f, 0}),
        Literal::Of<int64_t>({4}, {0, 1, 99, 1}),
        Literal::Of<float>({4}, {1, 1, 0, 1}), Literal::Scalar<float>(1)}});
  EXPECT_FLOAT_EQ(static_cast<float>(out[0].ToDoubles()[0]), std::log(2.0f));
  EXPECT_EQ(out[1].ToDoubles(),
            (std::vector<double>{0, 0, 0, 0, -0.5, 0.5, 0, 0, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace weft::cpu
