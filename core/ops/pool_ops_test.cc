#include <limits>

#include "core/ops/expr.h"
#include "core/ops/image_layout.h"
#include "core/reference/gradient_check.h"
#include "core/reference/schema_check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;
using testing::ElementsAre;

AttrMap Attrs(Ints kernel, Ints strides, Ints pads, int64_t ceil_mode) {
  return {{"kernel_shape", kernel},
          {"strides", strides},
          {"pads", pads},
          {"ceil_mode", ceil_mode}};
}

struct PoolCase {
  const char* name;
  Shape x;
  AttrMap attrs;
  const char* out;
};

std::vector<PoolCase> PoolCases() {
  return {
      {"plain",
       {2, 2, 4, 4},
       Attrs({2, 2}, {2, 2}, {0, 0, 0, 0}, 0),
       "f64[2,2,2,2]"},
      {"defaults",
       {1, 1, 3, 4},
       {{"kernel_shape", Ints{2, 3}}},
       "f64[1,1,2,2]"},
      {"overlapping",
       {1, 2, 5, 4},
       Attrs({3, 2}, {1, 1}, {0, 0, 0, 0}, 0),
       "f64[1,2,3,3]"},
      {"gaps",
       {1, 1, 7, 5},
       Attrs({1, 2}, {3, 3}, {0, 0, 0, 0}, 0),
       "f64[1,1,3,2]"},
      {"asymmetric pads",
       {1, 2, 4, 5},
       Attrs({3, 3}, {2, 2}, {1, 0, 2, 1}, 0),
       "f64[1,2,3,2]"},
      {"ceil",
       {1, 1, 5, 6},
       Attrs({2, 3}, {2, 2}, {0, 0, 0, 0}, 1),
       "f64[1,1,3,3]"},
      {"ceil that divides",
       {1, 1, 4, 6},
       Attrs({2, 2}, {2, 2}, {0, 0, 0, 0}, 1),
       "f64[1,1,2,3]"},
      // The third window would start in the end padding.
      {"ceil beyond the image",
       {1, 1, 4, 4},
       Attrs({2, 2}, {3, 3}, {1, 1, 1, 1}, 1),
       "f64[1,1,2,2]"},
      {"ceil with pads",
       {1, 1, 6, 6},
       Attrs({3, 3}, {2, 3}, {1, 1, 1, 1}, 1),
       "f64[1,1,4,3]"},
      {"whole image",
       {2, 1, 3, 2},
       Attrs({3, 2}, {1, 1}, {0, 0, 0, 0}, 0),
       "f64[2,1,1,1]"},
      {"no images",
       {0, 2, 4, 4},
       Attrs({2, 2}, {2, 2}, {0, 0, 0, 0}, 0),
       "f64[0,2,2,2]"},
      {"no channels",
       {2, 0, 4, 4},
       Attrs({2, 2}, {2, 2}, {1, 1, 1, 1}, 0),
       "f64[2,0,3,3]"},
  };
}

TEST(PoolTest, InferenceGradientDecomposition) {
  for (const PoolCase& c : PoolCases()) {
    SCOPED_TRACE(c.name);
    std::string x = "f64" + c.x.ToString();
    // Distinct values: a tie has no derivative.
    Literal values = RandomLiteral(c.x, 7);
    Literal dy = RandomLiteral(ParseType(c.out).shape, 8);

    EXPECT_EQ(InferText("MaxPool", c.attrs, {x}), c.out);
    OpCase max = {"MaxPool", c.attrs, {values}};
    EXPECT_EQ(CheckGradient(max), absl::OkStatus());
    EXPECT_EQ(CheckDecomposition(max), absl::OkStatus());
    EXPECT_EQ(CheckDecomposition({"weft.MaxPoolGrad", c.attrs, {dy, values}}),
              absl::OkStatus());

    for (int include_pad : {0, 1}) {
      SCOPED_TRACE(include_pad);
      AttrMap attrs = c.attrs;
      attrs.Set("count_include_pad", include_pad);
      EXPECT_EQ(InferText("AveragePool", attrs, {x}), c.out);
      OpCase average = {"AveragePool", attrs, {values}};
      EXPECT_EQ(CheckGradient(average), absl::OkStatus());
      EXPECT_EQ(CheckDecomposition(average), absl::OkStatus());
      attrs.Set("input_shape", Ints(c.x.dims().begin(), c.x.dims().end()));
      EXPECT_EQ(CheckDecomposition({"weft.AveragePoolGrad", attrs, {dy}}),
                absl::OkStatus());
    }
  }
}

