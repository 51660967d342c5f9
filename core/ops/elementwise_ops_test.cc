#include <cmath>
#include <limits>

#include "core/ops/fused.h"
#include "core/reference/eager.h"
#include "core/reference/gradient_check.h"
#include "core/reference/schema_check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::Pointwise;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

Literal Vector(const std::vector<double>& values) {
  return Literal::Of<double>({static_cast<int64_t>(values.size())}, values);
}

MATCHER_P(Near, tolerance, "") {
  return std::fabs(std::get<0>(arg) - std::get<1>(arg)) <= tolerance;
}

// --- Types -----------------------------------------------------------------

TEST(ElementwiseTest, InfersBroadcastShapesAndDTypes) {
  struct Case {
    const char* op;
    std::vector<std::string> inputs;
    const char* out;
  };
  for (const Case& c : std::vector<Case>{
           {"Add", {"f32[2,3]", "f32[2,3]"}, "f32[2,3]"},
           {"Sub", {"f64[2,1]", "f64[3]"}, "f64[2,3]"},
           {"Mul", {"i32[]", "i32[4]"}, "i32[4]"},
           {"Div", {"f16[0,3]", "f16[3]"}, "f16[0,3]"},
           {"Less", {"i64[2]", "i64[1]"}, "bool[2]"},
           {"Equal", {"bool[2]", "bool[2]"}, "bool[2]"},
           {"And", {"bool[2,1]", "bool[2]"}, "bool[2,2]"},
           {"Neg", {"i8[5]"}, "i8[5]"},
           {"Exp", {"bf16[5]"}, "bf16[5]"},
           {"Not", {"bool[]"}, "bool[]"},
           {"Identity", {"bool[3]"}, "bool[3]"},
           {"Where", {"bool[2,1]", "f32[3]", "f32[]"}, "f32[2,3]"},
       }) {
    EXPECT_EQ(InferText(c.op, {}, c.inputs), c.out) << c.op;
  }
  EXPECT_EQ(InferText("Cast", {{"to", DType::kI64}}, {"f32[2]"}), "i64[2]");
}

TEST(ElementwiseTest, ErrorsNameBothSides) {
  EXPECT_THAT(InferText("Add", {}, {"f32[2,3]", "f32[4]"}),
              ErrorWith("WEFT-2004", {"'n' (Add)", "[2,3]", "[4]"}));
  EXPECT_THAT(InferText("Add", {}, {"f32[2]", "f64[2]"}),
              ErrorWith("WEFT-2005", {"f32[2]", "f64[2]"}));
  EXPECT_THAT(InferText("Add", {}, {"bool[2]", "bool[2]"}),
              ErrorWith("WEFT-2005", {"numeric", "bool[2]"}));
  EXPECT_THAT(InferText("Exp", {}, {"i32[2]"}),
              ErrorWith("WEFT-2005", {"float", "i32[2]"}));
  EXPECT_THAT(InferText("Or", {}, {"f32[2]", "f32[2]"}),
              ErrorWith("WEFT-2005", {"bool", "f32[2]"}));
  EXPECT_THAT(InferText("Where", {}, {"f32[2]", "f32[2]", "f32[2]"}),
              ErrorWith("WEFT-2005", {"operand 0", "bool"}));
  EXPECT_THAT(InferText("Where", {}, {"bool[2]", "f32[3]", "f32[]"}),
              ErrorWith("WEFT-2004", {"[2]", "[3]"}));
  EXPECT_THAT(InferText("Cast", {{"to", DType::kInvalid}}, {"f32[2]"}),
              ErrorWith("WEFT-2003", {"to"}));
  EXPECT_THAT(InferText("weft.Gelu", {{"approximate", "erf"}}, {"f32[2]"}),
              ErrorWith("WEFT-2003", {"\"erf\"", "none, tanh"}));
}

// --- Values ----------------------------------------------------------------

struct Known {
  const char* op;
  AttrMap attrs;
  std::vector<double> x, y;
};

