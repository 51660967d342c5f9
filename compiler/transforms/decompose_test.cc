#include "compiler/transforms/decompose.h"

#include "compiler/transforms/testing.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

PassSettings Only(OpId id) {
  PassSettings settings;
  settings.decompose = [id](const Node& node) { return node.Is(id); };
  return settings;
}

constexpr char kSoftmax[] = R"(
%x = weft.Input() {dtype: f64, shape: [2, 3]}
%w = weft.Input() {dtype: f64, shape: [2, 3]}
%y = Softmax(%x) {axis: 1} control(%w) device("cpu:0") stage(2)
%z = Mul(%y, %w)
%o = weft.Output(%z) {name: "z"})";

TEST(DecomposeTest, NothingToDo) {
  EXPECT_EQ(Untouched("decompose", kSoftmax, Only(OpId::kGelu)), "");
}

TEST(DecomposeTest, LeavesStateAndWhatHasNoDecompositionAlone) {
  EXPECT_EQ(Untouched("decompose", R"(
%x = weft.Input() {dtype: f32, shape: [2]}
%w = weft.Variable() {dtype: f32, shape: [2]}
%u = weft.Assign(%w, %x)
%y = Exp(%x)
%o = weft.Output(%y) {name: "y"})"),
            "");
}

TEST(DecomposeTest, KeepsPlaceAndControlInputs) {
  PassRun run = RunPass("decompose", kSoftmax, Only(OpId::kSoftmax));
  EXPECT_EQ(run.body.find("Softmax"), std::string::npos) << run.body;
  EXPECT_NE(run.body.find("%y/exp = Exp("), std::string::npos) << run.body;
  size_t at = run.body.find("%y/exp = Exp(");
  std::string line = run.body.substr(at, run.body.find('\n', at) - at);
  EXPECT_NE(line.find("control(%w) device(\"cpu:0\") stage(2)"),
            std::string::npos)
      << line;
}

TEST(DecomposeTest, ResultsStayDownToPrimitives) {
  ExpectSameResults("decompose", kSoftmax, Only(OpId::kSoftmax), 1e-12);
  // No predicate: all the way.
  ExpectSameResults("decompose", R"(
%x = weft.Input() {dtype: f64, shape: [2, 3]}
%g = weft.Gelu(%x)
%m = ReduceMean(%g) {axes: [1]}
%l = LogSoftmax(%x) {axis: -1}
%f = Flatten(%l)
%s = Sub(%f, %m)
%o = weft.Output(%s) {name: "s"})",
                    {}, 1e-12);
}

TEST(DecomposeTest, AnUpdateStillStores) {
  PassSettings settings = Only(OpId::kMomentumUpdate);
  const char body[] = R"(
%p = weft.Variable() {dtype: f32, shape: [2]}
%v = weft.Variable() {dtype: f32, shape: [2]}
%g = weft.Input() {dtype: f32, shape: [2]}
%lr = Constant() {value: tensor(f32[], [0.5])}
%u = weft.MomentumUpdate(%p, %v, %g, %lr) {momentum: 0.5} : f32[2], f32[2])";
  PassRun run = RunPass("decompose", body, settings);
  EXPECT_TRUE(run.changed);
  EXPECT_NE(run.body.find("weft.Assign(%p"), std::string::npos) << run.body;
  EXPECT_NE(run.body.find("weft.Assign(%v"), std::string::npos) << run.body;
  ExpectSameResults("decompose", body, settings, 1e-6);
}

}  // namespace
}  // namespace weft
