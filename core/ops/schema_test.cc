#include "core/ops/schema.h"

#include <cmath>

#include "core/ops/attr.h"
#include "core/ops/expr.h"
#include "core/reference/eager.h"
#include "core/reference/evaluate.h"
#include "core/reference/gradient_check.h"
#include "core/reference/schema_check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(AttrTest, PrintsAsGraphText) {
  EXPECT_EQ(ToString(Attr(-3)), "-3");
  EXPECT_EQ(ToString(Attr(1.0)), "1.0");
  EXPECT_EQ(ToString(Attr(0.1)), "0.1");
  EXPECT_EQ(ToString(Attr(1.0 / 3)), "0.3333333333333333");
  EXPECT_EQ(ToString(Attr(-INFINITY)), "-inf");
  EXPECT_EQ(ToString(Attr("a\"b")), "\"a\\\"b\"");
  EXPECT_EQ(ToString(Attr(std::vector<int64_t>{1, 2})), "[1, 2]");
  EXPECT_EQ(ToString(Attr(std::vector<double>{1, 0.5})), "[1.0, 0.5]");
  EXPECT_EQ(ToString(Attr(std::vector<std::string>{"a"})), "[\"a\"]");
  EXPECT_EQ(ToString(Attr(DType::kBF16)), "bf16");
  EXPECT_EQ(ToString(Attr(Literal::Of<float>({2}, {1, 2.5}))),
            "f32[2]{1.0, 2.5}");
  EXPECT_EQ(ToString(Attr(Literal::Scalar<int64_t>(INT64_MAX))),
            "i64[]{9223372036854775807}");
}

TEST(RegistryTest, HoldsEveryOp) {
  std::vector<const OpSchema*> all = OpRegistry::Global().All();
  size_t next = 0;
#define WEFT_OP(number, identifier, text)                          \
  ASSERT_LT(next, all.size()) << text;                             \
  EXPECT_EQ(static_cast<uint32_t>(all[next]->id), number) << text; \
  EXPECT_EQ(all[next]->name, text);                                \
  EXPECT_EQ(OpRegistry::Global().FindOrNull(text), all[next]);     \
  ++next;
#include "core/ops/op_ids.inc"
#undef WEFT_OP
  EXPECT_EQ(next, all.size());
  EXPECT_EQ(OpName(static_cast<OpId>(99999)), "");
}

TEST(RegistryTest, SchemasAreWhole) {
  for (const OpSchema* schema : OpRegistry::Global().All()) {
    SCOPED_TRACE(schema->name);
    EXPECT_NE(schema->infer, nullptr);
    EXPECT_LE(schema->inputs.min, schema->inputs.max);
    EXPECT_LE(schema->outputs.min, schema->outputs.max);
    EXPECT_EQ(schema->effect == OpEffect::kUpdate, schema->state_slots > 0);
    EXPECT_TRUE(!schema->commutative || schema->inputs.min >= 2);
    if (schema->elementwise) {
      EXPECT_EQ(schema->effect, OpEffect::kPure);
      EXPECT_EQ(schema->outputs.max, 1);
    }
    for (const AttrSpec& attr : schema->attrs) {
      EXPECT_EQ(schema->FindAttr(attr.name), &attr) << "two of one name";
      EXPECT_TRUE(!attr.has_default || attr.default_value.kind() == attr.kind);
    }
    // Whatever can be folded or run has a definition.
    EXPECT_TRUE(schema->effect == OpEffect::kStateful || CanEvaluate(*schema));
  }
}

TEST(RegistryTest, SuggestsTheNearestName) {
  auto message = [](absl::string_view name) {
    absl::Status status = OpRegistry::Global().Find(name).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kUnknownOp)) << name;
    return std::string(status.message());
  };
  EXPECT_THAT(message("MatMull"), HasSubstr("did you mean 'MatMul'?"));
  EXPECT_THAT(message("Gelu"), HasSubstr("did you mean 'weft.Gelu'?"));
  EXPECT_EQ(message("Quux"), "no operator 'Quux'");
}

