#include <cmath>

#include "core/reference/gradient_check.h"
#include "core/reference/schema_check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using testing::Pointwise;

const char kForward[] = "weft.SelfAttention";
const char kGrad[] = "weft.SelfAttentionGrad";

auto Near(std::vector<double> expected) {
  return Pointwise(testing::DoubleNear(1e-9), expected);
}

TEST(SelfAttentionTest, InfersAndChecks) {
  AttrMap attrs = {{"heads", 4}};
  const std::string x = "f32[2,5,24]", y = "f32[2,5,8]", lse = "f32[2,4,5]";
  EXPECT_EQ(InferText(kForward, attrs, {x}), y + " " + lse);
  EXPECT_EQ(InferText(kForward, attrs, {"bf16[2,0,24]", "i64[2]"}),
            "bf16[2,0,8] f32[2,4,0]");
  EXPECT_EQ(InferText(kForward, attrs, {"f64[2,5,24]"}),
            "f64[2,5,8] f64[2,4,5]");
  EXPECT_THAT(InferText(kForward, {}, {x}), ErrorWith("WEFT-2003", {"heads"}));
  EXPECT_THAT(InferText(kForward, {{"heads", 3}}, {x}),
              ErrorWith("WEFT-2004", {"3 heads", "[2,5,24]"}));
  EXPECT_THAT(InferText(kForward, attrs, {"f32[2,5,25]"}),
              ErrorWith("WEFT-2004", {"[2,5,25]"}));
  EXPECT_THAT(InferText(kForward, attrs, {"f32[2,5,0]"}),
              ErrorWith("WEFT-2004", {"[2,5,0]"}));
  EXPECT_THAT(InferText(kForward, attrs, {"f32[10,24]"}),
              ErrorWith("WEFT-2004", {"rank 3", "[10,24]"}));
  EXPECT_THAT(InferText(kForward, attrs, {"i32[2,5,24]"}),
              ErrorWith("WEFT-2005", {"i32[2,5,24]"}));
  EXPECT_THAT(InferText(kForward, attrs, {x, "i32[2]"}),
              ErrorWith("WEFT-2005", {"i32[2]"}));
  for (const auto& [name, bad] :
       std::vector<std::pair<std::string, Attr>>{{"heads", 0},
                                                 {"causal", 2},
                                                 {"ratio", 1.0},
                                                 {"ratio", -0.5},
                                                 {"scale", std::nan("")}}) {
    AttrMap wrong = attrs;
    wrong.Set(name, bad);
    EXPECT_THAT(InferText(kForward, wrong, {x}), ErrorWith("WEFT-2003", {name}))
        << name;
  }
}

TEST(SelfAttentionTest, GradientInfersAndChecks) {
  AttrMap attrs = {{"heads", 4}};
  const std::string x = "f16[2,5,24]", y = "f16[2,5,8]", lse = "f32[2,4,5]";
  EXPECT_EQ(InferText(kGrad, attrs, {x, y, lse, y}), x);
  EXPECT_EQ(InferText(kGrad, attrs, {x, y, lse, y, "", "i64[2]"}), x);
  EXPECT_EQ(InferText(kGrad, attrs, {x, y, lse, y, lse}), x);
  EXPECT_THAT(InferText(kGrad, attrs, {x, x, lse, y}),
              ErrorWith("WEFT-2004", {"operand 1", "[2,5,8]", "[2,5,24]"}));
  EXPECT_THAT(InferText(kGrad, attrs, {x, y, lse, "f32[2,5,8]"}),
              ErrorWith("WEFT-2005", {x, "f32[2,5,8]"}));
  EXPECT_THAT(InferText(kGrad, attrs, {x, y, "f16[2,4,5]", y}),
              ErrorWith("WEFT-2005", {"operand 2", "f32"}));
  EXPECT_THAT(InferText(kGrad, attrs, {x, y, lse, y, "f32[2,5,4]"}),
              ErrorWith("WEFT-2004", {"operand 4", "[2,4,5]"}));
  EXPECT_THAT(InferText(kGrad, attrs, {x, y, lse, y, "", "i64[3]"}),
              ErrorWith("WEFT-2004", {"[3]"}));
}

// One head of size 1: q = 1, 2; k = 0, log 3; v = 10, 20.
TEST(SelfAttentionTest, ComputesByHand) {
  OpCase c = {kForward,
              {{"heads", 1}, {"scale", 1.0}},
              {Literal::Of<double>({1, 2, 3}, {1, 0, 10, 2, std::log(3), 20})}};
  EXPECT_THAT(ResultOf(c, 0), Near({17.5, 19}));
  EXPECT_THAT(ResultOf(c, 1), Near({std::log(4), std::log(10)}));
  c.attrs.Set("causal", 1);
  EXPECT_THAT(ResultOf(c, 0), Near({10, 19}));
  EXPECT_THAT(ResultOf(c, 1), Near({0, std::log(10)}));
  // By default 1 / sqrt of a head's size: 1 here, 1/2 for heads of 4.
  AttrMap defaults = {{"heads", 1}};
  EXPECT_EQ(ResultOf({kForward, defaults, c.inputs}),
            ResultOf({kForward, {{"heads", 1}, {"scale", 1.0}}, c.inputs}));
  Literal wide = RandomLiteral({1, 3, 12}, 1);
  EXPECT_EQ(ResultOf({kForward, defaults, {wide}}),
            ResultOf({kForward, {{"heads", 1}, {"scale", 0.5}}, {wide}}));
}

