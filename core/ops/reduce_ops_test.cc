#include <cmath>

#include "core/ops/to_all.h"
#include "core/reference/gradient_check.h"
#include "core/reference/schema_check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;
using testing::ElementsAre;

AttrMap Axes(Ints axes, int keepdims = 1) {
  return {{"axes", std::move(axes)}, {"keepdims", keepdims}};
}

TEST(ReduceTest, Infers) {
  EXPECT_EQ(InferText("ReduceSum", {}, {"f32[2,3]"}), "f32[1,1]");
  EXPECT_EQ(InferText("ReduceSum", Axes({}, 0), {"i32[2,3]"}), "i32[]");
  EXPECT_EQ(InferText("ReduceMax", Axes({-1}), {"f16[2,3]"}), "f16[2,1]");
  EXPECT_EQ(InferText("ReduceMin", Axes({2, 0}, 0), {"f32[2,3,4]"}), "f32[3]");
  EXPECT_EQ(InferText("ReduceProd", Axes({0}), {"f32[0,3]"}), "f32[1,3]");
  EXPECT_EQ(InferText("ReduceMean", {}, {"f32[]"}), "f32[]");
  EXPECT_EQ(InferText("ArgMax", {}, {"f32[2,3]"}), "i64[1,3]");
  EXPECT_EQ(InferText("ArgMax", {{"axis", -1}, {"keepdims", 0}}, {"i8[2,3]"}),
            "i64[2]");
}

TEST(ReduceTest, Errors) {
  EXPECT_THAT(InferText("ReduceSum", Axes({2}), {"f32[2,3]"}),
              ErrorWith("WEFT-2003", {"axis 2", "rank 2"}));
  EXPECT_THAT(InferText("ReduceSum", Axes({1, -1}), {"f32[2,3]"}),
              ErrorWith("WEFT-2003", {"twice", "[1, -1]"}));
  EXPECT_THAT(InferText("ReduceSum", Axes({}, 2), {"f32[2]"}),
              ErrorWith("WEFT-2003", {"keepdims", "2"}));
  EXPECT_THAT(InferText("ReduceSum", {}, {"bool[2]"}),
              ErrorWith("WEFT-2005", {"bool[2]"}));
  EXPECT_THAT(InferText("ReduceMean", {}, {"i32[2]"}),
              ErrorWith("WEFT-2005", {"float", "i32[2]"}));
  for (const char* op : {"ReduceMax", "ReduceMin"}) {
    EXPECT_THAT(InferText(op, {}, {"f32[0,3]"}),
                ErrorWith("WEFT-2004", {"axis 0", "f32[0,3]"}));
  }
  EXPECT_THAT(InferText("ArgMax", {}, {"f32[0]"}),
              ErrorWith("WEFT-2004", {"f32[0]"}));
  EXPECT_THAT(InferText("ArgMax", {}, {"f32[]"}),
              ErrorWith("WEFT-2003", {"axis 0", "rank 0"}));
}

TEST(ReduceTest, Values) {
  Literal x = Literal::Of<double>({2, 3}, {1, -2, 3, 4, 5, -6});
  struct Case {
    const char* op;
    std::vector<double> rows, columns, all;
  };
  for (const Case& c : std::vector<Case>{
           {"ReduceSum", {2, 3}, {5, 3, -3}, {5}},
           {"ReduceMean", {2.0 / 3, 1}, {2.5, 1.5, -1.5}, {5.0 / 6}},
           {"ReduceMax", {3, 5}, {4, 5, 3}, {5}},
           {"ReduceMin", {-2, -6}, {1, -2, -6}, {-6}},
           {"ReduceProd", {-6, -120}, {4, -10, -18}, {720}},
       }) {
    EXPECT_EQ(ResultOf({c.op, Axes({1}), {x}}), c.rows) << c.op;
    EXPECT_EQ(ResultOf({c.op, Axes({0}, 0), {x}}), c.columns) << c.op;
    EXPECT_EQ(ResultOf({c.op, {}, {x}}), c.all) << c.op;
  }
}

