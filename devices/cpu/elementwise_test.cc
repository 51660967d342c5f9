// Elementwise kernels, fused regions and random numbers against the reference.
#include <string>
#include <vector>

#include "core/ops/fused.h"
#include "devices/cpu/kernel_harness.h"
#include "gtest/gtest.h"

namespace weft::cpu {
namespace {

const DType kFloats[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};
const DType kIntegers[] = {DType::kI8, DType::kU8, DType::kI16, DType::kI32,
                           DType::kI64};

// Pairs that broadcast: dense, scalar, row, column, both ways, empty.
struct ShapePair {
  Shape a, b;
};
std::vector<ShapePair> Broadcasts() {
  return {{{3, 37}, {3, 37}},        {{129}, {}},           {{}, {5}},
          {{4, 17}, {17}},           {{4, 17}, {4, 1}},     {{5, 1}, {1, 7}},
          {{2, 3, 5, 4}, {3, 1, 1}}, {{0, 3}, {1, 3}},      {{}, {}},
          {{2, 1, 3, 1}, {4, 1, 5}}, {{6, 1, 8}, {6, 9, 8}}};
}

Numerics NumericsOf(const std::string& op) {
  // The reference's 1 + erf cancels where the result is small.
  if (op == "weft.Gelu") return Numerics::kAccumulated;
  for (const char* name :
       {"Pow", "Exp", "Log", "Sigmoid", "Tanh", "Erf", "Softplus"}) {
    if (op == name) return Numerics::kTranscendental;
  }
  return Numerics::kRounded;
}

TEST(Elementwise, BinaryOpsOfFloats) {
  Values values(1);
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"}) {
    for (DType dtype : kFloats) {
      for (const ShapePair& s : Broadcasts()) {
        double low = std::string(op) == "Pow" ? 0.1 : -4;
        ExpectMatchesReference({op,
                                {},
                                {values.Uniform(dtype, s.a, low, 4),
                                 values.Uniform(dtype, s.b, low, 4)}},
                               NumericsOf(op));
      }
    }
  }
}

TEST(Elementwise, BinaryOpsOfIntegers) {
  Values values(2);
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min"}) {
    for (DType dtype : kIntegers) {
      for (const ShapePair& s : Broadcasts()) {
        double range = dtype == DType::kI64 ? 1e6 : 120;
        ExpectMatchesReference({op,
                                {},
                                {values.Uniform(dtype, s.a, -range, range),
                                 values.Uniform(dtype, s.b, -3, 120)}},
                               Numerics::kExact);
      }
    }
  }
}

TEST(Elementwise, IntegerCornersWrapAndNeverTrap) {
  Literal low = Literal::Of<int32_t>({3}, {INT32_MIN, 1, INT32_MAX});
  Literal other = Literal::Of<int32_t>({3}, {-1, 0, INT32_MAX});
  for (const char* op : {"Add", "Sub", "Mul", "Div"}) {
    ExpectMatchesReference({op, {}, {low, other}}, Numerics::kExact);
  }
  ExpectMatchesReference({"Neg", {}, {low}}, Numerics::kExact);
  ExpectMatchesReference({"Abs", {}, {low}}, Numerics::kExact);
}

TEST(Elementwise, SpecialValues) {
  Values values(3);
  for (DType dtype : kFloats) {
    Literal a = values.Special(dtype, {200}), b = values.Special(dtype, {200});
    for (const char* op :
         {"Add", "Sub", "Mul", "Div", "Max", "Min", "Equal", "Less",
          "LessOrEqual", "Greater", "GreaterOrEqual"}) {
      ExpectMatchesReference({op, {}, {a, b}}, Numerics::kRounded);
    }
    for (const char* op :
         {"Neg", "Abs", "Exp", "Log", "Sqrt", "Relu", "LeakyRelu", "Sigmoid",
          "Tanh", "Erf", "Softplus", "Sign", "Reciprocal", "Identity"}) {
      ExpectMatchesReference({op, {}, {a}}, NumericsOf(op));
    }
  }
}

