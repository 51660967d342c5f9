#include "compiler/transforms/testing.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

constexpr char kInputs[] = R"(
%x = weft.Input() {dtype: f32, shape: [2, 3]}
%n = weft.Input() {dtype: i32, shape: [2]}
%one = Constant() {value: tensor(f32[], [1.0])}
%zero = Constant() {value: tensor(f32[], [0.0])}
%minus_zero = Constant() {value: tensor(f32[], [-0.0])}
%none = Constant() {value: tensor(i32[], [0])}
)";

// What `y` is after the pass, as the node or value that %o reads.
std::string Reads(const std::string& body) {
  PassRun run =
      RunPass("algebraic_simplify",
              kInputs + body + "\n%o = weft.Output(%y) {name: \"o\"}");
  size_t at = run.body.find("weft.Output(");
  return run.body.substr(at + 12, run.body.find(')', at) - at - 12);
}

TEST(AlgebraicSimplifyTest, NothingToDo) {
  EXPECT_EQ(Untouched("algebraic_simplify", std::string(kInputs) + R"(
%y = Add(%x, %x)
%z = Transpose(%y)
%o = weft.Output(%z) {name: "z"})"),
            "");
}

TEST(AlgebraicSimplifyTest, LeavesSideEffectsAndControlAlone) {
  EXPECT_EQ(Untouched("algebraic_simplify", std::string(kInputs) + R"(
%w = weft.Variable() {dtype: f32, shape: [2, 3]}
%i = Identity(%x) control(%w)
%u = weft.Assign(%w, %i)
%j = Identity(%x) device("cpu:0")
%c = weft.Copy(%j)
%o = weft.Output(%c) {name: "c"})"),
            "");
}

TEST(AlgebraicSimplifyTest, FloatRewritesThatChangeBitsAreNotDone) {
  // x + 0 loses the sign of -0, x * 0 is NaN for infinities.
  EXPECT_EQ(Reads("%y = Add(%x, %zero)"), "%y");
  EXPECT_EQ(Reads("%y = Sub(%x, %minus_zero)"), "%y");
  EXPECT_EQ(Reads("%y = Sub(%zero, %x)"), "%y");
  EXPECT_EQ(Reads("%y = Mul(%x, %zero)"), "%y");
  EXPECT_EQ(Reads("%y = Div(%one, %x)"), "%y");
  EXPECT_EQ(Reads("%a = Cast(%x) {to: i32} %y = Cast(%a) {to: f32}"), "%y");
  EXPECT_EQ(Reads("%a = Cast(%x) {to: f16} %y = Cast(%a) {to: f32}"), "%y");
}

TEST(AlgebraicSimplifyTest, NeutralElements) {
  EXPECT_EQ(Reads("%y = Mul(%x, %one)"), "%x");
  EXPECT_EQ(Reads("%y = Mul(%one, %x)"), "%x");
  EXPECT_EQ(Reads("%y = Div(%x, %one)"), "%x");
  EXPECT_EQ(Reads("%y = Add(%x, %minus_zero)"), "%x");
  EXPECT_EQ(Reads("%y = Sub(%x, %zero)"), "%x");
  EXPECT_EQ(Reads("%y = Add(%none, %n)"), "%n");
}

TEST(AlgebraicSimplifyTest, ANeutralElementThatBroadcastsStays) {
  EXPECT_EQ(Reads("%c = Constant() {value: tensor(f32[4,2,3], splat(1.0))}"
                  "%y = Mul(%x, %c)"),
            "%y");
}

TEST(AlgebraicSimplifyTest, RepeatedFunctions) {
  EXPECT_EQ(Reads("%a = Neg(%x) %y = Neg(%a)"), "%x");
  EXPECT_EQ(Reads("%a = Relu(%x) %y = Relu(%a)"), "%a");
  EXPECT_EQ(Reads("%a = Abs(%x) %y = Abs(%a)"), "%a");
  EXPECT_EQ(Reads("%a = Neg(%x) %y = Abs(%a)"), "%y/simplified");
  EXPECT_EQ(Reads("%y = Max(%x, %x)"), "%x");
  EXPECT_EQ(Reads("%c = Greater(%x, %zero) %y = Where(%c, %x, %x)"), "%x");
  EXPECT_EQ(Reads("%a = Identity(%x) %b = Neg(%a) %y = Neg(%b)"), "%x");
}

TEST(AlgebraicSimplifyTest, Casts) {
  EXPECT_EQ(Reads("%y = Cast(%x) {to: f32}"), "%x");
  EXPECT_EQ(Reads("%a = Cast(%x) {to: f64} %y = Cast(%a) {to: f32}"), "%x");
}

TEST(AlgebraicSimplifyTest, Movement) {
  EXPECT_EQ(Reads("%a = Transpose(%x) %y = Transpose(%a)"), "%x");
  EXPECT_EQ(Reads("%y = Transpose(%x) {perm: [0, 1]}"), "%x");
  EXPECT_EQ(Reads("%y = Reshape(%x) {shape: [2, 3]}"), "%x");
  EXPECT_EQ(Reads("%a = Reshape(%x) {shape: [6]} "
                  "%y = Reshape(%a) {shape: [2, 3]}"),
            "%x");
  EXPECT_EQ(Reads("%y = Pad(%x) {pads: [0, 0, 0, 0]}"), "%x");
  EXPECT_EQ(Reads("%y = Concat(%x) {axis: 1}"), "%x");
  // Same shape, other elements.
  EXPECT_EQ(Reads("%y = Pad(%x) {pads: [1, 0, -1, 0]}"), "%y");
  EXPECT_EQ(Reads("%y = Slice(%x) {starts: [1], ends: [-3], axes: [0], "
                  "steps: [-1]}"),
            "%y");
}

TEST(AlgebraicSimplifyTest, ChainsBecomeOneNode) {
  const std::string body = std::string(kInputs) + R"(
%u = Unsqueeze(%x) {axes: [0]}
%t = Transpose(%u) {perm: [1, 2, 0]}
%v = Transpose(%t) {perm: [1, 0, 2]}
%f = Reshape(%v) {shape: [6]}
%g = Reshape(%f) {shape: [3, 2]}
%o = weft.Output(%g) {name: "g"})";
  PassRun run = RunPass("algebraic_simplify", body);
  EXPECT_NE(run.body.find("Transpose(%u) {perm: [2, 1, 0]}"), std::string::npos)
      << run.body;
  ExpectSameResults("algebraic_simplify", body);
}

}  // namespace
}  // namespace weft