TEST(ElementwiseTest, UnaryValues) {
  for (const Known& k : std::vector<Known>{
           {"Neg", {}, {1, -2}, {-1, 2}},
           {"Abs", {}, {1, -2}, {1, 2}},
           {"Exp", {}, {0, 1}, {1, 2.718281828459045}},
           {"Log", {}, {1, 10}, {0, 2.302585092994046}},
           {"Sqrt", {}, {4, 2.25}, {2, 1.5}},
           {"Relu", {}, {-1, 0, 2}, {0, 0, 2}},
           {"LeakyRelu", {}, {-2, 3}, {-0.02, 3}},
           {"LeakyRelu", {{"alpha", 0.5}}, {-2, 3}, {-1, 3}},
           {"Sigmoid", {}, {0, 1, -800}, {0.5, 0.7310585786300049, 0}},
           {"Tanh", {}, {0, 1}, {0, 0.7615941559557649}},
           {"Erf", {}, {0, 1}, {0, 0.8427007929497149}},
           {"Softplus",
            {},
            {0, 1, 800},
            {0.6931471805599453, 1.3132616875182228, 800}},
           {"weft.Gelu",
            {},
            {0, 1, -1},
            {0, 0.8413447460685429, -0.15865525393145707}},
           {"weft.Gelu",
            {{"approximate", "tanh"}},
            {0, 1},
            {0, 0.8411919906082768}},
           {"Sign", {}, {-3, 0, 2}, {-1, 0, 1}},
           {"Reciprocal", {}, {4, -0.5}, {0.25, -2}},
           {"Identity", {}, {4, -0.5}, {4, -0.5}},
       }) {
    EXPECT_THAT(ResultOf({k.op, k.attrs, {Vector(k.x)}}),
                Pointwise(Near(1e-14), k.y))
        << k.op;
  }
}

TEST(ElementwiseTest, BinaryValues) {
  struct Case {
    const char* op;
    std::vector<double> c;  // of (3, -1, 2) and (2, -1, 4)
  };
  for (const Case& k : std::vector<Case>{{"Add", {5, -2, 6}},
                                         {"Sub", {1, 0, -2}},
                                         {"Mul", {6, 1, 8}},
                                         {"Div", {1.5, 1, 0.5}},
                                         {"Pow", {9, -1, 16}},
                                         {"Max", {3, -1, 4}},
                                         {"Min", {2, -1, 2}},
                                         {"Equal", {0, 1, 0}},
                                         {"Less", {0, 0, 1}},
                                         {"LessOrEqual", {0, 1, 1}},
                                         {"Greater", {1, 0, 0}},
                                         {"GreaterOrEqual", {1, 1, 0}}}) {
    EXPECT_EQ(ResultOf({k.op, {}, {Vector({3, -1, 2}), Vector({2, -1, 4})}}),
              k.c)
        << k.op;
  }
}

