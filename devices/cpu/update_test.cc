// Updates of state and the scalars of a training step, against the reference.
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "devices/cpu/kernel_harness.h"
#include "gtest/gtest.h"

namespace weft::cpu {
namespace {

using Ints = std::vector<int64_t>;

const DType kFloats[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};

TEST(Update, MatchesTheReference) {
  Values values(10);
  for (DType dtype : kFloats) {
    for (const Shape& shape : {Shape({5, 13}), Shape(), Shape({0})}) {
      auto state = [&] { return values.Uniform(dtype, shape, 0.1, 2); };
      auto gradient = [&] { return values.Uniform(dtype, shape, -1, 1); };
      Literal lr = Literal::Scalar<float>(0.05f);
      Literal counter = Literal::Of<int64_t>({2}, {4, 0});
      std::vector<OpCase> cases = {
          {"weft.Assign", {}, {state(), gradient()}},
          {"weft.EmaUpdate", {{"momentum", 0.9}}, {state(), gradient()}},
          {"weft.SgdUpdate", {}, {state(), gradient(), lr}},
          {"weft.SgdUpdate",
           {{"weight_decay", 0.1}},
           {state(), gradient(), lr}},
          {"weft.MomentumUpdate",
           {{"momentum", 0.9}, {"weight_decay", 0.01}},
           {state(), state(), gradient(), lr}},
          {"weft.MomentumUpdate",
           {{"momentum", 0.9}, {"nesterov", 1}},
           {state(), state(), gradient(), lr}},
          {"weft.AdamUpdate",
           {{"weight_decay", 0.1}},
           {state(), state(), state(), gradient(), lr, counter}},
          {"weft.AdamUpdate",
           {{"weight_decay", 0.1}, {"decoupled", 1}},
           {state(), state(), state(), gradient(), lr, counter}},
          {"weft.AdagradUpdate",
           {{"weight_decay", 0.1}},
           {state(), state(), gradient(), lr}}};
      for (float scale : {0.25f, std::nanf("")}) {
        const Literal multiplier = Literal::Scalar(scale);
        cases.push_back({"weft.EmaUpdate",
                         {{"momentum", 0.9}},
                         {state(), gradient(), multiplier}});
        cases.push_back({"weft.SgdUpdate",
                         {{"weight_decay", 0.1}},
                         {state(), gradient(), lr, multiplier}});
        cases.push_back(
            {"weft.AdamUpdate",
             {{"weight_decay", 0.1}},
             {state(), state(), state(), gradient(), lr, counter, multiplier},
             3});
      }
      for (const OpCase& c : cases) {
        ExpectMatchesReference(c, Numerics::kAccumulated);
      }
    }
  }
  ExpectMatchesReference(
      {"weft.Assign",
       {},
       {Literal::Of<int64_t>({2}, {1, 2}), Literal::Of<int64_t>({2}, {3, 4})}},
      Numerics::kExact);
}

// Of several variables, whose blocks end anywhere.
TEST(Update, SeveralVariablesMatchTheReference) {
  Values values(12);
  std::vector<Shape> shapes = {Shape({70001}), Shape({3, 5}), Shape({0}),
                               Shape({17}), Shape()};
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    std::vector<Literal> momentum, adam, gradients;
    for (const Shape& shape : shapes) {
      for (int slot = 0; slot < 3; ++slot) {
        Literal state = values.Uniform(dtype, shape, 0.1, 2);
        if (slot < 2) momentum.push_back(state);
        adam.push_back(std::move(state));
      }
      gradients.push_back(values.Uniform(dtype, shape, -1, 1));
    }
    for (auto* operands : {&momentum, &adam}) {
      operands->insert(operands->end(), gradients.begin(), gradients.end());
      operands->push_back(Literal::Scalar<float>(0.05f));
    }
    adam.push_back(Literal::Of<int64_t>({2}, {4, 0}));
    adam.push_back(Literal::Scalar<float>(0.5f));
    ExpectMatchesReference(
        {"weft.MomentumUpdate", {{"momentum", 0.9}}, momentum, 10},
        Numerics::kAccumulated);
    ExpectMatchesReference({"weft.AdamUpdate", {}, adam, 15},
                           Numerics::kAccumulated);
    for (float scale : {1.0f, std::nanf("")}) {
      std::vector<Literal> ema;
      for (const Shape& shape : shapes) {
        ema.push_back(values.Uniform(dtype, shape, 0.1, 2));
      }
      ema.insert(ema.end(), gradients.begin(), gradients.end());
      ema.push_back(Literal::Scalar(scale));
      ExpectMatchesReference({"weft.EmaUpdate", {{"momentum", 0.9}}, ema, 5},
                             Numerics::kAccumulated);
    }
  }
}

TEST(Update, LossScaleMatchesTheReference) {
  const float inf = HUGE_VALF;
  for (float norm : {0.0f, 1.0f, inf, std::nanf("")}) {
    for (float scale : {1.0f, 65536.0f, 3e38f}) {
      for (float steps : {0.0f, 3.0f}) {
        ExpectMatchesReference({"weft.LossScaleUpdate",
                                {{"growth_interval", 4}},
                                {Literal::Scalar(scale), Literal::Scalar(steps),
                                 Literal::Scalar(norm)}},
                               Numerics::kExact);
      }
    }
  }
}

TEST(Training, ScalarsMatchTheReference) {
  Values values(11);
  ExpectMatchesReference({"weft.GlobalNorm",
                          {},
                          {values.Uniform(DType::kF32, {100, 101}, -1, 1),
                           values.Uniform(DType::kF32, {}, -1, 1),
                           values.Uniform(DType::kF32, {0}, -1, 1)}},
                         Numerics::kRounded);
  for (DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    for (const Shape& shape : {Shape({100, 101}), Shape(), Shape({3, 0})}) {
      ExpectMatchesReference(
          {"weft.SumOfSquares", {}, {values.Uniform(dtype, shape, -1, 1)}},
          Numerics::kAccumulated);
    }
  }
  const std::vector<Literal> both = {
      values.Uniform(DType::kF32, {70, 300}, -1, 1),
      values.Uniform(DType::kF64, {9001}, -1, 1)};
  ExpectMatchesReference({"weft.SumOfSquares", {}, both},
                         Numerics::kAccumulated);
  const OpCase parts{
      "weft.SumOfSquares", {{"parts", 2}, {"blocks", Ints{10512, 4544}}}, both};
  ExpectMatchesReference(parts, Numerics::kAccumulated);
  // A part has the bits of a value of its own.
  const auto first_of = [](const Literal& x, int64_t n) {
    std::vector<double> v = x.ToDoubles();
    v.resize(n);
    return Literal::FromDoubles({x.type().dtype, Shape({n})}, v);
  };
  const Literal alone =
      RunOnCpu({"weft.SumOfSquares",
                {},
                {first_of(both[0], 10512), first_of(both[1], 4544)}},
               {})
          .value()[0];
  EXPECT_EQ(RunOnCpu(parts, {}).value()[0].data<double>()[0],
            alone.data<double>()[0]);
  for (float norm : {0.0f, 0.5f, 1.0f, 8.0f}) {
    ExpectMatchesReference(
        {"weft.ClipScale", {{"clip_norm", 1.0}}, {Literal::Scalar(norm)}},
        Numerics::kRounded);
  }
  for (int64_t step : {0, 1, 9, 10, 55, 99, 100, 1000}) {
    Literal counter = Literal::Of<int64_t>({2}, {step, 3});
    for (const char* schedule : {"constant", "step", "cosine"}) {
      for (int64_t warmup : {0, 10}) {
        ExpectMatchesReference({"weft.LearningRate",
                                {{"schedule", schedule},
                                 {"base", 0.1},
                                 {"warmup_steps", warmup},
                                 {"total_steps", 100},
                                 {"step_size", 30},
                                 {"gamma", 0.5},
                                 {"final", 0.001}},
                                {counter}},
                               Numerics::kExact);
      }
    }
  }
}

}  // namespace
}  // namespace weft::cpu