TEST(Elementwise, UnaryOps) {
  Values values(4);
  for (const char* op : {"Neg", "Abs", "Exp", "Log", "Sqrt", "Relu",
                         "LeakyRelu", "Sigmoid", "Tanh", "Erf", "Softplus",
                         "weft.Gelu", "Sign", "Reciprocal", "Identity"}) {
    for (DType dtype : kFloats) {
      for (const Shape& shape : {Shape({7, 33}), Shape(), Shape({0, 4})}) {
        double low =
            std::string(op) == "Log" || std::string(op) == "Sqrt" ? 0.01 : -5;
        ExpectMatchesReference({op, {}, {values.Uniform(dtype, shape, low, 5)}},
                               NumericsOf(op));
      }
    }
  }
  ExpectMatchesReference({"LeakyRelu",
                          {{"alpha", 0.3}},
                          {values.Uniform(DType::kF32, {65}, -2, 2)}},
                         Numerics::kRounded);
  // The tanh form cancels near its zeros of slope: compare in scale.
  ExpectMatchesReference({"weft.Gelu",
                          {{"approximate", "tanh"}},
                          {values.Uniform(DType::kF32, {65}, -2, 2)}},
                         Numerics::kAccumulated);
  // Also where it is flat, and at infinities and NaN.
  for (DType dtype : kFloats) {
    for (const char* form : {"none", "tanh"}) {
      for (const Shape& shape : {Shape({7, 33}), Shape(), Shape({0, 4})}) {
        // Its error is one of numbers near 1: alone, one far to the left would
        // be the measure of itself.
        const double far = shape.rank() == 0 ? 2 : 12;
        ExpectMatchesReference({"weft.GeluGrad",
                                {{"approximate", form}},
                                {values.Uniform(dtype, shape, -1, 1),
                                 values.Uniform(dtype, shape, -far, far)}},
                               Numerics::kAccumulated);
      }
      ExpectMatchesReference(
          {"weft.GeluGrad",
           {{"approximate", form}},
           {values.Uniform(dtype, {99}, -1, 1), values.Special(dtype, {99})}},
          Numerics::kAccumulated);
    }
  }
  for (DType dtype : kIntegers) {
    for (const char* op : {"Abs", "Relu", "Sign"}) {
      ExpectMatchesReference({op, {}, {values.Uniform(dtype, {50}, -100, 100)}},
                             Numerics::kExact);
    }
  }
}

TEST(Elementwise, ComparisonsAndLogic) {
  Values values(5);
  for (const ShapePair& s : Broadcasts()) {
    for (const char* op :
         {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}) {
      for (DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kI64,
                          DType::kU8, DType::kF16}) {
        ExpectMatchesReference({op,
                                {},
                                {values.Uniform(dtype, s.a, 0, 3),
                                 values.Uniform(dtype, s.b, 0, 3)}},
                               Numerics::kExact);
      }
    }
    for (const char* op : {"And", "Or", "Equal"}) {
      ExpectMatchesReference({op,
                              {},
                              {values.Uniform(DType::kBool, s.a, 0, 2),
                               values.Uniform(DType::kBool, s.b, 0, 2)}},
                             Numerics::kExact);
    }
    for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kI8,
                        DType::kI32, DType::kBool}) {
      ExpectMatchesReference({"Where",
                              {},
                              {values.Uniform(DType::kBool, s.a, 0, 2),
                               values.Uniform(dtype, s.b, -9, 9),
                               values.Uniform(dtype, s.a, -9, 9)}},
                             Numerics::kExact);
    }
  }
  ExpectMatchesReference(
      {"Not", {}, {values.Uniform(DType::kBool, {41}, 0, 2)}},
      Numerics::kExact);
}

