#include "compiler/transforms/testing.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(ConstantFoldingTest, NothingToDo) {
  EXPECT_EQ(Untouched("constant_folding", R"(
%x = weft.Input() {dtype: f32, shape: [2]}
%c = Constant() {value: tensor(f32[2], [1.0, 2.0])}
%i = weft.Iota() {shape: [2], dtype: f32}
%y = Add(%x, %c)
%z = Add(%i, %c))"),
            "");
}

TEST(ConstantFoldingTest, LeavesSideEffectsAndRandomOpsAlone) {
  EXPECT_EQ(Untouched("constant_folding", R"(
%c = Constant() {value: tensor(f32[2], [1.0, 2.0])}
%n = Constant() {value: tensor(i64[2], [0, 0])}
%w = weft.Variable() {dtype: f32, shape: [2]}
%u = weft.Assign(%w, %c)
%r = weft.RandomUniform(%n) {dtype: f32, shape: [2]}
%k = weft.Copy(%c)
%g = Neg(%c) control(%w)
%o = weft.Output(%c) {name: "c"})"),
            "");
}

TEST(ConstantFoldingTest, FoldsChains) {
  PassRun run = RunPass("constant_folding", R"(
%c = Constant() {value: tensor(f32[2], [1.0, 2.0])}
%a = Add(%c, %c) device("cpu:0") stage(1)
%b = Mul(%a, %c)
%o = weft.Output(%b) {name: "b"})");
  EXPECT_NE(run.body.find(
                "%b/folded = Constant() {value: tensor(f32[2], [2.0, 8.0])}"),
            std::string::npos)
      << run.body;
  EXPECT_NE(run.body.find("%o = weft.Output(%b/folded)"), std::string::npos)
      << run.body;
  EXPECT_NE(run.body.find("[2.0, 4.0])} device(\"cpu:0\") stage(1)"),
            std::string::npos)
      << run.body;
  EXPECT_EQ(run.body.find("Mul"), std::string::npos) << run.body;
}

TEST(ConstantFoldingTest, SeveralResults) {
  ExpectSameResults("constant_folding", R"(
%c = Constant() {value: tensor(f32[4], [1.0, 2.0, 3.0, 4.0])}
%s = Split(%c) {axis: 0, split: [1, 3]} : f32[1], f32[3]
%y = Add(%s:1, %s)
%o = weft.Output(%y) {name: "y"})");
}

TEST(ConstantFoldingTest, BudgetHolds) {
  const char body[] = R"(
%c = Constant() {value: tensor(f32[], [1.0])}
%e = Expand(%c) {shape: [64]})";
  PassSettings settings;
  settings.fold_bytes = 255;
  EXPECT_EQ(Untouched("constant_folding", body, settings), "");
  settings.fold_bytes = 256;
  EXPECT_TRUE(RunPass("constant_folding", body, settings).changed);
}

TEST(ConstantFoldingTest, WhatTheReferenceRefusesStays) {
  EXPECT_EQ(Untouched("constant_folding", R"(
%c = Constant() {value: tensor(f32[2], [1.0, 2.0])}
%i = Constant() {value: tensor(i64[1], [7])}
%g = Gather(%c, %i))"),
            "");
}

}  // namespace
}  // namespace weft
