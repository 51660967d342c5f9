// Random numbers, updates of state, sources and sinks, the learning rate.
#include <cmath>

#include "core/ops/learning_rate.h"
#include "core/ops/philox.h"
#include "core/ops/system_attrs.h"
#include "core/ops/update.h"
#include "core/reference/eager.h"
#include "core/reference/gradient_check.h"
#include "core/reference/schema_check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;
using testing::DoubleEq;
using testing::ElementsAre;

Literal Counter(int64_t step, int64_t micro_batch = 0) {
  return Literal::Of<int64_t>({2}, {step, micro_batch});
}

Literal F64(const std::vector<double>& values) {
  return Literal::Of<double>({static_cast<int64_t>(values.size())}, values);
}

// --- Philox ----------------------------------------------------------------

// The known answers that the authors publish with the generator.
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_THAT(Philox4x32({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_THAT(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                         {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(PhiloxTest, SplitMix64KnownAnswers) {
  EXPECT_EQ(SplitMix64(0), 0xe220a8397b1dcdafu);
  // The second number of the sequence from 0.
  EXPECT_EQ(SplitMix64(0x9E3779B97F4A7C15u), 0x6e789e6aa1b965f4u);
}

TEST(PhiloxTest, UniformCoversTheHalfOpenInterval) {
  EXPECT_EQ(WordToUniform(0), 0.0);
  EXPECT_EQ(WordToUniform(0xff), 0.0);
  EXPECT_EQ(WordToUniform(0x80000000u), 0.5);
  EXPECT_LT(WordToUniform(0xffffffffu), 1.0);
}

OpCase Random(const char* op, Shape shape, Literal counter, int64_t seed = 1,
              int64_t stream = 0) {
  return {op,
          {{"shape", Ints(shape.dims().begin(), shape.dims().end())},
           {"dtype", DType::kF64},
           {"seed", seed},
           {"stream", stream}},
          {std::move(counter)}};
}

TEST(RandomTest, ElementsAreThoseOfTheDefinition) {
  PhiloxKey key = MakePhiloxKey(42, 7);
  std::vector<double> u =
      ResultOf(Random("weft.RandomUniform", {2, 3}, Counter(5), 42, 7));
  std::vector<double> n =
      ResultOf(Random("weft.RandomNormal", {6}, Counter(5), 42, 7));
  PhiloxBlock words = Philox4x32({0, 0, 5, 0}, key);
  double u1 = ((words[2] >> 8) + 1) / 16777216.0;
  double u2 = (words[3] >> 8) / 16777216.0;
  double radius = std::sqrt(-2 * std::log(u1));
  for (int lane = 0; lane < 4; ++lane) {
    EXPECT_EQ(u[lane], (words[lane] >> 8) / 16777216.0);
  }
  EXPECT_THAT(n[2], DoubleEq(radius * std::cos(2 * M_PI * u2)));
  EXPECT_THAT(n[3], DoubleEq(radius * std::sin(2 * M_PI * u2)));
  PhiloxBlock next = Philox4x32({1, 0, 5, 0}, key);
  EXPECT_EQ(u[5], (next[1] >> 8) / 16777216.0);
}

TEST(RandomTest, MicroBatchesAreSlicesOfTheStep) {
  std::vector<double> whole =
      ResultOf(Random("weft.RandomNormal", {6}, Counter(3, 0)));
  std::vector<double> first =
      ResultOf(Random("weft.RandomNormal", {3}, Counter(3, 0)));
  std::vector<double> second =
      ResultOf(Random("weft.RandomNormal", {3}, Counter(3, 1)));
  first.insert(first.end(), second.begin(), second.end());
  EXPECT_EQ(first, whole);
}

TEST(RandomTest, SeedStreamAndStepAllMatter) {
  auto numbers = [](int64_t step, int64_t seed, int64_t stream) {
    return ResultOf(
        Random("weft.RandomUniform", {4}, Counter(step), seed, stream));
  };
  EXPECT_EQ(numbers(0, 1, 2), numbers(0, 1, 2));
  EXPECT_NE(numbers(0, 1, 2), numbers(1, 1, 2));
  EXPECT_NE(numbers(0, 1, 2), numbers(0, 2, 2));
  EXPECT_NE(numbers(0, 1, 2), numbers(0, 2, 1));
}

TEST(RandomTest, MomentsOfTheDistributions) {
  OpCase uniform = Random("weft.RandomUniform", {20000}, Counter(0));
  uniform.attrs.Set("low", -1.0);
  uniform.attrs.Set("high", 3.0);
  OpCase normal = Random("weft.RandomNormal", {20000}, Counter(0));
  normal.attrs.Set("mean", 2.0);
  normal.attrs.Set("scale", 0.5);
  auto moments = [](const std::vector<double>& values) {
    double sum = 0, squares = 0;
    for (double v : values) {
      sum += v;
      squares += v * v;
    }
    double n = static_cast<double>(values.size()), mean = sum / n;
    return std::make_pair(mean, squares / n - mean * mean);
  };
  auto [uniform_mean, uniform_variance] = moments(ResultOf(uniform));
  EXPECT_NEAR(uniform_mean, 1.0, 0.03);
  EXPECT_NEAR(uniform_variance, 16.0 / 12, 0.03);
  auto [normal_mean, normal_variance] = moments(ResultOf(normal));
  EXPECT_NEAR(normal_mean, 2.0, 0.015);
  EXPECT_NEAR(normal_variance, 0.25, 0.01);
}

TEST(RandomTest, Types) {
  AttrMap attrs = {{"shape", Ints{2}}, {"dtype", DType::kF16}};
  EXPECT_EQ(InferText("weft.RandomUniform", attrs, {"i64[2]"}), "f16[2]");
  EXPECT_THAT(InferText("weft.RandomUniform", attrs, {"i32[2]"}),
              ErrorWith("WEFT-2005", {"i64", "i32[2]"}));
  EXPECT_THAT(InferText("weft.RandomNormal", attrs, {"i64[3]"}),
              ErrorWith("WEFT-2004", {"[2]", "i64[3]"}));
  attrs.Set("dtype", DType::kI32);
  EXPECT_THAT(InferText("weft.RandomNormal", attrs, {"i64[2]"}),
              ErrorWith("WEFT-2003", {"float", "i32"}));
}

// --- Updates ---------------------------------------------------------------

Literal Rate(float value) { return Literal::Scalar<float>(value); }

// Exactly representable numbers throughout, so that results are exact.
TEST(UpdateTest, ValuesByHand) {
  Literal p = F64({2, -4}), g = F64({1, 0.5}), s = F64({1, 2});
  OpCase assign{"weft.Assign", {}, {p, g}};
  EXPECT_THAT(ResultOf(assign), ElementsAre(1, 0.5));
  OpCase ema{"weft.EmaUpdate", {{"momentum", 0.75}}, {p, g}};
  EXPECT_THAT(ResultOf(ema), ElementsAre(1.75, -2.875));

  OpCase sgd{"weft.SgdUpdate", {{"weight_decay", 0.5}}, {p, g, Rate(0.5f)}};
  // g' = {2, -1.5}
  EXPECT_THAT(ResultOf(sgd), ElementsAre(1, -3.25));

  OpCase momentum{
      "weft.MomentumUpdate", {{"momentum", 0.5}}, {p, s, g, Rate(0.5f)}, 2};
  EXPECT_THAT(ResultOf(momentum, 0), ElementsAre(1.25, -4.75));
  EXPECT_THAT(ResultOf(momentum, 1), ElementsAre(1.5, 1.5));
  momentum.attrs.Set("nesterov", 1);  // direction g + 0.5 v
  EXPECT_THAT(ResultOf(momentum, 0), ElementsAre(1.125, -4.625));

  OpCase adagrad{"weft.AdagradUpdate",
                 {{"epsilon", 0.0}},
                 {p, F64({3, 2}), g, Rate(0.5f)},
                 2};
  EXPECT_THAT(ResultOf(adagrad, 0),
              ElementsAre(1.75, DoubleEq(-4 - 0.25 / 1.5)));
  EXPECT_THAT(ResultOf(adagrad, 1), ElementsAre(4, 2.25));
}

TEST(UpdateTest, AdamByHand) {
  OpCase adam{"weft.AdamUpdate",
              {{"beta1", 0.5}, {"beta2", 0.75}, {"epsilon", 0.0}},
              {F64({2}), F64({1}), F64({4}), F64({3}), Rate(0.5f), Counter(1)},
              3};
  // t = 2: m = 2, v = 5.25, corrections 0.75 and 0.4375.
  double direction = (2 / 0.75) / std::sqrt(5.25 / 0.4375);
  EXPECT_THAT(ResultOf(adam, 0), ElementsAre(DoubleEq(2 - 0.5 * direction)));
  EXPECT_THAT(ResultOf(adam, 1), ElementsAre(2));
  EXPECT_THAT(ResultOf(adam, 2), ElementsAre(5.25));

  adam.attrs.Set("weight_decay", 0.5);
  adam.attrs.Set("decoupled", 1);
  EXPECT_THAT(ResultOf(adam, 0),
              ElementsAre(DoubleEq(2 - 0.5 * (direction + 1))));
  EXPECT_THAT(ResultOf(adam, 1), ElementsAre(2));

  adam.attrs.Set("decoupled", 0);  // the decay enters the moments
  EXPECT_THAT(ResultOf(adam, 1), ElementsAre(2.5));
}

TEST(UpdateTest, DecompositionsAreTheDefinition) {
  Literal p = RandomLiteral({2, 3}, 1), g = RandomLiteral({2, 3}, 2);
  Literal m = RandomLiteral({2, 3}, 3), v = RandomLiteral({2, 3}, 4, 0.1, 1);
  Literal lr = Rate(0.125f);
  for (double decay : {0.0, 0.25}) {
    AttrMap wd = {{"weight_decay", decay}};
    auto with = [&wd](std::initializer_list<AttrMap::Map::value_type> more) {
      AttrMap attrs = wd;
      for (const auto& [name, value] : more) attrs.Set(name, value);
      return attrs;
    };
    for (const OpCase& c : std::vector<OpCase>{
             {"weft.EmaUpdate", {{"momentum", 0.9}}, {p, g}},
             {"weft.EmaUpdate", {{"momentum", 0.9}}, {p, g, lr}},
             {"weft.SgdUpdate", wd, {p, g, lr}},
             {"weft.MomentumUpdate", with({{"momentum", 0.9}}), {p, m, g, lr}},
             {"weft.MomentumUpdate",
              with({{"momentum", 0.9}, {"nesterov", 1}}),
              {p, m, g, lr}},
             {"weft.AdamUpdate", wd, {p, m, v, g, lr, Counter(0)}},
             {"weft.AdamUpdate",
              with({{"decoupled", 1}}),
              {p, m, v, g, lr, Counter(99)}},
             {"weft.AdagradUpdate", wd, {p, v, g, lr}},
         }) {
      EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
    }
  }
}

// Two variables of different shapes, in one op and in one each.
TEST(UpdateTest, SeveralVariablesAreAsOneAfterTheOther) {
  Literal p0 = RandomLiteral({2, 3}, 1), p1 = RandomLiteral({5}, 2);
  Literal m0 = RandomLiteral({2, 3}, 3), m1 = RandomLiteral({5}, 4);
  Literal v0 = RandomLiteral({2, 3}, 5, 0.1, 1);
  Literal v1 = RandomLiteral({5}, 6, 0.1, 1);
  Literal g0 = RandomLiteral({2, 3}, 7), g1 = RandomLiteral({5}, 8);
  Literal lr = Rate(0.125f), scale = Rate(0.75f);
  AttrMap momentum = {{"momentum", 0.9}};
  struct Case {
    OpCase both, first, second;
  };
  const std::vector<Case> cases = {
      {{"weft.EmaUpdate", momentum, {p0, p1, g0, g1}, 2},
       {"weft.EmaUpdate", momentum, {p0, g0}, 1},
       {"weft.EmaUpdate", momentum, {p1, g1}, 1}},
      {{"weft.EmaUpdate", momentum, {p0, p1, g0, g1, scale}, 2},
       {"weft.EmaUpdate", momentum, {p0, g0, scale}, 1},
       {"weft.EmaUpdate", momentum, {p1, g1, scale}, 1}},
      {{"weft.SgdUpdate", {}, {p0, p1, g0, g1, lr}, 2},
       {"weft.SgdUpdate", {}, {p0, g0, lr}, 1},
       {"weft.SgdUpdate", {}, {p1, g1, lr}, 1}},
      {{"weft.MomentumUpdate",
        momentum,
        {p0, v0, p1, v1, g0, g1, lr, scale},
        4},
       {"weft.MomentumUpdate", momentum, {p0, v0, g0, lr, scale}, 2},
       {"weft.MomentumUpdate", momentum, {p1, v1, g1, lr, scale}, 2}},
      {{"weft.AdamUpdate",
        {},
        {p0, m0, v0, p1, m1, v1, g0, g1, lr, Counter(3), scale},
        6},
       {"weft.AdamUpdate", {}, {p0, m0, v0, g0, lr, Counter(3), scale}, 3},
       {"weft.AdamUpdate", {}, {p1, m1, v1, g1, lr, Counter(3), scale}, 3}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.both.op);
    EXPECT_EQ(CheckDecomposition(c.both), absl::OkStatus());
    const int slots = c.first.num_outputs;
    for (int i = 0; i < slots; ++i) {
      EXPECT_EQ(ResultOf(c.both, i), ResultOf(c.first, i));
      EXPECT_EQ(ResultOf(c.both, slots + i), ResultOf(c.second, i));
    }
  }
}

TEST(UpdateTest, TheMultiplierScalesGradients) {
  Literal p = F64({2, -4}), v = F64({1, 3}), g = F64({1, 0.5});
  Literal halved = F64({0.5, 0.25}), lr = Rate(0.5f), half = Rate(0.5f);
  AttrMap decay = {{"weight_decay", 0.5}};
  EXPECT_EQ(ResultOf({"weft.SgdUpdate", decay, {p, g, lr, half}}),
            ResultOf({"weft.SgdUpdate", decay, {p, halved, lr}}));
  AttrMap momentum = {{"momentum", 0.75}};
  EXPECT_EQ(ResultOf({"weft.EmaUpdate", momentum, {p, g, half}}),
            ResultOf({"weft.EmaUpdate", momentum, {p, halved}}));
  OpCase scaled{
      "weft.AdamUpdate", decay, {p, v, v, g, lr, Counter(0), half}, 3};
  OpCase plain{"weft.AdamUpdate", decay, {p, v, v, halved, lr, Counter(0)}, 3};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ResultOf(scaled, i), ResultOf(plain, i));
  }
  OpCase adagrad{"weft.AdagradUpdate", decay, {p, v, g, lr, half}, 2};
  EXPECT_EQ(CheckDecomposition(adagrad), absl::OkStatus());
}

// Decay, momentum and all: nothing moves.
TEST(UpdateTest, AMultiplierOfNanLeavesStateAlone) {
  Literal p = F64({2, -4}), v = F64({1, 3}), g = F64({1, HUGE_VAL});
  Literal lr = Rate(0.5f), nan = Rate(std::nanf(""));
  AttrMap attrs = {{"weight_decay", 0.5}};
  AttrMap momentum = attrs;
  momentum.Set("momentum", 0.9);
  for (const OpCase& c : std::vector<OpCase>{
           {"weft.EmaUpdate", {{"momentum", 0.9}}, {p, g, nan}, 1},
           {"weft.SgdUpdate", attrs, {p, g, lr, nan}, 1},
           {"weft.MomentumUpdate", momentum, {p, v, g, lr, nan}, 2},
           {"weft.AdamUpdate", attrs, {p, v, v, g, lr, Counter(0), nan}, 3},
           {"weft.AdagradUpdate", attrs, {p, v, g, lr, nan}, 2}}) {
    SCOPED_TRACE(c.op);
    EXPECT_THAT(ResultOf(c, 0), ElementsAre(2, -4));
    for (int i = 1; i < c.num_outputs; ++i) {
      EXPECT_THAT(ResultOf(c, i), ElementsAre(1, 3));
    }
    EXPECT_EQ(CheckDecomposition(c), absl::OkStatus());
  }
}

TEST(UpdateTest, TheLossScaleFallsAtOnceAndGrowsInTime) {
  struct Case {
    float scale, good_steps, norm, next, steps;
  };
  const float inf = HUGE_VALF, nan = std::nanf("");
  for (const Case& c : std::vector<Case>{{1024, 0, 3, 1024, 1},
                                         {1024, 3, 3, 2048, 0},
                                         {1024, 2, inf, 512, 0},
                                         {1024, 3, nan, 512, 0},
                                         {1, 0, nan, 1, 0},
                                         {1.5, 0, inf, 1, 0},
                                         {3e38f, 3, 0, 3e38f, 0}}) {
    OpCase update{"weft.LossScaleUpdate",
                  {{"growth_interval", 4}},
                  {Rate(c.scale), Rate(c.good_steps), Rate(c.norm)},
                  2};
    EXPECT_THAT(ResultOf(update, 0), ElementsAre(c.next)) << c.scale;
    EXPECT_THAT(ResultOf(update, 1), ElementsAre(c.steps)) << c.scale;
    EXPECT_EQ(CheckDecomposition(update), absl::OkStatus()) << c.scale;
  }
}

TEST(UpdateTest, SchemasSayWhatIsReplaced) {
  for (auto [op, updated] :
       std::vector<std::pair<const char*, int>>{{"weft.Assign", 1},
                                                {"weft.EmaUpdate", 1},
                                                {"weft.SgdUpdate", 1},
                                                {"weft.MomentumUpdate", 2},
                                                {"weft.AdamUpdate", 3},
                                                {"weft.AdagradUpdate", 2}}) {
    const OpSchema& schema = *OpRegistry::Global().FindOrNull(op);
    EXPECT_EQ(schema.effect, OpEffect::kUpdate) << op;
    EXPECT_EQ(schema.state_slots, updated) << op;
    EXPECT_EQ(schema.outputs.min, updated) << op;
    EXPECT_EQ(UpdatesMany(schema), op != std::string("weft.Assign")) << op;
  }
}

TEST(UpdateTest, Errors) {
  EXPECT_EQ(InferText("weft.Assign", {}, {"bool[2]", "bool[2]"}), "bool[2]");
  EXPECT_THAT(InferText("weft.Assign", {}, {"f32[2]", "f32[3]"}),
              ErrorWith("WEFT-2004", {"f32[2]", "f32[3]"}));
  EXPECT_THAT(InferText("weft.SgdUpdate", {}, {"f32[2]", "f64[2]", "f32[]"}),
              ErrorWith("WEFT-2005", {"f32[2]", "f64[2]"}));
  EXPECT_THAT(InferText("weft.SgdUpdate", {}, {"f32[2]", "f32[2]", "f32[1]"}),
              ErrorWith("WEFT-2004", {"operand 2", "[]", "f32[1]"}));
  EXPECT_THAT(InferText("weft.SgdUpdate", {}, {"i32[2]", "i32[2]", "f32[]"}),
              ErrorWith("WEFT-2005", {"float", "i32[2]"}));
  EXPECT_THAT(InferText("weft.SgdUpdate", {{"weight_decay", -1.0}},
                        {"f32[2]", "f32[2]", "f32[]"}),
              ErrorWith("WEFT-2003", {"weight_decay", "-1.0"}));
  EXPECT_THAT(InferText("weft.MomentumUpdate", {},
                        {"f32[2]", "f32[2]", "f32[2]", "f32[]"}),
              ErrorWith("WEFT-2003", {"'momentum'", "required"}));
  EXPECT_THAT(
      InferText("weft.AdamUpdate", {{"beta2", 1.0}},
                {"f32[2]", "f32[2]", "f32[2]", "f32[2]", "f32[]", "i64[2]"}),
      ErrorWith("WEFT-2003", {"beta2", "[0, 1)"}));
  EXPECT_THAT(
      InferText("weft.SgdUpdate", {}, {"f32[2]", "f32[2]", "f32[]", "f64[]"}),
      ErrorWith("WEFT-2005", {"operand 3", "f64[]"}));
  EXPECT_THAT(InferText("weft.EmaUpdate", {{"momentum", 0.5}},
                        {"f32[2]", "f32[2]", "f32[2]"}),
              ErrorWith("WEFT-2004", {"operand 2", "[]", "f32[2]"}));
  EXPECT_THAT(InferText("weft.SgdUpdate", {},
                        {"f32[2]", "f32[3]", "f32[2]", "f32[2]", "f32[]"}, 2),
              ErrorWith("WEFT-2004", {"f32[3]", "f32[2]"}));
  EXPECT_THAT(
      InferText("weft.AdamUpdate", {}, std::vector<std::string>(9, "f32[]"), 3),
      ErrorWith("WEFT-2006", {"3 operands of state", "got 9"}));
  EXPECT_THAT(InferText("weft.LossScaleUpdate", {{"backoff_factor", 1.0}},
                        {"f32[]", "f32[]", "f32[]"}, 2),
              ErrorWith("WEFT-2003", {"backoff_factor", "[0, 1)"}));
}

// --- Sources, state, sinks --------------------------------------------------

TEST(SystemTest, Types) {
  EXPECT_EQ(InferText("weft.Counter", {{"rate", "micro"}, {"first", 3}}, {}),
            "i64[2]");
  EXPECT_THAT(InferText("weft.Counter", {{"first", -1}}, {}),
              ErrorWith("WEFT-2003", {"first", "-1"}));
  EXPECT_EQ(InferText("weft.Counter", {{"rate", "micro"}}, {}), "i64[2]");
  EXPECT_THAT(InferText("weft.Counter", {{"rate", "epoch"}}, {}),
              ErrorWith("WEFT-2003", {"\"epoch\"", "micro, step"}));
  AttrMap input = {{"dtype", DType::kF32}, {"shape", Ints{2}}};
  EXPECT_EQ(InferText("weft.Input", input, {}), "f32[2]");
  input.Set("shape", Ints{-2});
  EXPECT_THAT(InferText("weft.Input", input, {}),
              ErrorWith("WEFT-2003", {"[-2]"}));
  EXPECT_EQ(InferText("Constant", {{"value", Literal::Scalar<float>(1)}}, {}),
            "f32[]");
  EXPECT_THAT(InferText("Constant", {{"value", Literal()}}, {}),
              ErrorWith("WEFT-2003", {"empty"}));
  EXPECT_EQ(InferText("weft.Output", {{"name", "y"}}, {"f32[2]"}), "");
  EXPECT_EQ(InferText("weft.Copy", {}, {"bool[2]"}), "bool[2]");
  EXPECT_EQ(InferText("weft.Accumulate", {{"count", 4}}, {"f32[2]"}), "f32[2]");
  EXPECT_THAT(InferText("weft.Accumulate", {{"count", 0}}, {"f32[2]"}),
              ErrorWith("WEFT-2003", {"count", "0"}));
}

TEST(SystemTest, DataSourceFieldsRoundTrip) {
  std::vector<TensorType> types = {
      {DType::kF32, {8, 28, 28}}, {DType::kI32, {8}}, {DType::kF32, {}}};
  AttrMap attrs = DataSourceAttrs("train", types);
  EXPECT_EQ(InferText("weft.DataSource", attrs, {}, 3),
            "f32[8,28,28] i32[8] f32[]");
  EXPECT_THAT(InferText("weft.DataSource", attrs, {}, 2),
              ErrorWith("WEFT-2006", {"gives 3 results, asked for 2"}));
  for (auto [name, value] : std::vector<std::pair<const char*, Ints>>{
           {"dtypes", {1, 8}},
           {"dtypes", {1, 8, 99}},
           {"dtypes", {1, 8, 0}},
           {"ranks", {3, 1, 1}},
           {"ranks", {3, 0, 0}},
           {"ranks", {-1, 1, 0}},
           {"dims", {8, -1, 1, 8}},
           {"ranks", {int64_t{1} << 40, 1, 0}}}) {
    AttrMap broken = attrs;
    broken.Set(name, value);
    EXPECT_THAT(InferText("weft.DataSource", broken, {}, 3),
                ErrorWith("WEFT-2003", {"do not describe fields"}));
  }
}

TEST(SystemTest, VariablesCheckTheirAttributes) {
  TensorType type = {DType::kF32, {3}};
  AttrMap attrs = VariableAttrs(type, VariableInit::Normal(0, 1));
  EXPECT_EQ(InferText("weft.Variable", attrs, {}), "f32[3]");
  for (auto [name, value] :
       std::vector<std::pair<const char*, Attr>>{{"role", "weight"},
                                                 {"trainable", 2},
                                                 {"init", "ones"},
                                                 {"dtype", DType::kI32}}) {
    AttrMap broken = attrs;
    broken.Set(name, value);
    EXPECT_THAT(InferText("weft.Variable", broken, {}),
                ErrorWith("WEFT-2003", {name}));
  }
}

std::vector<double> InitialValue(const VariableInit& init) {
  TensorType type = {DType::kF64, {2, 2}};
  AttrMap attrs = VariableAttrs(type, init);
  std::vector<TensorType> outputs = {type};
  OpView view(*OpRegistry::Global().FindOrNull("weft.Variable"), "v", attrs, {},
              outputs);
  EagerEmitter e;
  Value v = EmitInitialValue(e, view, e.Add(Counter(0)), /*seed=*/3,
                             /*stream=*/4);
  EXPECT_EQ(e.status(), absl::OkStatus());
  EXPECT_EQ(e.type(v), type);
  return e.literal(v).ToDoubles();
}

TEST(SystemTest, VariablesStartAsTheirInitSays) {
  EXPECT_THAT(InitialValue(VariableInit::Zeros()), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(InitialValue(VariableInit::Constant(1.5)),
              ElementsAre(1.5, 1.5, 1.5, 1.5));
  PhiloxKey key = MakePhiloxKey(3, 4);
  EXPECT_EQ(InitialValue(VariableInit::Uniform(-2, 2))[3],
            -2 + 4 * RandomUniformAt(key, 0, 3));
  EXPECT_EQ(InitialValue(VariableInit::Normal(1, 0.5))[2],
            1 + 0.5 * RandomNormalAt(key, 0, 2));
}

// --- Learning rate ----------------------------------------------------------

OpCase Schedule(AttrMap attrs, int64_t step) {
  return {"weft.LearningRate", std::move(attrs), {Counter(step)}};
}

TEST(LearningRateTest, ValuesByHand) {
  AttrMap constant = {{"base", 0.5}, {"warmup_steps", 4}};
  AttrMap step = {
      {"schedule", "step"}, {"base", 1.0}, {"step_size", 10}, {"gamma", 0.5}};
  AttrMap cosine = {{"schedule", "cosine"},
                    {"base", 1.0},
                    {"final", 0.5},
                    {"warmup_steps", 2},
                    {"total_steps", 6}};
  struct Case {
    AttrMap attrs;
    int64_t at;
    double rate;
  };
  for (const Case& c : std::vector<Case>{
           {constant, 0, 0.125},
           {constant, 3, 0.5},
           {constant, 1000, 0.5},
           {step, 9, 1.0},
           {step, 10, 0.5},
           {step, 29, 0.25},
           {cosine, 0, 0.5},
           {cosine, 1, 1.0},
           {cosine, 2, 1.0},
           {cosine, 4, 0.75},
           {cosine, 6, 0.5},
           {cosine, 99, 0.5},
       }) {
    EXPECT_FLOAT_EQ(ResultOf(Schedule(c.attrs, c.at))[0], c.rate) << c.at;
  }
}

TEST(LearningRateTest, DecompositionFollowsEverySchedule) {
  for (int64_t at : {0, 1, 2, 3, 7, 30, 59, 60, 61, 1000}) {
    for (const char* schedule : {"constant", "step", "cosine"}) {
      for (int warmup : {0, 5}) {
        AttrMap attrs = {{"schedule", schedule},   {"base", 0.3},
                         {"warmup_steps", warmup}, {"total_steps", 60},
                         {"step_size", 7},         {"gamma", 0.7},
                         {"final", 0.01}};
        EXPECT_EQ(CheckDecomposition(Schedule(attrs, at), 1e-7),
                  absl::OkStatus())
            << schedule << " at " << at;
      }
    }
  }
}

TEST(LearningRateTest, Errors) {
  auto infer = [](AttrMap attrs) {
    attrs.Set("base", 0.1);
    return InferText("weft.LearningRate", attrs, {"i64[2]"});
  };
  EXPECT_EQ(infer({}), "f32[]");
  EXPECT_THAT(infer({{"schedule", "linear"}}),
              ErrorWith("WEFT-2003", {"\"linear\"", "cosine"}));
  EXPECT_THAT(infer({{"schedule", "step"}}),
              ErrorWith("WEFT-2003", {"step_size", "0"}));
  EXPECT_THAT(
      infer({{"schedule", "cosine"}, {"total_steps", 5}, {"warmup_steps", 5}}),
      ErrorWith("WEFT-2003", {"total_steps (5)", "warmup_steps (5)"}));
  EXPECT_THAT(infer({{"warmup_steps", -1}}),
              ErrorWith("WEFT-2003", {"warmup_steps"}));
}

TEST(SystemOpsTest, ChannelsNameTheirPeer) {
  const AttrMap send = {{"channel", "x"}, {"peer", 1}};
  EXPECT_EQ(InferText("weft.Send", send, {"f32[2]"}, 0), "");
  EXPECT_EQ(InferText("weft.Send", send, {}, 0), "");
  EXPECT_EQ(InferText("weft.Recv", send, {}, 0), "");
  const std::vector<int64_t> shape = {2, 3};
  AttrMap recv = {{"channel", "x"},
                  {"peer", 1},
                  {"dtype", DType::kF32},
                  {"shape", shape},
                  {"rate", "micro"}};
  EXPECT_EQ(InferText("weft.Recv", recv, {}, 1), "f32[2,3]");
  recv.Set("peer", -1);
  EXPECT_THAT(InferText("weft.Recv", recv, {}, 1),
              ErrorWith("WEFT-2003", {"peer", "-1"}));
  recv.Set("peer", 1);
  recv.Set("channel", "");
  EXPECT_THAT(InferText("weft.Recv", recv, {}, 1),
              ErrorWith("WEFT-2003", {"channel"}));
}

}  // namespace
}  // namespace weft