TEST(PoolTest, ComputesByHand) {
  Literal x = Literal::Of<double>({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  AttrMap ceil = Attrs({2, 2}, {2, 2}, {0, 0, 0, 0}, 1);
  EXPECT_THAT(ResultOf({"MaxPool", ceil, {x}}), ElementsAre(5, 6, 8, 9));
  EXPECT_THAT(ResultOf({"AveragePool", ceil, {x}}),
              ElementsAre(3, 4.5, 7.5, 9));
  AttrMap padded = Attrs({2, 2}, {2, 2}, {1, 1, 0, 0}, 0);
  EXPECT_THAT(ResultOf({"MaxPool", padded, {x}}), ElementsAre(1, 3, 7, 9));
  EXPECT_THAT(ResultOf({"AveragePool", padded, {x}}),
              ElementsAre(1, 2.5, 5.5, 7));
  padded.Set("count_include_pad", 1);
  EXPECT_THAT(ResultOf({"AveragePool", padded, {x}}),
              ElementsAre(0.25, 1.25, 2.75, 7));
  // Padding counts, but not what the last window overhangs.
  AttrMap both = Attrs({2, 2}, {2, 2}, {1, 1, 1, 1}, 1);
  both.Set("count_include_pad", 1);
  EXPECT_THAT(ResultOf({"AveragePool",
                        both,
                        {Literal::Of<double>({1, 1, 2, 2}, {4, 8, 12, 16})}}),
              ElementsAre(1, 2, 3, 4));
}

TEST(MaxPoolTest, NegativeValuesBeatPadding) {
  Literal x = Literal::Splat({DType::kF64, {1, 1, 1, 1}}, -3.0);
  OpCase c = {"MaxPool", Attrs({2, 2}, {1, 1}, {1, 1, 1, 1}, 0), {x}};
  EXPECT_THAT(ResultOf(c), ElementsAre(-3, -3, -3, -3));
  EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
}

TEST(MaxPoolTest, FirstOfEqualMaximaTakesTheGradient) {
  OpCase c = {"weft.MaxPoolGrad",
              Attrs({2, 2}, {1, 1}, {0, 0, 0, 0}, 0),
              {Literal::Of<double>({1, 1, 1, 2}, {10, 1}),
               Literal::Of<double>({1, 1, 2, 3}, {5, 7, 7, 7, 7, 0})}};
  EXPECT_THAT(ResultOf(c), ElementsAre(0, 11, 0, 0, 0, 0));
  EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
}

TEST(MaxPoolTest, NanWins) {
  double nan = std::numeric_limits<double>::quiet_NaN();
  AttrMap attrs = Attrs({1, 2}, {1, 2}, {0, 0, 0, 0}, 0);
  Literal x = Literal::Of<double>({1, 1, 1, 4}, {nan, 9, 9, nan});
  OpCase c = {"MaxPool", attrs, {x}};
  EXPECT_THAT(ResultOf(c), ElementsAre(testing::IsNan(), testing::IsNan()));
  EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
  OpCase grad = {"weft.MaxPoolGrad",
                 attrs,
                 {Literal::Of<double>({1, 1, 1, 2}, {1, 2}), x}};
  EXPECT_THAT(ResultOf(grad), ElementsAre(1, 0, 0, 2));
  EXPECT_EQ(CheckDecomposition(grad), absl::OkStatus());
}

TEST(PoolTest, ErrorsNameBothShapes) {
  const std::string x = "f32[2,4,8,8]";
  struct Case {
    AttrMap attrs;
    std::string x;
    const char* code;
    std::vector<std::string> parts;
  };
  const AttrMap two = {{"kernel_shape", Ints{2, 2}}};
  auto with = [&two](const char* name, Attr value) {
    AttrMap attrs = two;
    attrs.Set(name, std::move(value));
    return attrs;
  };
  const std::vector<Case> cases = {
      {{}, x, "WEFT-2003", {"kernel_shape"}},
      {{{"kernel_shape", Ints{2}}}, x, "WEFT-2003", {"kernel_shape", "[2]"}},
      {{{"kernel_shape", Ints{0, 2}}}, x, "WEFT-2003", {"kernel_shape"}},
      {{{"kernel_shape", Ints{9, 2}}}, x, "WEFT-2004", {"[9,2]", "[2,4,8,8]"}},
      {two, "f32[4,8,8]", "WEFT-2004", {"[4,8,8]", "[N,C,H,W]"}},
      {two, "f32[2,4,0,8]", "WEFT-2004", {"[2,4,0,8]"}},
      {two, "i64[2,4,8,8]", "WEFT-2005", {"i64[2,4,8,8]"}},
      {with("pads", Ints{2, 0, 0, 0}), x, "WEFT-2003", {"pads", "[2,2]"}},
      {with("pads", Ints{0, 0}), x, "WEFT-2003", {"pads", "4"}},
      {with("strides", Ints{1, 0}), x, "WEFT-2003", {"strides"}},
      {with("ceil_mode", 2), x, "WEFT-2003", {"ceil_mode"}},
  };
  for (const Case& c : cases) {
    for (const char* op : {"MaxPool", "AveragePool"}) {
      EXPECT_THAT(InferText(op, c.attrs, {c.x}), ErrorWith(c.code, c.parts));
    }
  }
  EXPECT_THAT(InferText("AveragePool", with("count_include_pad", -1), {x}),
              ErrorWith("WEFT-2003", {"count_include_pad"}));
  EXPECT_THAT(InferText("weft.MaxPoolGrad", two, {"f32[2,4,8,8]", x}),
              ErrorWith("WEFT-2004", {"[2,4,8,8]", "[2,4,7,7]"}));
  EXPECT_THAT(InferText("weft.MaxPoolGrad", two, {"f64[2,4,7,7]", x}),
              ErrorWith("WEFT-2005", {"f64[2,4,7,7]", x}));
  EXPECT_THAT(InferText("weft.AveragePoolGrad",
                        with("input_shape", Ints{2, 4, 8, 8}), {x}),
              ErrorWith("WEFT-2004", {"[2,4,8,8]", "[2,4,7,7]"}));
}

TEST(GlobalAveragePoolTest, Everything) {
  EXPECT_EQ(InferText("GlobalAveragePool", {}, {"f32[2,3,4,5]"}),
            "f32[2,3,1,1]");
  EXPECT_EQ(InferText("GlobalAveragePool", {}, {"f16[2,3,4]"}), "f16[2,3,1]");
  EXPECT_THAT(InferText("GlobalAveragePool", {}, {"f32[2,3]"}),
              ErrorWith("WEFT-2004", {"[2,3]", "[N,C,...]"}));
  EXPECT_THAT(InferText("GlobalAveragePool", {}, {"bool[2,3,4]"}),
              ErrorWith("WEFT-2005", {"bool[2,3,4]"}));
  EXPECT_THAT(
      ResultOf({"GlobalAveragePool",
                {},
                {Literal::Of<double>({1, 2, 1, 3}, {1, 2, 6, 4, 4, 4})}}),
      ElementsAre(3, 4));
  for (const Shape& shape : std::vector<Shape>{
           {2, 3, 2, 2}, {1, 2, 5}, {1, 1, 2, 1, 3}, {0, 2, 3, 3}}) {
    OpCase c = {"GlobalAveragePool", {}, {RandomLiteral(shape, 1)}};
    EXPECT_EQ(CheckGradient(c), absl::OkStatus()) << shape.ToString();
    EXPECT_EQ(CheckDecomposition(c), absl::OkStatus()) << shape.ToString();
  }
}

TEST(PoolTest, ImagesInBlocksOfChannels) {
  for (const PoolCase& c : PoolCases()) {
    if (c.x.num_elements() == 0 || c.x.num_elements() > 40) continue;
    SCOPED_TRACE(c.name);
    Shape x = {c.x.dim(0), c.x.dim(1), c.x.dim(2), c.x.dim(3), 16};
    Shape y = ParseType(c.out).shape;
    y = {y.dim(0), y.dim(1), y.dim(2), y.dim(3), 16};
    AttrMap attrs = c.attrs;
    attrs.Set("layout", "NCHW16c");
    Literal values = RandomLiteral(x, 7), dy = RandomLiteral(y, 8);
    EXPECT_EQ(InferText("MaxPool", attrs, {"f64" + x.ToString()}),
              "f64" + y.ToString());
    OpCase max = {"MaxPool", attrs, {values}};
    EXPECT_EQ(CheckDecomposition(max), absl::OkStatus());
    EXPECT_EQ(CheckDecomposition({"weft.MaxPoolGrad", attrs, {dy, values}}),
              absl::OkStatus());
    attrs.Set("count_include_pad", 1);
    OpCase average = {"AveragePool", attrs, {values}};
    EXPECT_EQ(CheckDecomposition(average), absl::OkStatus());
    if (x.num_elements() < 200) {  // slow: by differences
      EXPECT_EQ(CheckGradient(max), absl::OkStatus());
      EXPECT_EQ(CheckGradient(average), absl::OkStatus());
    }
    attrs.Set("input_shape", DimsOf(FromBlocks(x)));
    EXPECT_EQ(CheckDecomposition({"weft.AveragePoolGrad", attrs, {dy}}),
              absl::OkStatus());
  }
  OpCase global = {"GlobalAveragePool",
                   {{"layout", "NCHW16c"}},
                   {RandomLiteral({2, 1, 2, 3, 16}, 1)}};
  EXPECT_EQ(InferText("GlobalAveragePool", global.attrs, {"f32[2,3,4,5,16]"}),
            "f32[2,3,1,1,16]");
  EXPECT_EQ(CheckGradient(global), absl::OkStatus());
  EXPECT_EQ(CheckDecomposition(global), absl::OkStatus());
  EXPECT_THAT(InferText("GlobalAveragePool", global.attrs, {"f32[2,3,4,5]"}),
              ErrorWith("WEFT-2004", {"[2,3,4,5]", "[N,C/16,H,W,16]"}));
}

TEST(PoolTest, CostCountsWindowElements) {
  AttrMap attrs = Attrs({3, 3}, {2, 2}, {0, 0, 0, 0}, 0);
  EXPECT_EQ(CostOf("MaxPool", attrs, {"f32[2,4,9,9]"}).flops,
            2 * 4 * 4 * 4 * 9);
  EXPECT_EQ(
      CostOf("weft.MaxPoolGrad", attrs, {"f32[2,4,4,4]", "f32[2,4,9,9]"}).flops,
      2 * 4 * 4 * 4 * 9);
}

}  // namespace
}  // namespace weft
