#include "core/ops/expr.h"
#include "core/ops/image_layout.h"
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
      op.attrs.Set("activation", "relu");
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

// The gradient of the bias comes with that of the weights.
TEST(ConvTest, GradientOps) {
  EXPECT_THAT(
      GradientOps("Conv", {}, {"f32[2,4,8,8]", "f32[6,4,3,3]", "f32[6]"}),
      ElementsAre("weft.ConvGradInput", "weft.ConvGradWeights"));
  EXPECT_EQ(
      InferText("weft.ConvGradWeights", {{"weight_shape", Ints{6, 4, 3, 3}}},
                {"f32[2,6,6,6]", "f32[2,4,8,8]"}, 2),
      "f32[6,4,3,3] f32[6]");
}

TEST(ConvGradTest, GradientOfTheBias) {
  Literal dy = Literal::Of<double>({2, 2, 1, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  OpCase c = {"weft.ConvGradWeights",
              {{"weight_shape", Ints{2, 1, 1, 1}}},
              {dy, RandomLiteral({2, 1, 1, 2}, 1)},
              2};
  EXPECT_THAT(ResultOf(c, 1), ElementsAre(1 + 2 + 5 + 6, 3 + 4 + 7 + 8));
  EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
}

// The layouts of an image and of the result, one by one and together.
TEST(ConvTest, ImagesInBlocksOfChannels) {
  struct Case {
    Shape x, w;
    AttrMap attrs;
    bool in_blocks, out_blocks;
    const char* out;
  };
  const AttrMap all = Attrs({2, 1}, {1, 2, 0, 1}, {1, 2}, 2);
  const std::vector<Case> cases = {
      {{2, 2, 4, 3}, {16, 2, 2, 2}, {}, false, true, "f64[2,1,3,2,16]"},
      {{1, 1, 2, 2, 16}, {3, 16, 1, 1}, {}, true, false, "f64[1,3,2,2]"},
      {{1, 2, 3, 4, 16}, {32, 16, 2, 3}, all, true, true, "f64[1,2,2,3,16]"},
      {{0, 1, 3, 3, 16}, {16, 16, 2, 2}, {}, true, true, "f64[0,1,2,2,16]"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.out);
    AttrMap attrs = c.attrs;
    attrs.Set("layout", c.in_blocks ? "NCHW16c" : "NCHW");
    if (c.out_blocks) attrs.Set("out_layout", "NCHW16c");
    EXPECT_EQ(InferText("Conv", attrs,
                        {"f64" + c.x.ToString(), "f64" + c.w.ToString()}),
              c.out);
    Literal x = RandomLiteral(c.x, 1), w = RandomLiteral(c.w, 2);
    OpCase conv = {"Conv", attrs, {x, w, RandomLiteral({c.w.dim(0)}, 3)}};
    if (x.type().shape.num_elements() < 100) {  // slow: by differences
      EXPECT_EQ(CheckGradient(conv), absl::OkStatus());
    }
    EXPECT_EQ(CheckDecomposition(conv), absl::OkStatus());
    Literal dy = RandomLiteral(ParseType(c.out).shape, 4);
    AttrMap to_input = attrs, to_weights = attrs;
    to_input.Set("input_shape", DimsOf(c.in_blocks ? FromBlocks(c.x) : c.x));
    to_weights.Set("weight_shape", DimsOf(c.w));
    EXPECT_EQ(CheckDecomposition({"weft.ConvGradInput", to_input, {dy, w}}),
              absl::OkStatus());
    EXPECT_EQ(
        CheckDecomposition({"weft.ConvGradWeights", to_weights, {dy, x}, 2}),
        absl::OkStatus());
  }
}

TEST(ConvTest, ComputesImagesInBlocks) {
  // Channel c of the image is c everywhere, the one result channel 0 takes
  // twice channel 17.
  std::vector<double> x(32 * 4), w(16 * 32, 0.0);
  for (size_t i = 0; i < x.size(); ++i) x[i] = i / 64 * 16 + i % 16;
  w[17] = 2;
  OpCase c = {"Conv",
              {{"layout", "NCHW16c"}, {"out_layout", "NCHW16c"}},
              {Literal::Of<double>({1, 2, 2, 2, 16}, x),
               Literal::Of<double>({16, 32, 1, 1}, w)}};
  std::vector<double> y = ResultOf(c);
  ASSERT_EQ(y.size(), 64u);
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], i % 16 == 0 ? 34 : 0);
}

TEST(ConvTest, LayoutErrors) {
  const std::string x = "f32[2,4,8,8]", w = "f32[6,4,3,3]";
  EXPECT_THAT(InferText("Conv", {{"layout", "NHWC"}}, {x, w}),
              ErrorWith("WEFT-2003", {"layout", "NHWC", "NCHW16c"}));
  EXPECT_THAT(InferText("Conv", {{"layout", "NCHW16c"}}, {x, w}),
              ErrorWith("WEFT-2004", {"[2,4,8,8]", "[N,C/16,H,W,16]"}));
  EXPECT_THAT(InferText("Conv", {{"out_layout", "NCHW16c"}}, {x, w}),
              ErrorWith("WEFT-2004", {"[2,6,6,6]", "16"}));
}

}  // namespace
}  // namespace weft
