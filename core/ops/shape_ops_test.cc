#include "core/ops/schema.h"
#include "core/reference/gradient_check.h"
#include "core/reference/schema_check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;
using testing::ElementsAre;

constexpr int64_t kEnd = int64_t{1} << 62;  // "to the end" in a Slice

// 0, 1, 2, ...
Literal Counting(const Shape& shape) {
  std::vector<double> values(shape.num_elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return Literal::Of(shape, values);
}

Literal Indices(const Shape& shape, Ints values) {
  return Literal::Of(shape, std::move(values));
}

struct TypeCase {
  const char* op;
  AttrMap attrs;
  std::vector<std::string> inputs;
  const char* out;
  int num_outputs = -1;
};

TEST(ShapeOpsTest, Infers) {
  for (const TypeCase& c : std::vector<TypeCase>{
           {"Reshape", {{"shape", Ints{3, -1}}}, {"f32[2,6]"}, "f32[3,4]"},
           {"Reshape", {{"shape", Ints{0, 2, 3}}}, {"i8[2,6]"}, "i8[2,2,3]"},
           {"Reshape", {{"shape", Ints{}}}, {"f32[1,1]"}, "f32[]"},
           {"Reshape", {{"shape", Ints{-1, 5}}}, {"f32[0,5]"}, "f32[0,5]"},
           {"Flatten", {}, {"f32[2,3,4]"}, "f32[2,12]"},
           {"Flatten", {{"axis", 0}}, {"f32[2,3,4]"}, "f32[1,24]"},
           {"Flatten", {{"axis", -1}}, {"f32[2,3,4]"}, "f32[6,4]"},
           {"Flatten", {{"axis", 0}}, {"f32[]"}, "f32[1,1]"},
           {"Transpose", {}, {"f32[2,3,4]"}, "f32[4,3,2]"},
           {"Transpose",
            {{"perm", Ints{1, 0, 2}}},
            {"f32[2,3,4]"},
            "f32[3,2,4]"},
           {"Expand", {{"shape", Ints{4, 2, 1}}}, {"f32[1,3]"}, "f32[4,2,3]"},
           {"Squeeze", {}, {"f32[1,3,1]"}, "f32[3]"},
           {"Squeeze", {{"axes", Ints{-1}}}, {"f32[1,3,1]"}, "f32[1,3]"},
           {"Unsqueeze", {{"axes", Ints{0, -1}}}, {"f32[3]"}, "f32[1,3,1]"},
           {"Concat", {{"axis", -1}}, {"f32[2,1]", "f32[2,3]"}, "f32[2,4]"},
           {"Split",
            {{"split", Ints{1, 0, 3}}},
            {"f32[4,2]"},
            "f32[1,2] f32[0,2] f32[3,2]",
            3},
           {"Pad", {{"pads", Ints{1, 0, 2, -1}}}, {"f32[2,3]"}, "f32[5,2]"},
           {"Gather",
            {{"axis", 1}},
            {"f32[2,5,3]", "i32[4,6]"},
            "f32[2,4,6,3]"},
           {"Gather", {}, {"bool[5]", "i64[]"}, "bool[]"},
           {"weft.GatherGrad",
            {{"axis", 1}, {"input_shape", Ints{2, 5}}},
            {"f32[2,4]", "i64[4]"},
            "f32[2,5]"},
           {"weft.StridedCopy",
            {{"shape", Ints{2, 2}}, {"strides", Ints{-1, 3}}, {"offset", 1}},
            {"f32[5]"},
            "f32[2,2]"},
           {"weft.Iota",
            {{"shape", Ints{2, 3}}, {"dtype", DType::kI32}},
            {},
            "i32[2,3]"},
           {"weft.Empty", {{"shape", Ints{4, 2}}}, {"bf16[3]"}, "bf16[4,2]"},
       }) {
    EXPECT_EQ(InferText(c.op, c.attrs, c.inputs, c.num_outputs), c.out) << c.op;
  }
}

TEST(ShapeOpsTest, SliceFollowsOnnx) {
  struct Case {
    Ints starts, ends, axes, steps;
    const char* out;  // of f32[4,10]
  };
  for (const Case& c : std::vector<Case>{
           {{1, 2}, {3, 5}, {}, {}, "f32[2,3]"},
           {{0}, {kEnd}, {1}, {3}, "f32[4,4]"},
           {{-1}, {-kEnd}, {1}, {-1}, "f32[4,10]"},
           {{-3}, {-1}, {-1}, {}, "f32[4,2]"},
           {{8}, {2}, {1}, {-2}, "f32[4,3]"},
           {{20}, {30}, {1}, {}, "f32[4,0]"},
           {{5}, {5}, {1}, {}, "f32[4,0]"},
           {{2}, {8}, {1}, {-1}, "f32[4,0]"},
           {{}, {}, {}, {}, "f32[4,10]"},
           {{9}, {kEnd}, {1}, {kEnd}, "f32[4,1]"},
       }) {
    AttrMap attrs = {{"starts", c.starts},
                     {"ends", c.ends},
                     {"axes", c.axes},
                     {"steps", c.steps}};
    EXPECT_EQ(InferText("Slice", attrs, {"f32[4,10]"}), c.out);
  }
}

struct BadCase {
  const char* op;
  AttrMap attrs;
  std::vector<std::string> inputs;
  const char* code;
  std::vector<std::string> parts;
  int num_outputs = -1;
};

void ExpectErrors(const std::vector<BadCase>& cases) {
  for (const BadCase& c : cases) {
    EXPECT_THAT(InferText(c.op, c.attrs, c.inputs, c.num_outputs),
                ErrorWith(c.code, c.parts))
        << c.op;
  }
}

TEST(ShapeOpsTest, ErrorsOfReshapingNameShapesAndAttributes) {
  ExpectErrors({
      {"Reshape",
       {{"shape", Ints{5, -1}}},
       {"f32[2,6]"},
       "WEFT-2004",
       {"[2,6]", "[5, -1]", "number of elements"}},
      {"Reshape", {{"shape", Ints{7}}}, {"f32[2,6]"}, "WEFT-2004", {"[7]"}},
      {"Reshape",
       {{"shape", Ints{-1, -1}}},
       {"f32[4]"},
       "WEFT-2003",
       {"two are -1"}},
      {"Reshape", {{"shape", Ints{-2}}}, {"f32[4]"}, "WEFT-2003", {"negative"}},
      {"Reshape",
       {{"shape", Ints{4, 0}}},
       {"f32[4]"},
       "WEFT-2003",
       {"dimension 1"}},
      {"Reshape",
       {{"shape", Ints{kEnd, kEnd}}},
       {"f32[4]"},
       "WEFT-2003",
       {"too large"}},
      {"Reshape",
       {{"shape", Ints{0, -1}}},
       {"f32[0,4]"},
       "WEFT-2004",
       {"ambiguous"}},
      {"Reshape", {}, {"f32[4]"}, "WEFT-2003", {"'shape'", "required"}},
      {"Flatten", {{"axis", 3}}, {"f32[2,2]"}, "WEFT-2003", {"axis 3"}},
      {"Transpose",
       {{"perm", Ints{0, 0}}},
       {"f32[2,2]"},
       "WEFT-2003",
       {"[0, 0]", "f32[2,2]"}},
      {"Expand", {{"shape", Ints{3}}}, {"f32[2]"}, "WEFT-2004", {"[2]", "[3]"}},
      {"Expand", {{"shape", Ints{-1}}}, {"f32[2]"}, "WEFT-2003", {"[-1]"}},
      {"Squeeze",
       {{"axes", Ints{1}}},
       {"f32[1,3]"},
       "WEFT-2004",
       {"axis 1", "f32[1,3]"}},
      {"Unsqueeze", {{"axes", Ints{0, 0}}}, {"f32[3]"}, "WEFT-2003", {"twice"}},
  });
}

TEST(ShapeOpsTest, ErrorsOfMovingNameShapesAndAttributes) {
  ExpectErrors({
      {"Concat",
       {{"axis", 0}},
       {"f32[2,1]", "f32[2,3]"},
       "WEFT-2004",
       {"f32[2,1]", "f32[2,3]", "axis 0"}},
      {"Concat",
       {{"axis", 0}},
       {"f32[2]", "f32[2,3]"},
       "WEFT-2004",
       {"f32[2]", "f32[2,3]"}},
      {"Concat",
       {{"axis", 0}},
       {"f32[2]", "f64[2]"},
       "WEFT-2005",
       {"f32[2]", "f64[2]"}},
      {"Concat", {{"axis", 0}}, {"f32[2]", ""}, "WEFT-2006", {"operand 1"}},
      {"Split",
       {{"split", Ints{1, 2}}},
       {"f32[4]"},
       "WEFT-2004",
       {"[1, 2]", "f32[4]"},
       2},
      {"Split",
       {{"split", Ints{-1, 5}}},
       {"f32[4]"},
       "WEFT-2004",
       {"[-1, 5]"},
       2},
      {"Split",
       {{"split", Ints{1, 3}}},
       {"f32[4]"},
       "WEFT-2006",
       {"gives 2 results, asked for 1"},
       1},
      {"Slice",
       {{"starts", Ints{0}}, {"ends", Ints{1, 2}}},
       {"f32[4]"},
       "WEFT-2003",
       {"1, 2, 0 and 0"}},
      {"Slice",
       {{"starts", Ints{0}}, {"ends", Ints{1}}, {"steps", Ints{0}}},
       {"f32[4]"},
       "WEFT-2003",
       {"step"}},
      {"Slice",
       {{"starts", Ints{0, 0}}, {"ends", Ints{1, 1}}},
       {"f32[4]"},
       "WEFT-2003",
       {"axis 1"}},
      {"Pad", {{"pads", Ints{1}}}, {"f32[4]"}, "WEFT-2003", {"f32[4]"}},
      {"Pad",
       {{"pads", Ints{-3, -2}}},
       {"f32[4]"},
       "WEFT-2004",
       {"[-3, -2]", "f32[4]"}},
      {"Gather", {}, {"f32[4]", "f32[2]"}, "WEFT-2005", {"i32 or i64"}},
      {"Gather", {{"axis", 1}}, {"f32[4]", "i32[2]"}, "WEFT-2003", {"axis 1"}},
      {"Gather", {}, {"f32[0]", "i32[2]"}, "WEFT-2004", {"f32[0]"}},
      {"weft.GatherGrad",
       {{"input_shape", Ints{5}}},
       {"f32[3]", "i64[2]"},
       "WEFT-2004",
       {"[2]", "f32[3]"}},
      {"weft.StridedCopy",
       {{"shape", Ints{3}}, {"strides", Ints{2}}},
       {"f32[4]"},
       "WEFT-2004",
       {"outside", "f32[4]"}},
      {"weft.StridedCopy",
       {{"shape", Ints{2}}, {"strides", Ints{-1}}},
       {"f32[4]"},
       "WEFT-2004",
       {"outside"}},
      {"weft.StridedCopy",
       {{"shape", Ints{2}}, {"strides", Ints{}}},
       {"f32[4]"},
       "WEFT-2003",
       {"length"}},
      {"weft.Iota",
       {{"shape", Ints{2}}, {"dtype", DType::kBool}},
       {},
       "WEFT-2003",
       {"bool"}},
  });
}

TEST(ShapeOpsTest, Values) {
  Literal x = Counting({2, 3});  // 0 1 2 / 3 4 5
  EXPECT_THAT(ResultOf({"Transpose", {}, {x}}), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(ResultOf({"Reshape", {{"shape", Ints{-1}}}, {x}}),
              ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(ResultOf({"Expand", {{"shape", Ints{2, 2}}}, {Counting({2, 1})}}),
              ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(ResultOf({"Slice",
                        {{"starts", Ints{-1}},
                         {"ends", Ints{-kEnd}},
                         {"axes", Ints{1}},
                         {"steps", Ints{-2}}},
                        {x}}),
              ElementsAre(2, 0, 5, 3));
  EXPECT_THAT(ResultOf({"Concat", {{"axis", 1}}, {x, Counting({2, 1})}}),
              ElementsAre(0, 1, 2, 0, 3, 4, 5, 1));
  OpCase split{"Split", {{"axis", 1}, {"split", Ints{1, 2}}}, {x}, 2};
  EXPECT_THAT(ResultOf(split, 0), ElementsAre(0, 3));
  EXPECT_THAT(ResultOf(split, 1), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(
      ResultOf({"Pad", {{"pads", Ints{0, 1, 1, -1}}, {"value", 9.0}}, {x}}),
      ElementsAre(9, 0, 1, 9, 3, 4, 9, 9, 9));
  EXPECT_THAT(
      ResultOf({"weft.Iota",
                {{"shape", Ints{2, 3}}, {"dtype", DType::kF32}, {"axis", 1}},
                {}}),
      ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(
      ResultOf(
          {"weft.StridedCopy",
           {{"shape", Ints{2, 2}}, {"strides", Ints{-1, 2}}, {"offset", 3}},
           {x}}),
      ElementsAre(3, 5, 2, 4));
}

TEST(ShapeOpsTest, GatherCountsNegativeIndicesFromTheEnd) {
  Literal x = Counting({3, 2});
  OpCase rows{"Gather", {}, {x, Indices({2}, {2, -3})}};
  EXPECT_THAT(ResultOf(rows), ElementsAre(4, 5, 0, 1));
  OpCase columns{"Gather", {{"axis", -1}}, {x, Indices({}, {-1})}};
  EXPECT_THAT(ResultOf(columns), ElementsAre(1, 3, 5));
  OpCase grad{"weft.GatherGrad",
              {{"input_shape", Ints{3}}},
              {Counting({4}), Indices({4}, {2, 0, -1, 2})}};
  EXPECT_THAT(ResultOf(grad), ElementsAre(1, 0, 5));
}

TEST(ShapeOpsTest, AnIndexOutOfRangeIsATypedError) {
  for (int64_t index : {3, -4}) {
    absl::Status status =
        RunOp({"Gather", {}, {Counting({3}), Indices({1}, {index})}}).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kBadValue)) << status;
    EXPECT_THAT(std::string(status.message()),
                testing::HasSubstr(std::to_string(index)));
  }
}

std::vector<OpCase> Differentiable() {
  Literal x = RandomLiteral({2, 3, 4}, 1);
  Literal y = RandomLiteral({2, 1, 4}, 2);
  auto slice = [&x](Ints starts, Ints ends, Ints axes, Ints steps) {
    return OpCase{"Slice",
                  {{"starts", std::move(starts)},
                   {"ends", std::move(ends)},
                   {"axes", std::move(axes)},
                   {"steps", std::move(steps)}},
                  {x}};
  };
  return {
      {"Reshape", {{"shape", Ints{4, -1}}}, {x}},
      {"Flatten", {{"axis", 2}}, {x}},
      {"Squeeze", {}, {y}},
      {"Unsqueeze", {{"axes", Ints{1, -1}}}, {x}},
      {"Transpose", {}, {x}},
      {"Transpose", {{"perm", Ints{1, 2, 0}}}, {x}},
      {"Transpose", {}, {RandomLiteral({}, 3)}},
      {"Expand", {{"shape", Ints{5, 1, 3, 1}}}, {y}},
      {"Expand", {{"shape", Ints{2, 2}}}, {RandomLiteral({}, 3)}},
      {"Concat", {{"axis", 1}}, {x, y, x}},
      {"Concat", {{"axis", -1}}, {x, RandomLiteral({2, 3, 0}, 1)}},
      {"Concat", {{"axis", 0}}, {x}},
      {"Concat",
       {{"axis", 0}},
       {RandomLiteral({0, 3}, 1), RandomLiteral({0, 3}, 1)}},
      {"Split", {{"axis", 1}, {"split", Ints{1, 2}}}, {x}, 2},
      {"Split", {{"axis", -1}, {"split", Ints{2, 0, 2}}}, {x}, 3},
      slice({0, 1}, {1, 3}, {}, {}),
      slice({1, -1}, {3, -kEnd}, {1, 2}, {1, -2}),
      slice({0, 0}, {kEnd, kEnd}, {0, 2}, {2, 3}),
      slice({2}, {2}, {1}, {}),
      slice({1, 1}, {kEnd, -kEnd}, {1, 0}, {kEnd, -kEnd}),
      slice({}, {}, {}, {}),
      {"Pad", {{"pads", Ints{1, 0, 2, 0, 1, 0}}, {"value", 0.5}}, {x}},
      {"Pad", {{"pads", Ints{0, -1, 1, 0, 2, -2}}}, {x}},
      {"Pad", {{"pads", Ints{0, -3, 0, 0, 2, 0}}}, {x}},
      {"Pad", {{"pads", Ints{1, 1}}, {"value", 2.0}}, {RandomLiteral({0}, 1)}},
      {"Gather", {}, {x, Indices({3}, {1, 0, 1})}},
      {"Gather", {{"axis", 1}}, {x, Indices({2, 2}, {0, 2, -1, 2})}},
      {"Gather", {{"axis", 2}}, {x, Indices({}, {3})}},
      {"weft.GatherGrad",
       {{"axis", 1}, {"input_shape", Ints{2, 5, 4}}},
       {x, Indices({3}, {4, 0, 4})}},
      {"weft.StridedCopy",
       {{"shape", Ints{2, 3}}, {"strides", Ints{-4, 2}}, {"offset", 10}},
       {x}},
      {"weft.StridedCopy",
       {{"shape", Ints{3, 2}}, {"strides", Ints{0, 1}}},
       {x}},
      {"weft.StridedCopy",
       {{"shape", Ints{}}, {"strides", Ints{}}, {"offset", 5}},
       {x}},
  };
}

TEST(ShapeOpsTest, Gradients) {
  for (const OpCase& c : Differentiable()) {
    EXPECT_EQ(CheckGradient(c), absl::OkStatus());
  }
}

TEST(ShapeOpsTest, DecompositionsAreExact) {
  std::vector<OpCase> cases = Differentiable();
  Literal flags = Literal::Of<bool>({3}, {true, false, true});
  cases.push_back({"Pad", {{"pads", Ints{1, 2}}, {"value", 1.0}}, {flags}});
  cases.push_back({"Concat", {{"axis", 0}}, {flags, flags}});
  // More than any kernel takes.
  std::vector<Literal> many(70, RandomLiteral({2, 2}, 1));
  for (size_t i = 0; i < many.size(); ++i) many[i] = RandomLiteral({2, 2}, i);
  cases.push_back({"Concat", {{"axis", 1}}, many});
  cases.push_back({"weft.Empty", {{"shape", Ints{4, 2}}}, {flags}});
  int decomposed = 0;
  for (const OpCase& c : cases) {
    if (OpRegistry::Global().FindOrNull(c.op)->decompose == nullptr) continue;
    EXPECT_EQ(CheckDecomposition(c, /*tolerance=*/0), absl::OkStatus());
    ++decomposed;
  }
  EXPECT_GT(decomposed, 20);
}

}  // namespace
}  // namespace weft