TEST(Elementwise, CastsBetweenAllTypes) {
  Values values(6);
  const DType all[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64,
                       DType::kI8,  DType::kU8,  DType::kI16,  DType::kI32,
                       DType::kI64, DType::kBool};
  for (DType from : all) {
    for (DType to : all) {
      // The reference rounds to 16 bits by way of f32; a kernel rounds once.
      Numerics numerics = to == DType::kF16 || to == DType::kBF16
                              ? Numerics::kRounded
                              : Numerics::kExact;
      // i64 results beyond 2^53 are outside of what the reference can say.
      Literal x = to == DType::kI64 ? values.Uniform(from, {99}, -200, 200)
                                    : values.Special(from, {99});
      ExpectMatchesReference({"Cast", {{"to", to}}, {x}}, numerics);
    }
  }
}

TEST(Elementwise, CastRoundsOnceAndSaturates) {
  // 1 + 2^-11 + 2^-40 is above the middle of two f16 numbers; by way of f32 it
  // would be taken for the middle and go down.
  Literal x = Literal::Of<double>({1}, {1 + 0x1p-11 + 0x1p-40});
  auto half = RunOnCpu({"Cast", {{"to", DType::kF16}}, {x}}, {});
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_EQ((*half)[0].ToDoubles()[0], 1 + 0x1p-10);
  Literal wide = Literal::Of<double>({3}, {1e300, -1e300, std::nan("")});
  auto i64 = RunOnCpu({"Cast", {{"to", DType::kI64}}, {wide}}, {});
  ASSERT_TRUE(i64.ok()) << i64.status();
  EXPECT_EQ((*i64)[0], Literal::Of<int64_t>({3}, {INT64_MAX, INT64_MIN, 0}));
}

// A program that uses every kind of instruction.
FusedProgram EveryInstruction() {
  FusedProgram p(3);
  int sum = p.Add(OpId::kAdd, 0, 1);
  int scaled = p.Add(OpId::kMul, sum, p.Constant(0.25));
  int less = p.Add(OpId::kLess, scaled, 2);
  int both = p.Add(OpId::kAnd, less, p.Add(OpId::kNot, 0));
  int either = p.Add(OpId::kOr, both, less);
  int leaky = p.Add(OpId::kLeakyRelu, scaled, p.Constant(0.1));
  int chosen = p.Add(OpId::kWhere, either, leaky, 1);
  int unary = p.Add(OpId::kSigmoid, chosen);
  for (OpId op : {OpId::kTanh, OpId::kErf, OpId::kSoftplus, OpId::kGelu,
                  OpId::kExp, OpId::kSqrt, OpId::kLog, OpId::kNeg, OpId::kAbs,
                  OpId::kRelu, OpId::kSign, OpId::kIdentity}) {
    unary = p.Add(op, unary);
  }
  int rest = p.Add(OpId::kMax, unary, p.Add(OpId::kMin, 0, 2));
  rest = p.Add(OpId::kDiv, rest, p.Constant(3));
  rest = p.Add(OpId::kSub, rest, p.Add(OpId::kReciprocal, p.Constant(2)));
  rest = p.Add(OpId::kPow, p.Add(OpId::kAbs, rest), p.Constant(1.5));
  p.outputs = {rest, chosen, either, 1, p.Constant(0.25)};
  return p;
}

TEST(Fused, MatchesTheReferenceOverBroadcasts) {
  Values values(7);
  FusedProgram program = EveryInstruction();
  for (DType dtype : {DType::kF32, DType::kF64}) {
    for (const std::vector<Shape>& shapes :
         std::vector<std::vector<Shape>>{{{1300}, {1300}, {1300}},
                                         {{40, 50}, {50}, {40, 1}},
                                         {{5, 1, 300}, {1, 4, 1}, {}},
                                         {{}, {}, {}},
                                         {{0}, {1}, {}},
                                         {{1, 600}, {600}, {1}}}) {
      OpCase c{"weft.fused", program.ToAttrs(), {}, 5};
      for (const Shape& shape : shapes) {
        c.inputs.push_back(values.Uniform(dtype, shape, -2, 2));
      }
      ExpectMatchesReference(c, Numerics::kAccumulated);
    }
  }
}