TEST(ReduceTest, EmptySumsAndProducts) {
  Literal none = Literal::Of<double>({0, 2}, {});
  EXPECT_THAT(ResultOf({"ReduceSum", Axes({0}), {none}}), ElementsAre(0, 0));
  EXPECT_THAT(ResultOf({"ReduceProd", Axes({0}), {none}}), ElementsAre(1, 1));
}

TEST(ReduceTest, IntegersWrapAround) {
  Literal x = Literal::Of<int8_t>({3}, {100, 100, 100});
  EXPECT_THAT(ResultOf({"ReduceSum", {}, {x}}), ElementsAre(300 - 256));
  EXPECT_THAT(ResultOf({"ReduceProd", {}, {x}}), ElementsAre(64));  // mod 256
  EXPECT_THAT(ResultOf({"ReduceMax", {}, {x}}), ElementsAre(100));
}

TEST(ReduceTest, NanWins) {
  Literal x = Literal::Of<double>({3}, {1, std::nan(""), 7});
  EXPECT_TRUE(std::isnan(ResultOf({"ReduceMax", {}, {x}})[0]));
  EXPECT_TRUE(std::isnan(ResultOf({"ReduceMin", {}, {x}})[0]));
  EXPECT_THAT(ResultOf({"ArgMax", {}, {x}}), ElementsAre(1));
}

TEST(ReduceTest, ArgMaxTakesTheFirst) {
  Literal x = Literal::Of<float>({2, 3}, {1, 5, 5, 7, 2, 7});
  EXPECT_THAT(ResultOf({"ArgMax", {{"axis", 1}}, {x}}), ElementsAre(1, 0));
  EXPECT_THAT(ResultOf({"ArgMax", {{"axis", 0}}, {x}}), ElementsAre(1, 0, 1));
  EXPECT_THAT(ResultOf({"ArgMax", {{"axis", -2}, {"keepdims", 0}}, {x}}),
              ElementsAre(1, 0, 1));
}