TEST(ElementwiseTest, Logic) {
  Literal a = Literal::Of<bool>({4}, {false, false, true, true});
  Literal b = Literal::Of<bool>({4}, {false, true, false, true});
  EXPECT_THAT(ResultOf({"And", {}, {a, b}}), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(ResultOf({"Or", {}, {a, b}}), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(ResultOf({"Not", {}, {a}}), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(ResultOf({"Where", {}, {a, Vector({1}), Vector({2})}}),
              ElementsAre(2, 2, 1, 1));
}

TEST(ElementwiseTest, NanWinsChoicesAndFailsComparisons) {
  for (const char* op : {"Max", "Min"}) {
    for (double v :
         ResultOf({op, {}, {Vector({kNan, 1}), Vector({1, kNan})}})) {
      EXPECT_TRUE(std::isnan(v)) << op;
    }
  }
  EXPECT_TRUE(std::isnan(ResultOf({"Relu", {}, {Vector({kNan})}})[0]));
  for (const char* op : {"Equal", "Less", "GreaterOrEqual"}) {
    EXPECT_THAT(ResultOf({op, {}, {Vector({kNan}), Vector({kNan})}}),
                ElementsAre(0));
  }
}

TEST(ElementwiseTest, IntegersWrapAndDivideTowardsZero) {
  auto i8 = [](std::vector<int8_t> v) { return Literal::Of<int8_t>({2}, v); };
  auto i32 = [](std::vector<int32_t> v) {
    return Literal::Of<int32_t>({3}, v);
  };
  EXPECT_THAT(ResultOf({"Add", {}, {i8({127, 1}), i8({1, 1})}}),
              ElementsAre(-128, 2));
  EXPECT_THAT(ResultOf({"Neg", {}, {i8({-128, 5})}}), ElementsAre(-128, -5));
  EXPECT_THAT(ResultOf({"Neg", {}, {Literal::Of<uint8_t>({1}, {1})}}),
              ElementsAre(255));
  EXPECT_THAT(
      ResultOf({"Mul",
                {},
                {i32({65536, 2, 2147483647}), i32({65536, 3, 2147483647})}}),
      ElementsAre(0, 6, 1));
  EXPECT_THAT(
      ResultOf({"Div", {}, {i32({-7, 7, -2147483647 - 1}), i32({2, 0, -1})}}),
      ElementsAre(-3, 0, -2147483648.0));
}

TEST(ElementwiseTest, CastSaturatesAndRoundsToEven) {
  Literal x = Vector({300.7, -1.5, kNan, kInf, 1.00390625});
  auto cast = [&x](DType to) { return ResultOf({"Cast", {{"to", to}}, {x}}); };
  EXPECT_THAT(cast(DType::kU8), ElementsAre(255, 0, 0, 255, 1));
  EXPECT_THAT(cast(DType::kI32), ElementsAre(300, -1, 0, 2147483647, 1));
  EXPECT_THAT(cast(DType::kBool), ElementsAre(1, 1, 1, 1, 1));
  EXPECT_EQ(cast(DType::kBF16)[4], 1.0);
}

// --- Gradients and decompositions ------------------------------------------

TEST(ElementwiseTest, UnaryGradients) {
  Literal any = Vector({-2.2, -0.9, -0.3, 0.4, 1.3, 2.6});
  Literal positive = Vector({0.3, 1.1, 4.2});
  for (const OpCase& c : std::vector<OpCase>{
           {"Neg", {}, {any}},
           {"Abs", {}, {any}},
           {"Exp", {}, {any}},
           {"Log", {}, {positive}},
           {"Sqrt", {}, {positive}},
           {"Relu", {}, {any}},
           {"LeakyRelu", {}, {any}},
           {"LeakyRelu", {{"alpha", 0.3}}, {any}},
           {"Sigmoid", {}, {any}},
           {"Tanh", {}, {any}},
           {"Erf", {}, {any}},
           {"Softplus", {}, {any}},
           {"weft.Gelu", {}, {any}},
           {"weft.Gelu", {{"approximate", "tanh"}}, {any}},
           {"Sign", {}, {any}},
           {"Reciprocal", {}, {any}},
           {"Identity", {}, {any}},
           {"Cast", {{"to", DType::kF64}}, {any}},
       }) {
    EXPECT_EQ(CheckGradient(c), absl::OkStatus());
  }
}

TEST(ElementwiseTest, GeluGrad) {
  const char* op = "weft.GeluGrad";
  EXPECT_EQ(InferText(op, {}, {"f16[2,3]", "f16[2,3]"}), "f16[2,3]");
  EXPECT_THAT(InferText(op, {}, {"f32[2,3]", "f32[3]"}),
              ErrorWith("WEFT-2004", {"[2,3]", "[3]"}));
  EXPECT_THAT(InferText(op, {}, {"f32[2]", "f64[2]"}),
              ErrorWith("WEFT-2005", {"f32[2]", "f64[2]"}));
  EXPECT_THAT(InferText(op, {{"approximate", "erf"}}, {"f32[2]", "f32[2]"}),
              ErrorWith("WEFT-2003", {"\"erf\"", "none, tanh"}));
  Literal x = Vector({-30, -2.2, -0.3, 0, 0.4, 1.3, 30});
  for (const char* form : {"none", "tanh"}) {
    OpCase c = {op, {{"approximate", form}}, {RandomLiteral({7}, 1), x}};
    EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
    // Flat at both ends, without NaN.
    c.inputs = {Vector({2, 2, 2}), Vector({1e300, -INFINITY, INFINITY})};
    EXPECT_THAT(ResultOf(c), ElementsAre(2, 0, 2));
  }
}

TEST(ElementwiseTest, BinaryGradientsOfEveryKindOfBroadcast) {
  std::vector<std::pair<Shape, Shape>> shapes = {
      {{2, 3}, {2, 3}}, {{2, 3}, {3}},       {{3}, {2, 3}}, {{2, 1}, {1, 3}},
      {{}, {2, 3}},     {{2, 3}, {}},        {{1}, {}},     {{2, 1, 3}, {4, 1}},
      {{0, 3}, {3}},    {{1, 2, 1}, {2, 2}},
  };
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"}) {
    for (const auto& [a, b] : shapes) {
      OpCase c{
          op, {}, {RandomLiteral(a, 1, 0.5, 2), RandomLiteral(b, 2, 0.5, 2)}};
      EXPECT_EQ(CheckGradient(c), absl::OkStatus())
          << a.ToString() << b.ToString();
    }
  }
}

TEST(ElementwiseTest, PowGradientAtTheEdges) {
  OpCase zeros{"Pow", {}, {Vector({0, 0, 2}), Vector({2, 1, 0})}};
  EXPECT_EQ(CheckGradient(zeros), absl::OkStatus());
  // A negative base has no derivative by the exponent.
  OpCase negative{"Pow", {}, {Vector({-2, -1.5}), Vector({2, 3})}};
  EXPECT_EQ(CheckGradient(negative, {1e-5, 1e-6, {1}}), absl::OkStatus());
}

TEST(ElementwiseTest, TiesBelongToTheFirstOperand) {
  for (const char* op : {"Max", "Min"}) {
    EagerEmitter e;
    Value a = e.Add(Vector({1})), b = e.Add(Vector({1})),
          dy = e.Add(Vector({5}));
    std::vector<TensorType> in = {{DType::kF64, {1}}, {DType::kF64, {1}}};
    std::vector<TensorType> out = {in[0]};
    const OpSchema& schema = *OpRegistry::Global().FindOrNull(op);
    AttrMap attrs;
    OpView view(schema, "n", attrs, in, out);
    std::vector<Value> grads = schema.gradient({view, {a, b}, {a}, {dy}, e});
    EXPECT_EQ(e.literal(grads[0]), Vector({5}));
    EXPECT_EQ(e.literal(grads[1]), Vector({0}));
  }
}

TEST(ElementwiseTest, WhereGradient) {
  Literal condition = Literal::Of<bool>({2, 1}, {true, false});
  OpCase c{
      "Where", {}, {condition, RandomLiteral({3}, 1), RandomLiteral({}, 2)}};
  EXPECT_EQ(CheckGradient(c), absl::OkStatus());
}

TEST(ElementwiseTest, DecompositionsAreTheDefinition) {
  Literal x = Vector({-800, -2.2, -0.3, 0, 0.4, 1.3, 800});
  for (const OpCase& c : std::vector<OpCase>{
           {"Relu", {}, {x}},
           {"LeakyRelu", {{"alpha", 0.3}}, {x}},
           {"Sigmoid", {}, {x}},
           {"Softplus", {}, {x}},
           {"weft.Gelu", {}, {x}},
           {"weft.Gelu", {{"approximate", "tanh"}}, {x}},
           {"Identity", {}, {x}},
           {"Relu", {}, {Literal::Of<int32_t>({2}, {-3, 4})}},
       }) {
    EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
  }
}

// --- weft.fused ------------------------------------------------------------

// The node as a program of its own on f64 operands.
FusedProgram ProgramOf(const OpCase& c) {
  std::vector<TensorType> in;
  std::vector<int> codes;
  for (const Literal& x : c.inputs) {
    codes.push_back(static_cast<int>(in.size()));
    in.push_back(x.type());
  }
  const OpSchema& schema = *OpRegistry::Global().FindOrNull(c.op);
  std::vector<TensorType> out = {{DType::kF64, {}}};
  OpView view(schema, "n", c.attrs, in, out);
  EXPECT_TRUE(FusedProgram::CanHold(view, DType::kF64)) << c.op;
  FusedProgram program(static_cast<int>(in.size()));
  program.outputs.push_back(program.AddNode(view, codes));
  return program;
}

TEST(FusedTest, EveryNodeMeansTheSameInsideOfAProgram) {
  Literal a = Vector({-2, -0.5, 0, 0.5, 1, 3}),
          b = Vector({1, -0.5, 2, 1, 1, 2});
  Literal c = Vector({7, 8, 9, 10, 11, 12});
  std::vector<OpCase> cases;
  for (const char* op :
       {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Equal", "Less",
        "LessOrEqual", "Greater", "GreaterOrEqual"}) {
    cases.push_back({op, {}, {a, b}});
  }
  for (const char* op : {"Neg", "Abs", "Exp", "Log", "Sqrt", "Relu", "Sigmoid",
                         "Tanh", "Erf", "Softplus", "weft.Gelu", "Sign",
                         "Reciprocal", "Identity", "LeakyRelu"}) {
    cases.push_back({op, {}, {a}});
  }
  cases.push_back({"LeakyRelu", {{"alpha", 0.25}}, {a}});
  cases.push_back({"weft.Gelu", {{"approximate", "tanh"}}, {a}});
  cases.push_back({"Cast", {{"to", DType::kF64}}, {a}});
  for (OpCase& one : cases) {
    OpCase fused{"weft.fused", ProgramOf(one).ToAttrs(), one.inputs};
    if (one.op == "Cast") {  // leaves no instruction
      EXPECT_THAT(ProgramOf(one).instructions(), testing::IsEmpty());
      continue;
    }
    EXPECT_THAT(ResultOf(fused),
                Pointwise(testing::NanSensitiveDoubleEq(), ResultOf(one)))
        << one.op;
    EXPECT_EQ(CheckDecomposition(fused), absl::OkStatus()) << one.op;
  }
}

TEST(FusedTest, ConditionsTestForNonZero) {
  FusedProgram p(3);
  int either = p.Add(OpId::kOr, 0, 1);
  int both = p.Add(OpId::kAnd, 0, 1);
  int neither = p.Add(OpId::kNot, either);
  int choice = p.Add(OpId::kWhere, 0, 2, p.Constant(-1));
  p.outputs = {either, both, neither, choice, 2, p.Constant(4)};
  OpCase c{"weft.fused",
           p.ToAttrs(),
           {Vector({0, 0.5, -3}), Vector({0, 0, 2}), Vector({9})},
           6};
  EXPECT_THAT(ResultOf(c, 0), ElementsAre(0, 1, 1));
  EXPECT_THAT(ResultOf(c, 1), ElementsAre(0, 0, 1));
  EXPECT_THAT(ResultOf(c, 2), ElementsAre(1, 0, 0));
  EXPECT_THAT(ResultOf(c, 3), ElementsAre(-1, 9, 9));
  EXPECT_THAT(ResultOf(c, 4), ElementsAre(9, 9, 9));
  EXPECT_THAT(ResultOf(c, 5), ElementsAre(4, 4, 4));
  EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
}

TEST(FusedTest, ConstantsAreSharedByBits) {
  FusedProgram p(1);
  EXPECT_EQ(p.Constant(0.0), -1);
  EXPECT_EQ(p.Constant(-0.0), -2);
  EXPECT_EQ(p.Constant(kNan), -3);
  EXPECT_EQ(p.Constant(kNan), -3);
  EXPECT_EQ(p.Constant(0.0), -1);
}

// relu(x + y), rounded to bf16 on the way and at the end, and whether it is 0.
FusedProgram OfBothWidths() {
  FusedProgram p(3);
  const int bf16 = static_cast<int>(DType::kBF16);
  int sum = p.Add(OpId::kCast, p.Add(OpId::kAdd, 0, 1), bf16);
  int chosen = p.Add(OpId::kWhere, 2, sum, p.Constant(0));
  int any = p.Add(OpId::kCast, chosen, static_cast<int>(DType::kBool));
  p.outputs = {chosen, chosen, any, p.Add(OpId::kGelu, sum, 1)};
  p.types = {DType::kBF16, DType::kF32, DType::kBool, DType::kF16};
  return p;
}

TEST(FusedTest, HoldsTypesThatAreComputedInOne) {
  Literal x = Literal::FromDoubles({DType::kBF16, {3}}, {1, -3, 2});
  Literal y = Literal::FromDoubles({DType::kF32, {3}}, {0.00390625, 0.5, 1});
  Literal c = Literal::FromDoubles({DType::kBool, {1}}, {1});
  OpCase fused{"weft.fused", OfBothWidths().ToAttrs(), {x, y, c}, 4};
  // 1 + 2^-8 is halfway between two numbers of bf16, of which 1 is even.
  EXPECT_THAT(ResultOf(fused, 0), ElementsAre(1, -2.5, 3));
  EXPECT_THAT(ResultOf(fused, 1), ElementsAre(1, -2.5, 3));
  EXPECT_THAT(ResultOf(fused, 2), ElementsAre(1, 1, 1));
  EXPECT_EQ(CheckDecomposition(fused), absl::OkStatus());
  EXPECT_EQ(InferText("weft.fused", fused.attrs,
                      {"bf16[3]", "f32[2,1]", "bool[]"}, 4),
            "bf16[2,3] f32[2,3] bool[2,3] f16[2,3]");
}

TEST(FusedTest, RoundsAfterEach16BitOp) {
  FusedProgram p(2);
  std::vector<TensorType> in = {ParseType("bf16[2]"), ParseType("bf16[2]")};
  std::vector<TensorType> out = {ParseType("bf16[2]")};
  auto add = [&](const char* op, std::vector<int> codes) {
    OpView view(*OpRegistry::Global().FindOrNull(op), "n", {}, in, out);
    return p.AddNode(view, codes);
  };
  int sum = add("Add", {0, 1});
  EXPECT_EQ(p.instructions().back().op, OpId::kCast);
  EXPECT_EQ(p.instructions().back().b, static_cast<int>(DType::kBF16));
  in = {ParseType("bf16[2]")};
  EXPECT_EQ(add("Identity", {sum}), sum + 1);  // moves: nothing to round
  EXPECT_EQ(p.instructions().back().op, OpId::kIdentity);
}

TEST(FusedTest, HoldsOnlyOneComputeTypeAndTruthValues) {
  auto can_hold = [](const char* op, const AttrMap& attrs,
                     std::vector<std::string> in, const char* out) {
    std::vector<TensorType> inputs, outputs = {ParseType(out)};
    for (const std::string& text : in) inputs.push_back(ParseType(text));
    OpView view(*OpRegistry::Global().FindOrNull(op), "n", attrs, inputs,
                outputs);
    return FusedProgram::CanHold(view, DType::kF32);
  };
  AttrMap to_f32 = {{"to", DType::kF32}}, to_bool = {{"to", DType::kBool}};
  EXPECT_TRUE(can_hold("Less", {}, {"f32[2]", "f32[2]"}, "bool[2]"));
  EXPECT_TRUE(can_hold("Cast", to_f32, {"bool[2]"}, "f32[2]"));
  EXPECT_TRUE(can_hold("Cast", to_bool, {"f32[2]"}, "bool[2]"));
  EXPECT_TRUE(can_hold("Cast", to_f32, {"bf16[2]"}, "f32[2]"));
  EXPECT_TRUE(can_hold("Add", {}, {"f16[2]", "f16[2]"}, "f16[2]"));
  EXPECT_FALSE(can_hold("Cast", to_f32, {"i32[2]"}, "f32[2]"));
  EXPECT_FALSE(can_hold("Add", {}, {"i32[2]", "i32[2]"}, "i32[2]"));
  EXPECT_FALSE(can_hold("Cast", to_f32, {"f64[2]"}, "f32[2]"));
  EXPECT_FALSE(can_hold("Add", {}, {"f64[2]", "f64[2]"}, "f64[2]"));
  EXPECT_FALSE(can_hold("ReduceSum", {}, {"f32[2]"}, "f32[1]"));
}

TEST(FusedTest, RefusesBadPrograms) {
  using Ints = std::vector<int64_t>;
  auto infer = [](Ints program, Ints outputs,
                  std::vector<std::string> inputs = {"f32[2]", "f32[3,1]"}) {
    AttrMap attrs = {{"program", std::move(program)},
                     {"constants", std::vector<double>{0.5}},
                     {"outputs", std::move(outputs)}};
    return InferText("weft.fused", attrs, inputs);
  };
  EXPECT_EQ(infer({1, 0, -1, 0}, {2}), "f32[3,2]");
  auto bad = [](const std::string& part) {
    return ErrorWith("WEFT-2003", {part});
  };
  EXPECT_THAT(infer({1, 0, 1}, {2}), bad("3 words"));
  EXPECT_THAT(infer({}, {0}), bad("0 words"));
  EXPECT_THAT(infer(Ints(65 * 4, 1), {2}), bad("260 words"));
  EXPECT_THAT(infer({150, 0, 0, 0}, {2}), bad("op id 150"));
  EXPECT_THAT(infer({-1, 0, 0, 0}, {2}), bad("op id -1"));
  EXPECT_THAT(infer({4294967297, 0, 0, 0}, {2}), bad("op id 4294967297"));
  EXPECT_THAT(infer({1, 0, 2, 0}, {2}), bad("uses value 2"));
  EXPECT_THAT(infer({1, 0, -2, 0}, {2}), bad("uses value -2"));
  EXPECT_THAT(infer({20, 0, 1, 0}, {2}), bad("operand 1 must be 0"));
  EXPECT_THAT(infer({1, 0, 1, 0}, {3}), bad("uses value 3"));
  EXPECT_THAT(infer({1, 0, 1, 0}, {}), bad("'outputs' is empty"));
  EXPECT_THAT(infer({20, 0, 7, 0}, {2}), bad("operand 1 must be 0"));
  const int64_t cast = static_cast<int64_t>(OpId::kCast);
  EXPECT_THAT(infer({cast, 0, 1, 0}, {2}), bad("casts to dtype 1"));
  EXPECT_THAT(infer({cast, 9, 3, 0}, {2}), bad("uses value 9"));
  EXPECT_THAT(infer({cast, 0, 3, 0}, {2}, {"f64[2]", "f64[2]"}),
              bad("in a program of f64"));
  EXPECT_THAT(infer({1, 0, 1, 0}, {2}, {"i32[2]", "f32[2]"}),
              ErrorWith("WEFT-2005", {"operand 0 is i32"}));
  EXPECT_THAT(infer({1, 0, 1, 0}, {2}, {"f16[2]", "f64[2]"}),
              ErrorWith("WEFT-2005", {"operand 1 is f64", "f32"}));
  AttrMap constants = {{"program", Ints{1, 0, -1, 0}},
                       {"constants", std::vector<double>(192, 0.5)},
                       {"outputs", Ints{1}}};
  EXPECT_EQ(InferText("weft.fused", constants, {"f32[2]"}), "f32[2]");
  constants.Set("constants", std::vector<double>(193, 0.5));
  EXPECT_THAT(InferText("weft.fused", constants, {"f32[2]"}),
              bad("193 numbers, at most 192"));
  auto typed = [](Ints types) {
    AttrMap attrs = {{"program", Ints{1, 0, 1, 0}},
                     {"outputs", Ints{2}},
                     {"types", std::move(types)}};
    return InferText("weft.fused", attrs, {"f32[2]", "bf16[2]"});
  };
  EXPECT_EQ(typed({3}), "bf16[2]");
  EXPECT_THAT(typed({3, 3}), bad("2 dtypes for 1 results"));
  EXPECT_THAT(typed({4}), ErrorWith("WEFT-2005", {"result 0 is f64"}));
  EXPECT_THAT(typed({99}), ErrorWith("WEFT-2005", {"result 0"}));
  EXPECT_THAT(infer({1, 0, 1, 0}, {2}, {"f32[2]", "f32[3]"}),
              ErrorWith("WEFT-2004", {"[2]", "[3]"}));
}

}  // namespace
}  // namespace weft
