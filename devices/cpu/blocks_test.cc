// Images in blocks of channels, [N,C/16,H,W,16]: convolution, pooling and batch
// normalisation against the reference, over shapes drawn at random.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "core/ops/expr.h"
#include "core/ops/image_layout.h"
#include "devices/cpu/kernel_harness.h"
#include "gtest/gtest.h"

namespace weft::cpu {
namespace {

using Ints = std::vector<int64_t>;
const DType kWide[] = {DType::kF32, DType::kF64};

// oneDNN has fast kernels for such images with AVX-512 alone.
bool WithAvx512() {
#if defined(__x86_64__)
  const char* isa = std::getenv("TEST_ISA");
  return (isa == nullptr || std::string(isa) == "avx512") &&
         __builtin_cpu_supports("avx512bw");
#else
  return false;
#endif
}

bool HasKernel(const OpCase& c) {
  absl::StatusOr<std::optional<KernelMatch>> match =
      CpuDevice().Match(Describe(c)->desc());
  EXPECT_TRUE(match.ok()) << match.status();
  return match.ok() && match->has_value();
}

struct ConvCase {
  Shape x, w;  // [N,C,H,W], [M,C/group,kH,kW]
  Ints strides, pads, dilations;
  int64_t group;
  bool x_blocked = true, y_blocked = true;