TEST(ReduceTest, GradientsOfEveryAxisVariant) {
  std::vector<AttrMap> variants = {{},         Axes({0}),       Axes({1}, 0),
                                   Axes({-1}), Axes({0, 2}, 0), Axes({}, 0)};
  for (const char* op :
       {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"}) {
    for (const AttrMap& attrs : variants) {
      OpCase c{op, attrs, {RandomLiteral({2, 3, 2}, 7)}};
      EXPECT_EQ(CheckGradient(c), absl::OkStatus());
    }
    EXPECT_EQ(CheckGradient({op, {}, {RandomLiteral({}, 1)}}),
              absl::OkStatus());
  }
  EXPECT_EQ(CheckGradient({"ArgMax", {}, {RandomLiteral({4}, 1)}}),
            absl::OkStatus());
}

TEST(ReduceTest, ProductGradientWithZeros) {
  for (std::vector<double> row : std::vector<std::vector<double>>{
           {2, 3, 4}, {2, 0, 4}, {0, 3, 0}, {0, 0, 0}}) {
    OpCase c{"ReduceProd", {}, {Literal::Of<double>({3}, row)}};
    EXPECT_EQ(CheckGradient(c), absl::OkStatus());
  }
}

TEST(ReduceTest, MeanDecomposes) {
  for (const AttrMap& attrs : {AttrMap{}, Axes({1}), Axes({0, -1}, 0)}) {
    OpCase c{"ReduceMean", attrs, {RandomLiteral({2, 3, 2}, 7)}};
    EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
  }
}

OpCase ReduceToAll(const std::string& reduction, std::vector<double> values) {
  OpCase c{"weft.ReduceToAll", {{"reduction", reduction}}, {}};
  for (double v : values) c.inputs.push_back(Literal::Of<double>({1}, {v}));
  c.num_outputs = static_cast<int>(values.size());
  return c;
}

TEST(ReduceToAllTest, GivesTheSameToAll) {
  for (const auto& [reduction, want] :
       std::vector<std::pair<std::string, double>>{
           {"sum", 7}, {"prod", 8}, {"max", 4}, {"min", 1}}) {
    const OpCase c = ReduceToAll(reduction, {4, 1, 2});
    absl::StatusOr<std::vector<Literal>> results = RunOp(c);
    ASSERT_TRUE(results.ok()) << results.status();
    ASSERT_EQ(results->size(), 3u);
    for (const Literal& y : *results) EXPECT_EQ(y.data<double>()[0], want);
    EXPECT_EQ(CheckDecomposition(c), absl::OkStatus()) << reduction;
  }
}

TEST(ReduceToAllTest, IsATreeByPosition) {
  const double big = 9007199254740992;  // 2^53: its neighbours are 2 away
  // One by one each 1 would be lost.
  EXPECT_THAT(ResultOf(ReduceToAll("sum", {big, 1, 1, 1})),
              ElementsAre(big + 2));
  EXPECT_EQ(CheckDecomposition(ReduceToAll("sum", {big, 1, 1, 1, 1, 1, 1})),
            absl::OkStatus());
}

TEST(ReduceToAllTest, RefusesUnlikeOperands) {
  EXPECT_THAT(InferText("weft.ReduceToAll", {}, {"f32[2]", "f32[3]"}, 2),
              ErrorWith("WEFT-2004", {"operand 1", "f32[2]"}));
  EXPECT_THAT(InferText("weft.ReduceToAll", {{"reduction", "mean"}},
                        {"f32[2]", "f32[2]"}, 2),
              ErrorWith("WEFT-2003", {"reduction", "mean"}));
}

TEST(ReduceToAllTest, CostIsThatOfOneResult) {
  const OpSchema& schema = *OpRegistry::Global().FindOrNull("weft.ReduceToAll");
  const AttrMap attrs = {{"reduction", "sum"}};
  const std::vector<TensorType> three(3, {DType::kF32, {10}});
  const Cost cost = schema.cost(OpView(schema, "n", attrs, three, three));
  EXPECT_EQ(cost.flops, 20);
  EXPECT_EQ(cost.bytes, 240);
}

TEST(CopyToAllTest, GivesTheLastOperandToAll) {
  OpCase c{"weft.CopyToAll", {}, {}};
  for (double v : {4, 1, 2}) {
    c.inputs.push_back(Literal::Of<double>({1}, {v}));
  }
  c.num_outputs = 2;
  absl::StatusOr<std::vector<Literal>> results = RunOp(c);
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 2u);
  for (const Literal& y : *results) EXPECT_EQ(y.data<double>()[0], 2);
  EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
  EXPECT_THAT(InferText("weft.CopyToAll", {}, {"f32[2]", "f32[3]"}, 1),
              ErrorWith("WEFT-2004", {"operand 1", "f32[2]"}));
}

// Of every op of which compilers take that for granted.
TEST(GivesToAllTest, EveryResultIsTheSame) {
  int ops = 0;
  for (const OpSchema* schema : OpRegistry::Global().All()) {
    if (!GivesToAll(*schema)) continue;
    ++ops;
    OpCase c{schema->name, {}, {}};
    for (uint32_t seed = 1; seed <= 3; ++seed) {
      c.inputs.push_back(RandomLiteral({2, 3}, seed));
    }
    // A result for each operand, from the first on.
    c.num_outputs = schema->inputs.min == 1 ? 3 : 2;
    absl::StatusOr<std::vector<Literal>> results = RunOp(c);
    ASSERT_TRUE(results.ok()) << schema->name << results.status();
    for (const Literal& y : *results) {
      EXPECT_TRUE(y.type() == c.inputs[0].type()) << schema->name;
      EXPECT_TRUE(y == results->front()) << schema->name;
    }
  }
  EXPECT_EQ(ops, 2);
}