TEST(SelfAttentionTest, LaterTokensAreNotSeen) {
  OpCase c = {
      kForward, {{"heads", 2}, {"causal", 1}}, {RandomLiteral({1, 4, 12}, 1)}};
  std::vector<double> before = ResultOf(c);
  std::vector<double> x = c.inputs[0].ToDoubles();
  for (size_t i = 3 * 12; i < x.size(); ++i) x[i] = std::nan("");
  c.inputs[0] = Literal::FromDoubles(c.inputs[0].type(), x);
  std::vector<double> after = ResultOf(c);
  for (size_t i = 0; i < 3 * 4; ++i) EXPECT_EQ(before[i], after[i]) << i;
}

TEST(SelfAttentionTest, DropsAsDropoutTrainingWould) {
  // Values 1: y is the sum of the weights that are left. All weights are 1/n.
  std::vector<double> x(2 * 16 * 3, 0);
  for (size_t i = 2; i < x.size(); i += 3) x[i] = 1;
  Literal counter = Literal::Of<int64_t>({2}, {7, 1});
  AttrMap random = {{"ratio", 0.25}, {"seed", 5}, {"stream", 3}};
  AttrMap attrs = random;
  attrs.Set("heads", 1);
  OpCase c = {kForward,
              attrs,
              {Literal::FromDoubles({DType::kF64, {2, 16, 3}}, x), counter}};
  std::vector<double> ones(2 * 16 * 16, 1.0 / 16);
  std::vector<double> kept = ResultOf(
      {"weft.DropoutTraining",
       random,
       {Literal::FromDoubles({DType::kF64, {2, 1, 16, 16}}, ones), counter}});
  std::vector<double> sums(32, 0);
  for (size_t i = 0; i < kept.size(); ++i) sums[i / 16] += kept[i];
  EXPECT_THAT(ResultOf(c), Near(sums));
  // The form that models are written in drops nothing.
  c.inputs.pop_back();
  EXPECT_THAT(ResultOf(c), Near(std::vector<double>(32, 1)));
}

TEST(SelfAttentionTest, GradientAndDecomposition) {
  struct Case {
    Shape qkv;
    int heads;
  };
  for (const Case& k : std::vector<Case>{{{2, 3, 12}, 2},
                                         {{1, 1, 3}, 1},
                                         {{1, 5, 6}, 2},
                                         {{0, 3, 6}, 1},
                                         {{2, 0, 6}, 1}}) {
    for (int causal : {0, 1}) {
      for (double ratio : {0.0, 0.4}) {
        SCOPED_TRACE(testing::Message()
                     << k.qkv.ToString() << " " << causal << " " << ratio);
        OpCase c = {kForward,
                    {{"heads", k.heads}, {"causal", causal}, {"ratio", ratio}},
                    {RandomLiteral(k.qkv, 1, -2, 2)}};
        if (ratio > 0) {
          c.attrs.Set("seed", 1);
          c.attrs.Set("stream", 2);
          c.inputs.push_back(Literal::Of<int64_t>({2}, {3, 1}));
        } else {
          c.attrs.Set("scale", 0.7);
        }
        EXPECT_EQ(CheckGradient(c), absl::OkStatus());
        EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
        std::vector<Literal> y = weft::RunOp(c).value();
        OpCase grad = {
            kGrad,
            c.attrs,
            {c.inputs[0], y[0], y[1], RandomLiteral(y[0].type().shape, 4)}};
        if (ratio > 0) {
          grad.inputs.push_back(RandomLiteral(y[1].type().shape, 5));
          grad.inputs.push_back(c.inputs[1]);
        }
        EXPECT_EQ(CheckDecomposition(grad), absl::OkStatus());
      }
    }
  }
}

TEST(SelfAttentionTest, CostCountsWhatIsSeen) {
  AttrMap attrs = {{"heads", 2}};
  Cost all = CostOf(kForward, attrs, {"f32[3,7,24]"});
  attrs.Set("causal", 1);
  Cost causal = CostOf(kForward, attrs, {"f32[3,7,24]"});
  EXPECT_EQ(all.flops, 3 * 2 * 49 * (2 * 2 * 4 + 5));
  EXPECT_EQ(causal.flops, 3 * 2 * 28 * (2 * 2 * 4 + 5));
  EXPECT_EQ(all.bytes, 4 * (3 * 7 * 24 + 3 * 7 * 8 + 3 * 2 * 7));
}

}  // namespace
}  // namespace weft