  AttrMap Attrs() const {
    AttrMap attrs = {{"strides", strides},
                     {"pads", pads},
                     {"dilations", dilations},
                     {"group", group}};
    if (x_blocked) attrs.Set("layout", kNchw16c);
    if (y_blocked) attrs.Set("out_layout", kNchw16c);
    return attrs;
  }
};

// Compares the three ops, with and without a bias or its gradient. Returns how
// many of the five uses (three with a bias alone) have a kernel.
int Compare(const ConvCase& c, DType dtype, Values* values,
            bool with_bias_alone = false) {
  const AttrMap attrs = c.Attrs();
  auto stored = [](const Shape& s, bool blocked) {
    return blocked ? ToBlocks(s) : s;
  };
  Literal x = values->Uniform(dtype, stored(c.x, c.x_blocked), -1, 1);
  Literal w = values->Uniform(dtype, c.w, -1, 1);
  Literal bias = values->Uniform(dtype, {c.w.dim(0)}, -1, 1);
  OpCase forward{"Conv", attrs, {x, w}};
  Literal dy = values->Uniform(dtype, OutputTypes(forward)[0].shape, -1, 1);
  AttrMap to_input = attrs, to_weights = attrs;
  to_input.Set("input_shape", DimsOf(c.x));
  to_weights.Set("weight_shape", DimsOf(c.w));
  std::vector<OpCase> uses = {{"Conv", attrs, {x, w, bias}},
                              {"weft.ConvGradInput", to_input, {dy, w}},
                              {"weft.ConvGradWeights", to_weights, {dy, x}, 2}};
  if (!with_bias_alone) {
    uses.push_back(forward);
    uses.push_back({"weft.ConvGradWeights", to_weights, {dy, x}});
  }
  int ran = 0;
  for (const OpCase& op : uses) {
    if (!HasKernel(op)) continue;
    ++ran;
    ExpectMatchesReference(op, Numerics::kAccumulated);
  }
  return ran;
}

TEST(Blocks, Convolutions) {
  Values values(1);
  const std::vector<ConvCase> cases = {
      {{2, 16, 9, 8}, {32, 16, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
      {{2, 32, 9, 9}, {16, 32, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 1},
      {{3, 16, 7, 7}, {48, 16, 1, 1}, {2, 2}, {0, 0, 0, 0}, {1, 1}, 1},
      {{1, 32, 8, 6}, {32, 16, 3, 3}, {1, 1}, {0, 1, 2, 0}, {1, 1}, 2},
      {{2, 16, 6, 7}, {16, 16, 5, 4}, {1, 1}, {2, 1, 2, 2}, {1, 1}, 1},
      // The first layer: as many channels as an image has.
      {{4, 1, 12, 12}, {32, 1, 3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1, false},
      {{2, 3, 9, 9}, {16, 3, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1, false},
      {{1, 16, 5, 5},
       {6, 16, 3, 3},
       {1, 1},
       {1, 1, 1, 1},
       {1, 1},
       1,
       true,
       false}};
  for (const ConvCase& c : cases) {
    // oneDNN leaves out some gradients of groups and with one side in NCHW.
    const bool all = c.x_blocked && c.y_blocked && c.group == 1;
    const int least = !WithAvx512() ? 0 : all ? 5 : 2;
    EXPECT_GE(Compare(c, DType::kF32, &values), least) << c.x.ToString();
    if (c.x.num_elements() < 10000) {  // the reference is slow
      EXPECT_EQ(Compare(c, DType::kF64, &values), 5) << c.x.ToString();
    }
  }
  EXPECT_EQ(
      Compare({{0, 16, 5, 5}, {16, 16, 3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
              DType::kF32, &values),
      5);
}

// Enough work for Winograd's algorithm, with tiles that are not full. It takes
// megabytes of scratch, a direct convolution next to none.
TEST(Blocks, WinogradConvolutions) {
  if (!WithAvx512()) GTEST_SKIP() << "oneDNN has it for AVX-512 alone";
  // The reference takes seconds, and isa_test compares no convolutions.
  if (std::getenv("TEST_ISA") != nullptr) GTEST_SKIP() << "of one class alone";
  Values values(10);
  const ConvCase c = {{8, 32, 32, 31}, {32, 32, 3, 3}, {1, 1},
                      {1, 1, 1, 1},    {1, 1},         1};
  EXPECT_EQ(Compare(c, DType::kF32, &values, true), 3);
  const Literal x = values.Uniform(DType::kF32, ToBlocks(c.x), -1, 1);
  const Literal w = values.Uniform(DType::kF32, c.w, -1, 1);
  absl::StatusOr<std::optional<KernelMatch>> match =
      CpuDevice().Match(Describe({"Conv", c.Attrs(), {x, w}})->desc());
  ASSERT_TRUE(match.ok() && match->has_value());
  EXPECT_GT((*match)->workspace_bytes, uint64_t{1} << 20);
}

TEST(Blocks, RandomConvolutions) {
  Values values(2);
  int ran = 0;
  for (int i = 0; i < 30; ++i) {
    ConvCase c;
    c.group = values.Pick(1, 2);
    c.x = {values.Pick(1, 3), 16 * c.group * values.Pick(1, 2),
           values.Pick(4, 10), values.Pick(4, 10)};
    c.w = {16 * c.group * values.Pick(1, 2), c.x.dim(1) / c.group,
           values.Pick(1, 3), values.Pick(1, 3)};
    c.strides = {values.Pick(1, 2), values.Pick(1, 2)};
    c.pads = {values.Pick(0, 1), values.Pick(0, 1), values.Pick(0, 1),
              values.Pick(0, 1)};
    c.dilations = {values.Pick(1, 2), values.Pick(1, 2)};
    // The padded image holds a window.
    if (c.x.dim(2) < 5 || c.x.dim(3) < 5) c.dilations = {1, 1};
    ran += Compare(c, DType::kF32, &values);
    if (i % 6 == 0) Compare(c, DType::kF64, &values);
  }
  EXPECT_GE(ran, WithAvx512() ? 75 : 0);
}

TEST(Blocks, ConvolutionsOf16Bits) {
  Values values(3);
  const ConvCase c = {{2, 16, 6, 6}, {16, 16, 3, 3}, {1, 1},
                      {1, 1, 1, 1},  {1, 1},         1};
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    EXPECT_EQ(Compare(c, dtype, &values), WithAvx512() ? 5 : 0);
  }
}

TEST(Blocks, Pools) {
  Values values(4);
  for (int i = 0; i < 40; ++i) {
    const Shape image = {values.Pick(1, 2), 16 * values.Pick(1, 2),
                         values.Pick(4, 9), values.Pick(4, 9)};
    Ints kernel = {values.Pick(1, 3), values.Pick(1, 3)};
    Ints strides = {values.Pick(1, 3), values.Pick(1, 3)};
    Ints pads = {values.Pick(0, 1), values.Pick(0, 1), values.Pick(0, 1),
                 values.Pick(0, 1)};
    if (i % 4 == 0) kernel = strides = {2, 2};  // the usual pool
    if (i % 4 == 0) pads = {0, 0, 0, 0};
    for (int d = 0; d < 4; ++d) pads[d] = std::min(pads[d], kernel[d % 2] - 1);
    const DType dtype = kWide[i % 2];
    AttrMap attrs = {{"kernel_shape", kernel},
                     {"strides", strides},
                     {"pads", pads},
                     {"ceil_mode", i % 8 == 0 ? 0 : values.Pick(0, 1)},
                     {"layout", kNchw16c}};
    // Few values, so that windows have equal maxima.
    const Shape stored = ToBlocks(image);
    Literal x = Literal::FromDoubles(
        {dtype, stored},
        values.Uniform(DType::kI32, stored, -2, 3).ToDoubles());
    OpCase max{"MaxPool", attrs, {x}};
    ExpectMatchesReference(max, Numerics::kExact);
    ExpectMatchesReference({"MaxPool", attrs, {values.Special(dtype, stored)}},
                           Numerics::kExact);
    Literal dy = values.Uniform(dtype, OutputTypes(max)[0].shape, -1, 1);
    ExpectMatchesReference({"weft.MaxPoolGrad", attrs, {dy, x}},
                           Numerics::kAccumulated);
    attrs.Set("count_include_pad", i % 3 == 0 ? 1 : 0);
    ExpectMatchesReference({"AveragePool", attrs, {x}}, Numerics::kAccumulated);
    attrs.Set("input_shape", DimsOf(image));
    ExpectMatchesReference({"weft.AveragePoolGrad", attrs, {dy}},
                           Numerics::kAccumulated);
  }
}

// A NaN is the maximum, and the gradient goes to the first one.
TEST(Blocks, MaxPoolGradOfSpecialValues) {
  Values values(5);
  for (const Ints& kernel : {Ints{2, 2}, Ints{3, 2}}) {
    for (DType dtype : kWide) {
      AttrMap attrs = {{"kernel_shape", kernel},
                       {"strides", Ints{2, 2}},
                       {"layout", kNchw16c}};
      Literal x = values.Special(dtype, {2, 1, 9, 8, 16});
      Literal dy = values.Uniform(
          dtype, OutputTypes({"MaxPool", attrs, {x}})[0].shape, -1, 1);
      ExpectMatchesReference({"weft.MaxPoolGrad", attrs, {dy, x}},
                             Numerics::kAccumulated);
    }
  }
}

TEST(Blocks, PoolsOf16BitsAndWholeImages) {
  Values values(6);
  for (DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    const AttrMap attrs = {{"kernel_shape", Ints{2, 2}}, {"layout", kNchw16c}};
    Literal x = values.Uniform(dtype, {2, 2, 5, 6, 16}, -1, 1);
    ExpectMatchesReference({"MaxPool", attrs, {x}}, Numerics::kExact);
    for (const Shape& shape :
         {Shape({2, 2, 5, 6, 16}), Shape({1, 1, 20, 30, 16}),
          Shape({3, 2, 1, 1, 16})}) {
      ExpectMatchesReference({"GlobalAveragePool",
                              {{"layout", kNchw16c}},
                              {values.Uniform(dtype, shape, -1, 1)}},
                             Numerics::kAccumulated);
    }
  }
}

TEST(Blocks, BatchNormalization) {
  Values values(7);
  for (DType dtype : kWide) {
    for (const Shape& image :
         {Shape({4, 32, 5, 6}), Shape({3, 16, 1, 1}), Shape({2, 48, 13, 21})}) {
      auto channel = [&](double low) {
        return values.Uniform(dtype, {image.dim(1)}, low, low + 1);
      };
      const Shape stored = ToBlocks(image);
      Literal x = values.Uniform(dtype, stored, -1, 3);
      Literal scale = channel(0.5), bias = channel(-0.5);
      Literal mean = channel(-0.5), variance = channel(0.5);
      for (int training : {0, 1}) {
        ExpectMatchesReference(
            {"BatchNormalization",
             {{"training_mode", training}, {"layout", kNchw16c}},
             {x, scale, bias, mean, variance},
             training == 1 ? 3 : 1},
            Numerics::kAccumulated);
      }
      const AttrMap attrs = {{"epsilon", 1e-3}, {"layout", kNchw16c}};
      ExpectMatchesReference(
          {"weft.BatchNormTraining", attrs, {x, scale, bias}},
          Numerics::kAccumulated);
      ExpectMatchesReference(
          {"weft.BatchNormGrad",
           attrs,
           {values.Uniform(dtype, stored, -1, 1), x, scale, mean, variance}},
          Numerics::kAccumulated);
    }
  }
}

// A mean far from zero costs the variance no digits.
TEST(Blocks, VarianceFarFromZero) {
  Values values(8);
  const Shape stored = {8, 1, 15, 15, 16};
  std::vector<double> x = values.Uniform(DType::kF32, stored, 0, 1).ToDoubles();
  for (double& v : x) v = 1000 + std::floor(v * 16) / 16;  // exact in f32
  OpCase c = {"weft.BatchNormTraining",
              {{"layout", kNchw16c}},
              {Literal::FromDoubles({DType::kF32, stored}, x),
               values.Uniform(DType::kF32, {16}, 1, 2),
               values.Uniform(DType::kF32, {16}, 0, 1)}};
  absl::StatusOr<std::vector<Literal>> got = RunOnCpu(c, {});
  ASSERT_TRUE(got.ok()) << got.status();
  for (double v : (*got)[2].ToDoubles()) EXPECT_NEAR(v, 1 / 12.0, 0.01);
}

TEST(Blocks, BadImagesAreRefused) {
  Values values(9);
  // Rank 4 with a layout of rank 5 cannot be described by a schema: the kernel
  // is asked directly.
  for (uint32_t op : {WEFT_OP_GLOBAL_AVERAGE_POOL, WEFT_OP_MAX_POOL}) {
    OpDesc desc(op);
    desc.In(WEFT_F32, {2, 16, 4, 4}).Out(WEFT_F32, {2, 16, 1, 1});
    desc.Set("layout", std::string(kNchw16c));
    if (op == WEFT_OP_MAX_POOL) desc.Set("kernel_shape", Ints{4, 4});
    EXPECT_FALSE(CpuDevice().OpenKernel(desc.desc()).ok());
  }
}

}  // namespace
}  // namespace weft::cpu
