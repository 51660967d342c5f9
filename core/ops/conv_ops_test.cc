#include "core/ops/window.h"
#include "core/reference/gradient_check.h"
#include "core/reference/schema_check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;
using testing::ElementsAre;

AttrMap Attrs(Ints strides, Ints pads, Ints dilations, int64_t group) {
  return {{"strides", strides},
          {"pads", pads},
          {"dilations", dilations},
          {"group", group}};
}

struct ConvCase {
  const char* name;
  Shape x, w;
  AttrMap attrs;
  const char* out;
};

// Small shapes of every feature alone, then together.
std::vector<ConvCase> ConvCases() {
  return {
      {"plain", {2, 2, 4, 3}, {3, 2, 2, 2}, {}, "f64[2,3,3,2]"},
      {"one by one", {1, 3, 2, 2}, {2, 3, 1, 1}, {}, "f64[1,2,2,2]"},
      {"strides",
       {1, 1, 5, 6},
       {1, 1, 2, 2},
       Attrs({2, 3}, {0, 0, 0, 0}, {1, 1}, 1),
       "f64[1,1,2,2]"},
      {"asymmetric pads",
       {1, 1, 3, 3},
       {1, 1, 3, 2},
       Attrs({1, 1}, {1, 0, 2, 3}, {1, 1}, 1),
       "f64[1,1,4,5]"},
      {"dilations",
       {1, 1, 6, 5},
       {2, 1, 3, 2},
       Attrs({1, 1}, {0, 0, 0, 0}, {2, 3}, 1),
       "f64[1,2,2,2]"},
      {"groups",
       {2, 4, 3, 3},
       {6, 2, 2, 2},
       Attrs({1, 1}, {0, 0, 0, 0}, {1, 1}, 2),
       "f64[2,6,2,2]"},
      {"depthwise",
       {1, 3, 3, 3},
       {3, 1, 2, 2},
       Attrs({1, 1}, {0, 0, 0, 0}, {1, 1}, 3),
       "f64[1,3,2,2]"},
      {"rows that no window reads",
       {1, 1, 4, 4},
       {1, 1, 1, 1},
       Attrs({3, 2}, {0, 0, 0, 0}, {1, 1}, 1),
       "f64[1,1,2,2]"},
      {"windows of padding alone",
       {1, 1, 2, 2},
       {1, 1, 2, 2},
       Attrs({2, 2}, {3, 3, 2, 2}, {1, 1}, 1),
       "f64[1,1,3,3]"},
      {"everything",
       {2, 4, 6, 7},
       {4, 2, 2, 3},
       Attrs({2, 1}, {1, 2, 0, 1}, {3, 2}, 2),
       "f64[2,4,2,6]"},
      {"no images", {0, 2, 4, 4}, {3, 2, 2, 2}, {}, "f64[0,3,3,3]"},
      {"no input channels", {1, 0, 3, 3}, {2, 0, 2, 2}, {}, "f64[1,2,2,2]"},
      {"no output channels", {1, 2, 3, 3}, {0, 2, 2, 2}, {}, "f64[1,0,2,2]"},
  };
}

OpCase ToOpCase(const ConvCase& c, bool bias) {
  OpCase op = {"Conv", c.attrs, {RandomLiteral(c.x, 1), RandomLiteral(c.w, 2)}};
  if (bias) op.inputs.push_back(RandomLiteral({c.w.dim(0)}, 3));
  return op;
}

TEST(ConvTest, InferenceGradientDecomposition) {
  for (const ConvCase& c : ConvCases()) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(InferText("Conv", c.attrs,
                        {"f64" + c.x.ToString(), "f64" + c.w.ToString()}),
              c.out);
    for (bool bias : {false, true}) {
      OpCase op = ToOpCase(c, bias);
      EXPECT_EQ(CheckGradient(op), absl::OkStatus());
      EXPECT_EQ(CheckDecomposition(op), absl::OkStatus());
    }
  }
}