TEST(InferTypesTest, ChecksArity) {
  EXPECT_THAT(InferText("Add", {}, {"f32[]"}),
              ErrorWith("WEFT-2006", {"'n' (Add)", "takes 2", "got 1"}));
  EXPECT_THAT(InferText("Concat", {{"axis", 0}}, {}),
              ErrorWith("WEFT-2006", {"at least 1", "got 0"}));
  EXPECT_THAT(InferText("Add", {}, {"", "f32[]"}),
              ErrorWith("WEFT-2006", {"operand 0", "absent"}));
  EXPECT_THAT(InferText("Add", {}, {"f32[]", "f32[]"}, 2),
              ErrorWith("WEFT-2006", {"gives 1", "asked for 2"}));
}

TEST(InferTypesTest, ChecksAttributes) {
  EXPECT_THAT(InferText("ArgMax", {{"axsi", 1}}, {"f32[2,3]"}),
              ErrorWith("WEFT-2002", {"'axsi'", "did you mean 'axis'?"}));
  EXPECT_THAT(InferText("ArgMax", {{"foo", 1}}, {"f32[2,3]"}),
              ErrorWith("WEFT-2002", {"'foo'", "it has: axis, keepdims"}));
  EXPECT_THAT(InferText("Relu", {{"alpha", 1.0}}, {"f32[2]"}),
              ErrorWith("WEFT-2002", {"it has none"}));
  EXPECT_THAT(InferText("ArgMax", {{"axis", 1.0}}, {"f32[2,3]"}),
              ErrorWith("WEFT-2003", {"must be a int", "float 1.0"}));
  EXPECT_THAT(InferText("Cast", {}, {"f32[2]"}),
              ErrorWith("WEFT-2003", {"'to' (dtype) is required"}));
}

TEST(InferTypesTest, RefusesResultsThatAreTooLarge) {
  EXPECT_THAT(InferText("Add", {}, {"f32[1073741824,1]", "f32[1,1073741824]"}),
              ErrorWith("WEFT-2004", {"too large"}));
}

TEST(SumToTest, UndoesBroadcasting) {
  struct Case {
    Shape from, to;
    std::vector<double> sums;  // of 1, 2, 3, ...
  };
  for (const Case& c : std::vector<Case>{
           {{2, 3}, {2, 3}, {1, 2, 3, 4, 5, 6}},
           {{2, 3}, {3}, {5, 7, 9}},
           {{2, 3}, {2, 1}, {6, 15}},
           {{2, 3}, {}, {21}},
           {{2, 3}, {1, 1}, {21}},
           {{2, 2, 2}, {2, 1}, {14, 22}},
           {{1, 2}, {2}, {1, 2}},
           {{0, 3}, {3}, {0, 0, 0}},
           {{2, 0}, {0}, {}},
       }) {
    std::vector<double> values(c.from.num_elements());
    for (size_t i = 0; i < values.size(); ++i) values[i] = i + 1.0;
    EagerEmitter e;
    Value sum = e.SumTo(e.Add(Literal::Of(c.from, values)), c.to);
    ASSERT_EQ(e.status(), absl::OkStatus());
    EXPECT_EQ(e.literal(sum), Literal::Of(c.to, c.sums))
        << c.from.ToString() << " to " << c.to.ToString();
  }
}

TEST(ExprTest, ReadsAsArithmetic) {
  EagerEmitter e;
  Expr x(e, e.Add(Literal::Scalar<float>(3)));
  Expr y = 1.0 - (x * x + 2.0) / x;
  EXPECT_FLOAT_EQ(e.literal(y).ToDoubles()[0], 1 - 11.0 / 3);
  EXPECT_EQ(y.dtype(), DType::kF32);
}

TEST(ExprTest, InvalidOperandsSpread) {
  EagerEmitter e;
  Expr absent(e, {});
  EXPECT_FALSE((absent + 1.0).valid());
  EXPECT_FALSE(ReshapeTo(SumTo(-absent, {2}), {1, 2}).valid());
  EXPECT_EQ(e.status(), absl::OkStatus());
}

// --- The reference itself ---------------------------------------------------

TEST(EvaluateTest, RoundsOnceAtTheEnd) {
  // 2^24 + 1 is no f32: only the sum is rounded, not its terms.
  Literal x = Literal::Of<float>({3}, {16777216, 1, 1});
  EXPECT_THAT(ResultOf({"ReduceSum", {}, {x}}), ElementsAre(16777218));
}