TEST(SumOfSquaresTest, InfersComputesAndDecomposes) {
  EXPECT_EQ(InferText("weft.SumOfSquares", {}, {"f32[2,3]"}), "f64[]");
  EXPECT_THAT(InferText("weft.SumOfSquares", {}, {"i32[2]"}),
              ErrorWith("WEFT-2005", {"i32[2]"}));
  for (const OpCase& c :
       {OpCase{"weft.SumOfSquares",
               {},
               {Literal::Of<float>({2, 2}, {1, -2, 3, 1e30f})}},
        OpCase{"weft.SumOfSquares", {}, {Literal::Of<double>({}, {-3})}},
        OpCase{"weft.SumOfSquares", {}, {Literal::Of<float>({0}, {})}}}) {
    EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
  }
  // In f64: 1e30 squared is more than any f32.
  EXPECT_THAT(
      ResultOf(
          {"weft.SumOfSquares", {}, {Literal::Of<float>({3}, {3, -4, 0})}}),
      ElementsAre(25));
}

TEST(SumOfSquaresTest, SumsOperandsPartByPart) {
  const OpCase c{"weft.SumOfSquares",
                 {{"parts", 3}, {"blocks", Ints{2, 1}}},
                 {Literal::Of<float>({5}, {1, 2, 3, 4, 5}),
                  Literal::Of<double>({2, 1}, {10, 20})}};
  EXPECT_THAT(ResultOf(c), ElementsAre(1 + 4 + 100, 9 + 16 + 400, 25));
  EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
  EXPECT_EQ(CheckDecomposition({"weft.SumOfSquares", {}, c.inputs}),
            absl::OkStatus());
  const auto infer = [](int64_t parts, const Ints& blocks) {
    return InferText("weft.SumOfSquares",
                     {{"parts", parts}, {"blocks", blocks}},
                     {"f32[5]", "f64[2,1]"});
  };
  EXPECT_EQ(infer(3, {2, 1}), "f64[3]");
  EXPECT_EQ(infer(1, {}), "f64[]");
  for (int64_t parts : {int64_t{0}, int64_t{-1}, int64_t{1} << 62}) {
    EXPECT_THAT(infer(parts, {2, 1}),
                ErrorWith("WEFT-2003", {"'parts'", std::to_string(parts)}));
  }
  EXPECT_THAT(infer(2, {-3, 1}), ErrorWith("WEFT-2003", {"'blocks'"}));
  EXPECT_THAT(infer(2, {3}), ErrorWith("WEFT-2003", {"'blocks'", "need 2"}));
  EXPECT_THAT(infer(2, {2, 1}), ErrorWith("WEFT-2003", {"'blocks'", "f32[5]"}));
  EXPECT_THAT(infer(2, {6, 1}), ErrorWith("WEFT-2003", {"'blocks'", "f32[5]"}));
}

TEST(ReduceToAllTest, GivesTheSumOfSquaresAsWell) {
  OpCase c = ReduceToAll("sum", {4, 1, 2});
  c.attrs.Set("squares", 1);
  c.num_outputs = 4;
  absl::StatusOr<std::vector<Literal>> results = RunOp(c);
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 4u);
  EXPECT_EQ((*results)[2].data<double>()[0], 7);
  EXPECT_EQ((*results)[3].data<double>()[0], 49);
  EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
  EXPECT_THAT(
      InferText("weft.ReduceToAll", {{"squares", 1}}, {"i32[2]", "i32[2]"}, 3),
      ErrorWith("WEFT-2005", {"i32[2]"}));
}

TEST(ReduceTest, CostCountsTheOperand) {
  EXPECT_EQ(CostOf("ReduceSum", {}, {"f32[10,20]"}).flops, 200);
  EXPECT_EQ(CostOf("ReduceSum", {}, {"f32[10,20]"}).bytes, 804);
}

}  // namespace
}  // namespace weft
