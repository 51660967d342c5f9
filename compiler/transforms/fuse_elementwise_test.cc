#include "compiler/transforms/fuse_elementwise.h"

#include "compiler/transforms/testing.h"
#include "core/ops/fused.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

constexpr char kInputs[] = R"(
%x = weft.Input() {dtype: f64, shape: [2, 3]}
%z = weft.Input() {dtype: f64, shape: [3]}
%half = Constant() {value: tensor(f64[], [0.5])}
)";

std::string With(const std::string& body) { return kInputs + body; }

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(FuseElementwiseTest, NothingToDo) {
  EXPECT_EQ(Untouched("fuse_elementwise", With(R"(
%a = Relu(%x)
%s = ReduceSum(%a) {axes: [0], keepdims: 0}
%b = Neg(%s)
%o = weft.Output(%b) {name: "b"})")),
            "");
}

TEST(FuseElementwiseTest, LeavesSideEffectsAndControlAlone) {
  EXPECT_EQ(Untouched("fuse_elementwise", With(R"(
%w = weft.Variable() {dtype: f64, shape: [3]}
%a = Neg(%z) control(%x)
%b = Relu(%a)
%u = weft.Assign(%w, %b))")),
            "");
}

// What is sent early would wait for what comes late.
TEST(FuseElementwiseTest, NoSendComesToWaitForAnotherRecv) {
  const std::string late = R"(
%r = weft.Recv() {channel: "r", dtype: f64, peer: 1, rate: "step", shape: [2, 3]})";
  const std::string sends = With(R"(
%a = Neg(%x)
%s = weft.Send(%a) {channel: "s", peer: 1, rate: "step"})");
  EXPECT_EQ(Untouched("fuse_elementwise", sends + late + R"(
%b = Add(%a, %r)
%o = weft.Output(%b) {name: "b"})"),
            "");
  // Nobody else reads it.
  const PassRun run = RunPass("fuse_elementwise", With(late + R"(
%a = Neg(%x)
%b = Add(%a, %r)
%o = weft.Output(%b) {name: "b"})"));
  EXPECT_EQ(Count(run.body, "weft.fused("), 1) << run.body;
}

TEST(FuseElementwiseTest, MakesOneNodeOfAChain) {
  const std::string body = With(R"(
%a = Mul(%x, %z)
%b = Add(%a, %half)
%y = Relu(%b) stage(1)
%o = weft.Output(%y) {name: "y"})");
  std::string plain = With(R"(
%a = Mul(%x, %z)
%b = Add(%a, %half)
%y = Relu(%b)
%o = weft.Output(%y) {name: "y"})");
  PassRun run = RunPass("fuse_elementwise", plain);
  // {Mul, x, z}, {Add, i0, 0.5}, {Relu, i1}
  EXPECT_NE(run.body.find("%y/fused = weft.fused(%x, %z) {constants: [0.5], "
                          "outputs: [4], program: [3, 0, 1, 0, 1, 2, -1, 0, "
                          "25, 3, 0, 0]}"),
            std::string::npos)
      << run.body;
  EXPECT_EQ(run.body.find("Relu"), std::string::npos) << run.body;
  ExpectSameResults("fuse_elementwise", plain);
  // Another stage: two regions of one node each or none.
  PassRun staged = RunPass("fuse_elementwise", body);
  EXPECT_NE(staged.body.find("Relu"), std::string::npos) << staged.body;
}

TEST(FuseElementwiseTest, ValuesReadOutsideAreResults) {
  const std::string body = With(R"(
%a = Exp(%x)
%b = Add(%a, %z)
%c = Mul(%b, %a)
%s = ReduceSum(%a) {axes: [0], keepdims: 0}
%o = weft.Output(%c) {name: "c"}
%p = weft.Output(%s) {name: "s"})");
  PassRun run = RunPass("fuse_elementwise", body);
  EXPECT_NE(run.body.find("outputs: [2, 4]"), std::string::npos) << run.body;
  EXPECT_NE(run.body.find("ReduceSum(%c/fused)"), std::string::npos)
      << run.body;
  EXPECT_NE(run.body.find("weft.Output(%c/fused:1)"), std::string::npos)
      << run.body;
  ExpectSameResults("fuse_elementwise", body);
}

TEST(FuseElementwiseTest, NeverMakesACycle) {
  // a -> s -> b -> c, and a -> c: c may join b, not a.
  const std::string body = With(R"(
%a = Exp(%x)
%s = Softmax(%a)
%b = Neg(%s)
%c = Mul(%a, %b)
%d = Add(%a, %c)
%o = weft.Output(%d) {name: "d"})");
  PassRun run = RunPass("fuse_elementwise", body);
  EXPECT_EQ(Count(run.body, "weft.fused"), 1) << run.body;
  EXPECT_NE(run.body.find("%a = Exp(%x)"), std::string::npos) << run.body;
  ExpectSameResults("fuse_elementwise", body);
}

TEST(FuseElementwiseTest, NeverMakesACycleThroughAnotherRegion) {
  // Regions {a, b} and {c, d} would wait for each other.
  const std::string body = With(R"(
%y = weft.Input() {dtype: f64, shape: [2, 3]}
%a = Exp(%x)
%c = Exp(%y)
%sa = Softmax(%a)
%sc = Softmax(%c)
%b = Add(%a, %sc)
%d = Add(%c, %sa)
%o = weft.Output(%b) {name: "b"}
%p = weft.Output(%d) {name: "d"})");
  ExpectSameResults("fuse_elementwise", body);
}

TEST(FuseElementwiseTest, TruthValuesStayInside) {
  const std::string body = With(R"(
%g = Greater(%x, %half)
%l = Less(%x, %z)
%m = And(%g, %l)
%y = Where(%m, %x, %half)
%o = weft.Output(%y) {name: "y"})");
  PassRun run = RunPass("fuse_elementwise", body);
  EXPECT_EQ(run.body.find("Greater"), std::string::npos) << run.body;
  ExpectSameResults("fuse_elementwise", body);
  // Read from outside too: it is made once.
  EXPECT_EQ(Untouched("fuse_elementwise", With(R"(
%g = Greater(%x, %half)
%y = Where(%g, %x, %half)
%o = weft.Output(%y) {name: "y"}
%p = weft.Output(%g) {name: "g"})")),
            "");
}

TEST(FuseElementwiseTest, TruthValuesAreOperandsAndResults) {
  const std::string body = With(R"(
%b = weft.Input() {dtype: bool, shape: [2, 3]}
%n = Not(%b)
%y = Where(%n, %x, %half)
%m = And(%b, %b)
%l = Or(%m, %b)
%o = weft.Output(%y) {name: "y"}
%p = weft.Output(%l) {name: "l"})");
  PassRun run = RunPass("fuse_elementwise", body);
  EXPECT_EQ(Count(run.body, "weft.fused"), 2) << run.body;
  EXPECT_NE(run.body.find("%y/fused = weft.fused(%b, %x)"), std::string::npos)
      << run.body;
  EXPECT_NE(run.body.find("%l/fused = weft.fused(%b)"), std::string::npos)
      << run.body;
  ExpectSameResults("fuse_elementwise", body);
}

TEST(FuseElementwiseTest, CastsBetweenTypesOfOneWidthAreFused) {
  const std::string body = R"(
%x = weft.Input() {dtype: f32, shape: [2, 3]}
%h = weft.Input() {dtype: bf16, shape: [2, 3]}
%f = Cast(%h) {to: f32}
%a = Add(%f, %x)
%b = Cast(%a) {to: bf16}
%c = Mul(%b, %h)
%d = Cast(%c) {to: f16}
%e = Neg(%d)
%o = weft.Output(%e) {name: "e"}
%p = weft.Output(%a) {name: "a"})";
  PassRun run = RunPass("fuse_elementwise", body);
  EXPECT_EQ(Count(run.body, "weft.fused"), 1) << run.body;
  EXPECT_EQ(run.body.find("Cast("), std::string::npos) << run.body;
  // Add, round to bf16, Mul, round, round to f16, Neg, round.
  EXPECT_NE(run.body.find("program: [1, 0, 1, 0, 36, 2, 3, 0, 3, 3, 0, 0, 36, "
                          "4, 3, 0, 36, 5, 2, 0, 20, 6, 0, 0, 36, 7, 2, 0], "
                          "types: [1, 2]}"),
            std::string::npos)
      << run.body;
  ExpectSameResults("fuse_elementwise", body);
}

TEST(FuseElementwiseTest, NotAcrossDevicesShapesDTypesOrRates) {
  EXPECT_EQ(Untouched("fuse_elementwise", With(R"(
%a = Neg(%x)
%b = Exp(%a) device("cpu:0")
%c = Exp(%b) device("sim:0")
%o = weft.Output(%c) {name: "c"})")),
            "");
  EXPECT_EQ(Untouched("fuse_elementwise", With(R"(
%a = Neg(%z)
%b = Add(%a, %x)
%c = Cast(%b) {to: f32}
%d = Neg(%c)
%i = Cast(%x) {to: i32}
%j = Neg(%i)
%o = weft.Output(%d) {name: "d"}
%p = weft.Output(%j) {name: "j"})")),
            "");
  EXPECT_EQ(Untouched("fuse_elementwise", With(R"(
%w = weft.Variable() {dtype: f64, shape: [3]}
%a = Neg(%w)
%b = Mul(%a, %z)
%o = weft.Output(%b) {name: "b"})")),
            "");
}

TEST(FuseElementwiseTest, ANodeThatDoesNotFitDoesNotSpoilTheRegion) {
  // %a has another shape, %g is read elsewhere too.
  const std::string body = With(R"(
%a = Neg(%z)
%b = Add(%a, %x)
%c = Exp(%b)
%g = Greater(%x, %half)
%y = Where(%g, %c, %half)
%o = weft.Output(%y) {name: "y"}
%p = weft.Output(%g) {name: "g"})");
  PassRun run = RunPass("fuse_elementwise", body);
  EXPECT_NE(run.body.find("%g = Greater(%x, %half)"), std::string::npos)
      << run.body;
  EXPECT_NE(run.body.find("%y/fused = weft.fused(%a, %x, %g)"),
            std::string::npos)
      << run.body;
  ExpectSameResults("fuse_elementwise", body);
}

TEST(FuseElementwiseTest, AllConstantsOfOneElementKeepTheShape) {
  ExpectSameResults("fuse_elementwise", R"(
%x = weft.Input() {dtype: f64, shape: [1]}
%c = Constant() {value: tensor(f64[1,1], [2.0])}
%a = Mul(%x, %c)
%b = Add(%a, %c)
%o = weft.Output(%b) {name: "b"})");
}

TEST(FuseElementwiseTest, RegionsAreBounded) {
  std::string body = With("%n0 = Neg(%x)\n");
  for (int i = 1; i < 100; ++i) {
    body +=
        "%n" + std::to_string(i) + " = Exp(%n" + std::to_string(i - 1) + ")\n";
  }
  body += "%o = weft.Output(%n99) {name: \"y\"}";
  PassRun run = RunPass("fuse_elementwise", body);
  EXPECT_EQ(Count(run.body, "weft.fused"), 2) << run.body;
  PassSettings settings;
  settings.max_fused = 10;
  EXPECT_EQ(
      Count(RunPass("fuse_elementwise", body, settings).body, "weft.fused"),
      10);
}

TEST(FuseElementwiseTest, OperandsAreBounded) {
  std::string body = With("");
  std::string sum = "%x";
  for (int i = 0; i < 40; ++i) {
    std::string n = std::to_string(i);
    body += "%i" + n + " = weft.Input() {dtype: f64, shape: [2, 3]}\n%a" + n +
            " = Add(" + sum + ", %i" + n + ")\n";
    sum = "%a" + n;
  }
  body += "%o = weft.Output(" + sum + ") {name: \"y\"}";
  PassRun run = RunPass("fuse_elementwise", body);
  EXPECT_EQ(Count(run.body, "weft.fused"), 3) << run.body;
  ExpectSameResults("fuse_elementwise", body);
}

TEST(FuseElementwiseTest, ParametersOfOpsBecomeConstants) {
  ExpectSameResults("fuse_elementwise", With(R"(
%a = LeakyRelu(%x) {alpha: 0.125}
%b = weft.Gelu(%a) {approximate: "tanh"}
%c = Max(%b, %z)
%o = weft.Output(%c) {name: "c"})"));
}

}  // namespace
}  // namespace weft