TEST(EvaluateTest, RefusesIntegersThatDoubleWouldChange) {
  Literal big = Literal::Scalar<int64_t>((int64_t{1} << 53) + 2);
  Literal most = Literal::Scalar<int64_t>(int64_t{1} << 53);
  absl::Status in = RunOp({"Neg", {}, {big}}).status();
  EXPECT_TRUE(IsError(in, ErrorCode::kBadValue)) << in;
  absl::Status out = RunOp({"Mul", {}, {most, most}}).status();
  EXPECT_EQ(out, absl::OkStatus()) << "2^106 wraps around to 0";
  out = RunOp({"Add", {}, {most, most}}).status();
  EXPECT_TRUE(IsError(out, ErrorCode::kBadValue)) << out;
  // A constant is not computed: every value is fine.
  absl::StatusOr<std::vector<Literal>> constant =
      RunOp({"Constant", {{"value", big}}, {}});
  ASSERT_TRUE(constant.ok());
  EXPECT_EQ((*constant)[0], big);
}

TEST(EvaluateTest, ChecksWhatItIsGiven) {
  const OpSchema& neg = *OpRegistry::Global().FindOrNull("Neg");
  AttrMap attrs;
  std::vector<TensorType> type = {{DType::kF32, {2}}};
  OpView view(neg, "n", attrs, type, type);
  EXPECT_TRUE(IsError(Evaluate(view, {}).status(), ErrorCode::kBadArity));
  EXPECT_TRUE(IsError(Evaluate(view, {Literal::Scalar<float>(1)}).status(),
                      ErrorCode::kShapeMismatch));
  const OpSchema& counter = *OpRegistry::Global().FindOrNull("weft.Counter");
  EXPECT_FALSE(CanEvaluate(counter));
  OpView source(counter, "c", attrs, {}, type);
  EXPECT_TRUE(IsError(Evaluate(source, {}).status(), ErrorCode::kUnknownOp));
}

TEST(TreeSumTest, AddsAsABalancedTree) {
  auto sum = [](std::vector<float> parts) {
    std::vector<Literal> literals;
    for (float part : parts) literals.push_back(Literal::Scalar(part));
    return TreeSum(literals)->ToDoubles()[0];
  };
  EXPECT_EQ(sum({5}), 5);
  // (2^24 + 1) + (1 + -2^24): the first pair loses its 1, the second keeps it
  // to the nearest even.
  EXPECT_EQ(sum({16777216, 1, 1, -16777216}), 1);
  // ((2^24 + 1) + (1 + 1)) + (1 + 1), but from the newest pair for what is
  // left.
  EXPECT_EQ(sum({16777216, 1, 1, 1, 1, 1}), 16777220);
  EXPECT_EQ(sum({1, 2, 3, 4, 5, 6, 7}), 28);
  EXPECT_TRUE(IsError(TreeSum({}).status(), ErrorCode::kBadArity));
  EXPECT_TRUE(IsError(
      TreeSum({Literal::Scalar<float>(1), Literal::Scalar<double>(1)}).status(),
      ErrorCode::kShapeMismatch));
}

TEST(EagerTest, ErrorsAreSticky) {
  EagerEmitter e;
  Value x = e.Add(Literal::Scalar<float>(1));
  EXPECT_FALSE(e.Emit1("NoSuchOp", {x}).valid());
  EXPECT_FALSE(e.Emit1("Neg", {x}).valid());
  EXPECT_TRUE(IsError(e.status(), ErrorCode::kUnknownOp));
}

// The checks must be able to fail.
TEST(GradientCheckTest, FindsWrongGradients) {
  // At a kink the central difference is 0.5, the gradient 0.
  absl::Status status =
      CheckGradient({"Relu", {}, {Literal::Scalar<double>(0)}});
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("operand 0 at element 0"));
  EXPECT_FALSE(CheckDecomposition({"Exp", {}, {RandomLiteral({1}, 1)}}).ok());
  EXPECT_FALSE(
      CheckClose(Literal::Scalar(1.0), Literal::Scalar(1.1), 1e-3).ok());
  EXPECT_FALSE(CheckClose(Literal::Scalar(1.0), Literal::Scalar(NAN), 1).ok());
  EXPECT_FALSE(CheckClose(Literal::Scalar(1.0), Literal::Scalar(1.0f), 1).ok());
  EXPECT_TRUE(CheckClose(Literal::Scalar(NAN), Literal::Scalar(NAN), 0).ok());
}

}  // namespace
}  // namespace weft