TEST(Fused, MatchesTheReferenceOfMixedTypes) {
  Values values(12);
  FusedProgram program = EveryInstruction();
  program.types = {DType::kBF16, DType::kF16, DType::kBool, DType::kF16,
                   DType::kF32};
  for (const std::vector<Shape>& shapes : std::vector<std::vector<Shape>>{
           {{1300}, {1300}, {1300}}, {{40, 50}, {50}, {40, 1}}, {{}, {}, {}}}) {
    OpCase c{"weft.fused",
             program.ToAttrs(),
             {values.Uniform(DType::kBF16, shapes[0], -2, 2),
              values.Uniform(DType::kF16, shapes[1], -2, 2),
              values.Uniform(DType::kF32, shapes[2], -2, 2)},
             5};
    ExpectMatchesReference(c, Numerics::kAccumulated);
  }
}

TEST(Fused, WritesTheOnlyResultDirectly) {
  Values values(8);
  FusedProgram p(2);
  int sum = p.Add(OpId::kAdd, 0, 1);
  p.outputs.push_back(p.Add(OpId::kRelu, p.Add(OpId::kMul, sum, sum)));
  ExpectMatchesReference({"weft.fused",
                          p.ToAttrs(),
                          {values.Uniform(DType::kF32, {3, 700}, -1, 1),
                           values.Uniform(DType::kF32, {700}, -1, 1)}},
                         Numerics::kAccumulated);
}

TEST(Random, EqualsTheDefinition) {
  Values values(9);
  for (DType dtype : kFloats) {
    for (int64_t micro : {0, 1, 5}) {
      Literal counter = Literal::Of<int64_t>({2}, {123456789012, micro});
      for (const char* op : {"weft.RandomUniform", "weft.RandomNormal"}) {
        for (const std::vector<int64_t>& shape :
             {std::vector<int64_t>{7, 5}, {}, {0}, {4}}) {
          AttrMap attrs = {{"shape", shape},
                           {"dtype", dtype},
                           {"seed", int64_t{-77}},
                           {"stream", int64_t{1} << 40}};
          // Bit by bit; the reference rounds to 16 bits by way of f32.
          bool wide = dtype == DType::kF32 || dtype == DType::kF64;
          ExpectMatchesReference({op, attrs, {counter}},
                                 wide ? Numerics::kExact : Numerics::kRounded);
        }
      }
      for (double ratio : {0.0, 0.3, 0.9}) {
        ExpectMatchesReference(
            {"weft.DropoutTraining",
             {{"ratio", ratio}, {"seed", 3}, {"stream", 8}},
             {values.Uniform(dtype, {9, 11}, -2, 2), counter},
             2},
            Numerics::kRounded);
        ExpectMatchesReference({"weft.DropoutGrad",
                                {{"ratio", ratio}},
                                {values.Special(dtype, {9, 11}),
                                 values.Uniform(DType::kBool, {9, 11}, 0, 2)}},
                               Numerics::kRounded);
      }
    }
  }
}

TEST(Random, PartsOfAWhole) {
  using Ints = std::vector<int64_t>;
  Values values(10);
  const Literal counter = Literal::Of<int64_t>({2}, {5, 2});
  const Literal x = values.Uniform(DType::kF32, {6, 12, 5}, -2, 2);
  for (const Ints& cuts : std::vector<Ints>{{0, 2, 1, 1},
                                            {2, 3, 0, 1},
                                            {1, 2, 1, 3},
                                            {2, 2, 1, 1, 0, 2, 0, 3},
                                            {1, 2, 1, 3, 1, 4, 2, 2}}) {
    for (const char* op : {"weft.RandomUniform", "weft.RandomNormal"}) {
      ExpectMatchesReference({op,
                              {{"shape", Ints{6, 12, 5}},
                               {"dtype", DType::kF32},
                               {"stream", 9},
                               {"cuts", cuts}},
                              {counter}},
                             Numerics::kExact);
    }
    ExpectMatchesReference({"weft.DropoutTraining",
                            {{"ratio", 0.4}, {"stream", 9}, {"cuts", cuts}},
                            {x, counter},
                            2},
                           Numerics::kRounded);
  }
}

}  // namespace
}  // namespace weft::cpu