TEST(ConvTest, GradientOpsDecompose) {
  for (const ConvCase& c : ConvCases()) {
    SCOPED_TRACE(c.name);
    AttrMap to_input = c.attrs, to_weights = c.attrs;
    to_input.Set("input_shape", Ints(c.x.dims().begin(), c.x.dims().end()));
    to_weights.Set("weight_shape", Ints(c.w.dims().begin(), c.w.dims().end()));
    Literal dy = RandomLiteral(ParseType(c.out).shape, 4);
    EXPECT_EQ(
        CheckDecomposition(
            {"weft.ConvGradInput", to_input, {dy, RandomLiteral(c.w, 2)}}),
        absl::OkStatus());
    EXPECT_EQ(
        CheckDecomposition(
            {"weft.ConvGradWeights", to_weights, {dy, RandomLiteral(c.x, 1)}}),
        absl::OkStatus());
  }
}

TEST(ConvTest, ComputesByHand) {
  Literal x = Literal::Of<double>({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  Literal w = Literal::Of<double>({1, 1, 2, 2}, {1, 10, 100, 1000});
  // Correlation: the kernel is not flipped.
  EXPECT_THAT(ResultOf({"Conv", {}, {x, w}}),
              ElementsAre(5421, 6532, 8754, 9865));
  Literal bias = Literal::Of<double>({1}, {0.5});
  EXPECT_THAT(
      ResultOf({"Conv", Attrs({2, 2}, {1, 1, 0, 0}, {1, 1}, 1), {x, w, bias}}),
      ElementsAre(1000.5, 3200.5, 7040.5, 9865.5));
  EXPECT_THAT(
      ResultOf({"Conv", Attrs({1, 1}, {0, 0, 0, 0}, {2, 2}, 1), {x, w}}),
      ElementsAre(1 + 30 + 700 + 9000));
  // Two groups: each output channel sees its own input channel.
  EXPECT_THAT(ResultOf({"Conv",
                        Attrs({1, 1}, {0, 0, 0, 0}, {1, 1}, 2),
                        {Literal::Of<double>({1, 2, 1, 1}, {3, 5}),
                         Literal::Of<double>({2, 1, 1, 1}, {10, 100})}}),
              ElementsAre(30, 500));
}

TEST(ConvTest, ErrorsNameBothShapes) {
  const std::string x = "f32[2,4,8,8]", w = "f32[6,4,3,3]";
  struct Case {
    AttrMap attrs;
    std::vector<std::string> inputs;
    const char* code;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases = {
      {{}, {x, "f32[6,3,3,3]"}, "WEFT-2004", {"[2,4,8,8]", "[6,3,3,3]"}},
      {{}, {"f32[4,8,8]", w}, "WEFT-2004", {"[4,8,8]", "[N,C,H,W]"}},
      {{}, {x, "f32[6,4,3]"}, "WEFT-2004", {"[6,4,3]", "[M,C/group,kH,kW]"}},
      {{}, {"f32[2,4,2,8]", w}, "WEFT-2004", {"[3,3]", "[2,8]", "[2,4,2,8]"}},
      {{}, {"f32[2,4,0,8]", w}, "WEFT-2004", {"[2,4,0,8]"}},
      {{}, {x, "f32[6,4,0,3]"}, "WEFT-2004", {"[6,4,0,3]", "[2,4,8,8]"}},
      {{}, {x, w, "f32[5]"}, "WEFT-2004", {"[6]", "[5]"}},
      {{}, {x, "f64[6,4,3,3]"}, "WEFT-2005", {x, "f64[6,4,3,3]"}},
      {{}, {x, w, "f16[6]"}, "WEFT-2005", {"f16[6]"}},
      {{}, {"i32[2,4,8,8]", "i32[6,4,3,3]"}, "WEFT-2005", {"i32[2,4,8,8]"}},
      {{{"group", 4}}, {x, "f32[6,1,3,3]"}, "WEFT-2003", {"group 4", "6"}},
      {{{"group", 0}}, {x, w}, "WEFT-2003", {"group 0"}},
      {{{"strides", Ints{1}}}, {x, w}, "WEFT-2003", {"strides", "[1]", "2"}},
      {{{"strides", Ints{0, 1}}}, {x, w}, "WEFT-2003", {"strides", "[0,1]"}},
      {{{"pads", Ints{0, 0, -1, 0}}}, {x, w}, "WEFT-2003", {"pads", "-1"}},
      {{{"dilations", Ints{1, 0}}}, {x, w}, "WEFT-2003", {"dilations"}},
      {{{"dilations", Ints{int64_t{1} << 62, 1}}},
       {x, w},
       "WEFT-2003",
       {"dilations"}},
      {{{"dilation", Ints{1, 1}}}, {x, w}, "WEFT-2002", {"dilations"}},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(InferText("Conv", c.attrs, c.inputs),
                ErrorWith(c.code, c.parts));
  }
}

TEST(ConvGradTest, ErrorsNameBothShapes) {
  AttrMap input = {{"input_shape", Ints{2, 4, 8, 8}}};
  EXPECT_EQ(
      InferText("weft.ConvGradInput", input, {"f32[2,6,6,6]", "f32[6,4,3,3]"}),
      "f32[2,4,8,8]");
  EXPECT_THAT(
      InferText("weft.ConvGradInput", input, {"f32[2,6,7,6]", "f32[6,4,3,3]"}),
      ErrorWith("WEFT-2004", {"[2,6,7,6]", "[2,6,6,6]"}));
  EXPECT_THAT(
      InferText("weft.ConvGradInput", {}, {"f32[2,6,6,6]", "f32[6,4,3,3]"}),
      ErrorWith("WEFT-2003", {"input_shape"}));
  EXPECT_THAT(
      InferText("weft.ConvGradInput", {{"input_shape", Ints{2, 4, 8, -8}}},
                {"f32[2,6,6,6]", "f32[6,4,3,3]"}),
      ErrorWith("WEFT-2003", {"input_shape", "[2,4,8,-8]"}));
  AttrMap weights = {{"weight_shape", Ints{6, 4, 3, 3}}};
  EXPECT_EQ(InferText("weft.ConvGradWeights", weights,
                      {"f32[2,6,6,6]", "f32[2,4,8,8]"}),
            "f32[6,4,3,3]");
  EXPECT_THAT(InferText("weft.ConvGradWeights", weights,
                        {"f32[2,6,6,6]", "f32[3,4,8,8]"}),
              ErrorWith("WEFT-2004", {"[3,6,6,6]", "[2,6,6,6]"}));
  EXPECT_THAT(InferText("weft.ConvGradWeights", weights,
                        {"f32[2,6,6,6]", "f64[2,4,8,8]"}),
              ErrorWith("WEFT-2005", {"f64[2,4,8,8]"}));
}

// All three ops do the same products.
TEST(ConvTest, Cost) {
  double flops = 2.0 * (2 * 6 * 6 * 6) * (4 * 3 * 3);
  EXPECT_EQ(CostOf("Conv", {}, {"f32[2,4,8,8]", "f32[6,4,3,3]"}).flops, flops);
  EXPECT_EQ(
      CostOf("Conv", {}, {"f32[2,4,8,8]", "f32[6,4,3,3]", "f32[6]"}).flops,
      flops + 2 * 6 * 6 * 6);
  EXPECT_EQ(CostOf("weft.ConvGradInput", {{"input_shape", Ints{2, 4, 8, 8}}},
                   {"f32[2,6,6,6]", "f32[6,4,3,3]"})
                .flops,
            flops);
  EXPECT_EQ(CostOf("weft.ConvGradWeights", {{"weight_shape", Ints{6, 4, 3, 3}}},
                   {"f32[2,6,6,6]", "f32[2,4,8,8]"})
                .flops,
            flops);
}

// The gradient of the bias is a plain sum; no op of its own.
TEST(ConvTest, GradientOps) {
  EXPECT_THAT(
      GradientOps("Conv", {}, {"f32[2,4,8,8]", "f32[6,4,3,3]", "f32[6]"}),
      ElementsAre("weft.ConvGradInput", "weft.ConvGradWeights", "ReduceSum"));
}

}  // namespace
}  // namespace weft
