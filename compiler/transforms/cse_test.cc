#include "compiler/transforms/testing.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

constexpr char kInputs[] = R"(
%x = weft.Input() {dtype: f32, shape: [2]}
%z = weft.Input() {dtype: f32, shape: [2]}
)";

std::string With(const std::string& body) { return kInputs + body; }

TEST(CseTest, NothingToDo) {
  EXPECT_EQ(Untouched("cse", With(R"(
%a = Sub(%x, %z)
%b = Sub(%z, %x)
%c = LeakyRelu(%x) {alpha: 0.5}
%d = LeakyRelu(%x) {alpha: 0.25})")),
            "");
}

TEST(CseTest, LeavesSideEffectsAndRandomOpsAlone) {
  EXPECT_EQ(Untouched("cse", With(R"(
%v = weft.Variable() {dtype: f32, shape: [2]}
%w = weft.Variable() {dtype: f32, shape: [2]}
%u = weft.Assign(%v, %x)
%t = weft.Assign(%w, %x)
%n = weft.Counter() {rate: "micro"}
%r = weft.RandomUniform(%n) {dtype: f32, shape: [2]}
%s = weft.RandomUniform(%n) {dtype: f32, shape: [2]}
%k = weft.Copy(%x)
%l = weft.Copy(%x))")),
            "");
}

TEST(CseTest, MergesWholeExpressions) {
  PassRun run = RunPass("cse", With(R"(
%a = Add(%x, %z)
%b = Add(%z, %x)
%c = Relu(%a)
%d = Relu(%b)
%y = Mul(%c, %d)
%o = weft.Output(%y) {name: "y"})"));
  EXPECT_EQ(run.body, R"(%x = weft.Input() {dtype: f32, shape: [2]}
%z = weft.Input() {dtype: f32, shape: [2]}
%a = Add(%x, %z)
%c = Relu(%a)
%y = Mul(%c, %c)
%o = weft.Output(%y) {name: "y"}
)");
}

TEST(CseTest, RespectsControlDeviceAndStage) {
  EXPECT_EQ(Untouched("cse", With(R"(
%a = Relu(%x)
%b = Relu(%x) control(%z)
%c = Relu(%x) device("cpu:0")
%d = Relu(%x) stage(1))")),
            "");
}

TEST(CseTest, MovesControlUsesToTheNodeThatStays) {
  PassRun run = RunPass("cse", With(R"(
%a = Relu(%x)
%b = Relu(%x)
%c = Neg(%z) control(%b))"));
  EXPECT_NE(run.body.find("%c = Neg(%z) control(%a)"), std::string::npos)
      << run.body;
}

TEST(CseTest, ConstantsAreComparedBitForBit) {
  EXPECT_EQ(Untouched("cse", R"(
%a = Constant() {value: tensor(f32[], [0.0])}
%b = Constant() {value: tensor(f32[], [-0.0])}
%c = Constant() {value: tensor(f32[1], [0.0])}
%d = Constant() {value: tensor(f64[], [0.0])})"),
            "");
  EXPECT_EQ(RunPass("cse", R"(
%a = Constant() {value: tensor(f32[2], [1.0, nan])}
%b = Constant() {value: tensor(f32[2], [1.0, nan])}
%y = Sub(%a, %b))")
                .body,
            R"(%a = Constant() {value: tensor(f32[2], [1.0, nan])}
%y = Sub(%a, %a)
)");
}

TEST(CseTest, ResultsStay) {
  ExpectSameResults("cse", With(R"(
%a = Exp(%x)
%b = Exp(%x)
%c = Add(%a, %b)
%o = weft.Output(%c) {name: "c"})"));
}

}  // namespace
}  // namespace weft
