#include "compiler/training/training.h"

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/graph/verify.h"
#include "core/reference/interpreter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/model.h"

namespace weft::training {
namespace {

using ::testing::HasSubstr;
using State = std::map<std::string, Literal, std::less<>>;

constexpr int64_t kClasses = 3;

Graph Model(int64_t batch, models::ModelArgs args = {{"hidden", "5"}}) {
  return models::BuildModel("mlp", args, {batch, Shape({2, 2}), kClasses})
      .value();
}

TrainingSpec Spec() {
  TrainingSpec spec;
  spec.data = {Shape({2, 2}), kClasses, 0.5, 0.25};
  spec.seed = 11;
  return spec;
}

// The fields of a batch; sample i of the step is the same however it is cut.
std::vector<Literal> Batch(int64_t first, int64_t count, int64_t padding = 0,
                           const Shape& image = Shape({2, 2})) {
  const int64_t pixels = image.num_elements();
  std::vector<int64_t> dims = {count};
  for (int i = 0; i < image.rank(); ++i) dims.push_back(image.dim(i));
  std::vector<uint8_t> images;
  std::vector<int32_t> labels;
  std::vector<float> weights;
  for (int64_t i = first; i < first + count; ++i) {
    for (int64_t k = 0; k < pixels; ++k) {
      images.push_back((i * 37 + k * 91) % 256);
    }
    labels.push_back(i % kClasses);
    weights.push_back(i - first < count - padding ? 1 : 0);
  }
  return {Literal::Of<uint8_t>(Shape(dims), images),
          Literal::Of<int32_t>({count}, labels),
          Literal::Of<float>({count}, weights)};
}

Literal Counter(int64_t step, int64_t micro) {
  return Literal::Of<int64_t>({2}, {step, micro});
}

State Initial(const Graph& train, uint64_t seed) {
  Graph init = BuildInitGraph(train, seed).value();
  EXPECT_TRUE(VerifyGraph(init).ok()) << VerifyGraph(init);
  Feeds feeds;
  for (const Node* node : init.Nodes()) {
    if (node->Is(OpId::kVariable)) {
      feeds[node->name()] = {Literal::Splat(node->output_type(0), 777)};
    }
  }
  absl::StatusOr<InterpretResult> result = Interpret(init, feeds);
  EXPECT_TRUE(result.ok()) << result.status();
  return result->variables;
}

struct StepResult {
  double loss, weight, correct, learning_rate, norm, loss_scale, skipped;
};

// One step over 4 samples in `micro` micro-batches; changes `state`.
StepResult Step(const Graph& train, State* state, int64_t step, int micro = 1,
                const Shape& image = Shape({2, 2})) {
  Feeds feeds;
  for (const auto& [name, value] : *state) feeds[name] = {value};
  for (const Node* node : train.Nodes()) {
    if (node->Is(OpId::kCounter)) feeds[node->name()] = {Counter(step, 0)};
  }
  std::vector<Feeds> batches(micro);
  for (int m = 0; m < micro; ++m) {
    batches[m]["data/train"] =
        Batch(step * 4 + m * 4 / micro, 4 / micro, 0, image);
  }
  absl::StatusOr<InterpretResult> result = Interpret(train, feeds, batches);
  EXPECT_TRUE(result.ok()) << result.status();
  for (auto& [name, value] : result->variables) (*state)[name] = value;
  auto scalar = [&](const char* name) {
    auto it = result->outputs.find(name);
    return it == result->outputs.end() ? -1.0 : it->second[0].ToDoubles()[0];
  };
  return {scalar("loss"),          scalar("weight"),    scalar("correct"),
          scalar("learning_rate"), scalar("grad_norm"), scalar("loss_scale"),
          scalar("skipped_steps")};
}

void ExpectNear(const State& a, const State& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, value] : a) {
    std::vector<double> x = value.ToDoubles(), y = b.at(name).ToDoubles();
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(x[i], y[i], tolerance) << name << " " << i;
    }
  }
}

TEST(TrainingTest, InitialValuesFollowTheVariables) {
  Graph train = BuildTrainGraph(Model(4), Spec()).value();
  State state = Initial(train, 1);
  for (double v : state.at("fc1/weight").ToDoubles()) {
    EXPECT_LE(std::fabs(v), std::sqrt(6.0 / 4));
    EXPECT_NE(v, 0);
  }
  for (double v : state.at("fc1/bias").ToDoubles()) EXPECT_EQ(v, 0);
  EXPECT_EQ(Initial(train, 1), state);
  EXPECT_NE(Initial(train, 2).at("fc1/weight").ToDoubles(),
            state.at("fc1/weight").ToDoubles());
}

TEST(TrainingTest, EveryOptimizerLowersTheLoss) {
  using Kind = OptimizerSpec::Kind;
  std::vector<std::pair<std::string, OptimizerSpec>> cases(6);
  cases[0] = {"sgd", {}};
  cases[1].first = "momentum";
  cases[1].second.momentum = 0.9;
  cases[2] = cases[1];
  cases[2].second.nesterov = true;
  cases[3].first = "adam";
  cases[3].second.kind = Kind::kAdam;
  cases[4].first = "adamw";
  cases[4].second.kind = Kind::kAdamW;
  cases[4].second.weight_decay = 0.01;
  cases[5].first = "adagrad";
  cases[5].second.kind = Kind::kAdagrad;
  for (auto& [name, optimizer] : cases) {
    SCOPED_TRACE(name);
    TrainingSpec spec = Spec();
    spec.optimizer = optimizer;
    spec.optimizer.schedule.base = 0.05;
    Graph train = BuildTrainGraph(Model(4), spec).value();
    ASSERT_TRUE(VerifyGraph(train).ok()) << VerifyGraph(train);
    State state = Initial(train, 1);
    // Three batches in turn: losses of the same samples are compared.
    double first = 0, last = 0;
    for (int step = 0; step < 60; ++step) {
      double loss = Step(train, &state, step % 3).loss;
      if (step < 3) first += loss;
      if (step >= 57) last += loss;
    }
    EXPECT_LT(last, 0.8 * first);
  }
}

TEST(TrainingTest, MicroBatchesGiveTheSameStep) {
  TrainingSpec spec = Spec();
  spec.optimizer.momentum = 0.9;
  spec.optimizer.clip_norm = 0.1;
  Graph whole = BuildTrainGraph(Model(4), spec).value();
  spec.micro_batches = 4;
  Graph parts = BuildTrainGraph(Model(1), spec).value();
  ASSERT_TRUE(VerifyGraph(parts).ok()) << VerifyGraph(parts);
  State a = Initial(whole, 3), b = Initial(parts, 3);
  EXPECT_EQ(a, b);
  for (int step = 0; step < 3; ++step) {
    StepResult x = Step(whole, &a, step, 1);
    StepResult y = Step(parts, &b, step, 4);
    EXPECT_NEAR(x.loss, y.loss, 1e-5);
    EXPECT_EQ(x.weight, 4);
    EXPECT_EQ(y.weight, 4);
    EXPECT_EQ(x.correct, y.correct);
    EXPECT_NEAR(x.norm, y.norm, 1e-5);
    EXPECT_GT(x.norm, 0.1);  // so that clipping does something
    ExpectNear(a, b, 1e-5);
  }
}

TEST(TrainingTest, ClippingBoundsTheUpdate) {
  TrainingSpec spec = Spec();
  spec.optimizer.schedule.base = 1;
  spec.optimizer.clip_norm = 0.01;
  Graph train = BuildTrainGraph(Model(4), spec).value();
  State before = Initial(train, 5);
  State after = before;
  Step(train, &after, 0);
  double sum = 0;
  for (const auto& [name, value] : before) {
    std::vector<double> x = value.ToDoubles(), y = after.at(name).ToDoubles();
    for (size_t i = 0; i < x.size(); ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);
  }
  EXPECT_NEAR(std::sqrt(sum), 0.01, 1e-5);
}

TEST(TrainingTest, DecayCanLeaveParametersOut) {
  TrainingSpec spec = Spec();
  spec.optimizer.weight_decay = 0.25;
  spec.optimizer.decay_exclude = "bias|fc2";
  Graph train = BuildTrainGraph(Model(4), spec).value();
  auto decay = [&](const char* name) {
    return train.View(*train.FindNode(name)).Float("weight_decay");
  };
  EXPECT_EQ(decay("fc1/weight/update"), 0.25);
  EXPECT_EQ(decay("fc1/bias/update"), 0);
  EXPECT_EQ(decay("fc2/weight/update"), 0);
  spec.optimizer.decay_exclude = "(";
  EXPECT_TRUE(
      IsError(BuildTrainGraph(Model(4), spec).status(), ErrorCode::kBadValue));
}

TEST(TrainingTest, SchedulesReachTheOptimizer) {
  TrainingSpec spec = Spec();
  spec.optimizer.schedule.kind = "cosine";
  spec.optimizer.schedule.base = 0.4;
  spec.optimizer.schedule.warmup_steps = 2;
  spec.optimizer.schedule.total_steps = 10;
  Graph train = BuildTrainGraph(Model(4), spec).value();
  State state = Initial(train, 1);
  EXPECT_NEAR(Step(train, &state, 0).learning_rate, 0.2, 1e-6);
  EXPECT_NEAR(Step(train, &state, 1).learning_rate, 0.4, 1e-6);
  EXPECT_LT(Step(train, &state, 9).learning_rate, 0.05);
}

TEST(TrainingTest, EvaluationCountsPaddingAsNothing) {
  Graph eval = BuildEvalGraph(Model(4), Spec()).value();
  ASSERT_TRUE(VerifyGraph(eval).ok()) << VerifyGraph(eval);
  Graph train = BuildTrainGraph(Model(4), Spec()).value();
  Feeds feeds;
  for (const auto& [name, value] : Initial(train, 1)) feeds[name] = {value};
  auto run = [&](int64_t padding) {
    feeds["data/eval"] = Batch(0, 4, padding);
    return Interpret(eval, feeds).value().outputs;
  };
  auto full = run(0), padded = run(3);
  EXPECT_EQ(full.at("weight")[0].ToDoubles()[0], 4);
  EXPECT_EQ(padded.at("weight")[0].ToDoubles()[0], 1);
  EXPECT_LT(padded.at("loss")[0].ToDoubles()[0],
            full.at("loss")[0].ToDoubles()[0]);
  EXPECT_LE(padded.at("correct")[0].ToDoubles()[0], 1);
}

TEST(TrainingTest, SaveAndLoadAreInverse) {
  TrainingSpec spec = Spec();
  spec.optimizer.momentum = 0.5;
  Graph train = BuildTrainGraph(Model(4), spec).value();
  State state = Initial(train, 1);
  Step(train, &state, 0);
  Feeds feeds;
  for (const auto& [name, value] : state) feeds[name] = {value};
  Graph save = BuildSaveGraph(train).value();
  InterpretResult saved = Interpret(save, feeds).value();
  EXPECT_EQ(saved.outputs.size(), state.size());
  EXPECT_EQ(state.count("fc1/weight/velocity"), 1u);

  Graph load = BuildLoadGraph(train).value();
  ASSERT_TRUE(VerifyGraph(load).ok()) << VerifyGraph(load);
  Feeds files;
  for (const auto& [name, value] : state) {
    files[name] = {Literal::Splat(value.type(), -1)};
    files["load/" + name] = {saved.outputs.at("save/" + name)[0]};
  }
  EXPECT_EQ(Interpret(load, files).value().variables, state);
}

TEST(TrainingTest, DropoutAndBatchNormTrain) {
  TrainingSpec spec = Spec();
  spec.data.image = Shape({1, 10, 10});
  models::ModelArgs args = {{"channels", "2"},
                            {"hidden", "4"},
                            {"dropout", "0.5"},
                            {"batch_norm", "1"}};
  for (int micro : {1, 2}) {
    spec.micro_batches = micro;
    Graph model =
        models::BuildModel("lenet", args, {4 / micro, spec.data.image, 3})
            .value();
    Graph train = BuildTrainGraph(model, spec).value();
    ASSERT_TRUE(VerifyGraph(train).ok()) << VerifyGraph(train);
    EXPECT_NE(train.FindNode("norm1/scale/update"), nullptr);
    int updates = 0;
    for (const Node* node : train.Nodes())
      updates += node->Is(OpId::kEmaUpdate);
    EXPECT_EQ(updates, 2);
    Graph eval = BuildEvalGraph(model, spec).value();
    ASSERT_TRUE(VerifyGraph(eval).ok()) << VerifyGraph(eval);
  }
}

// Master weights, their gradients and updates stay f32; the loss falls as in
// f32.
TEST(TrainingTest, ProductsInBf16Train) {
  TrainingSpec spec = Spec();
  Graph f32 = BuildTrainGraph(Model(4), spec).value();
  spec.compute = DType::kBF16;
  Graph bf16 = BuildTrainGraph(Model(4), spec).value();
  ASSERT_TRUE(VerifyGraph(bf16).ok()) << VerifyGraph(bf16);
  int products = 0;
  for (const Node* node : bf16.Nodes()) {
    if (node->Is(OpId::kGemm)) {
      EXPECT_EQ(node->output_type(0).dtype, DType::kBF16) << node->name();
      ++products;
    }
    if (node->schema().effect != OpEffect::kUpdate) continue;
    for (Value v : node->inputs()) {
      EXPECT_NE(bf16.type(v).dtype, DType::kBF16) << node->name();
    }
  }
  EXPECT_GT(products, 4);
  State states[2] = {Initial(f32, 1), Initial(bf16, 1)};
  for (int step = 0; step < 5; ++step) {
    const float exact = Step(f32, &states[0], step).loss;
    const float near = Step(bf16, &states[1], step).loss;
    EXPECT_NEAR(near, exact, 0.02 * exact + 0.01) << step;
  }
}

// In f32, where it can be exact: powers of two.
TEST(TrainingTest, ALossScaleChangesNoStep) {
  TrainingSpec spec = Spec();
  spec.optimizer.momentum = 0.9;
  spec.optimizer.clip_norm = 0.1;
  Graph plain = BuildTrainGraph(Model(4), spec).value();
  spec.loss_scale.kind = LossScaleSpec::Kind::kFixed;
  spec.loss_scale.value = 1024;
  Graph fixed = BuildTrainGraph(Model(4), spec).value();
  EXPECT_EQ(fixed.FindNode("output/loss_scale"), nullptr);
  spec.loss_scale.kind = LossScaleSpec::Kind::kDynamic;
  Graph dynamic = BuildTrainGraph(Model(4), spec).value();
  State a = Initial(plain, 3), b = Initial(fixed, 3), c = Initial(dynamic, 3);
  for (int step = 0; step < 3; ++step) {
    const StepResult x = Step(plain, &a, step);
    const StepResult y = Step(fixed, &b, step);
    const StepResult z = Step(dynamic, &c, step);
    EXPECT_EQ(y.loss, x.loss);
    EXPECT_EQ(z.loss, x.loss);
    EXPECT_FLOAT_EQ(y.norm, x.norm);
    EXPECT_FLOAT_EQ(z.norm, x.norm);
    EXPECT_EQ(z.loss_scale, 1024);
    EXPECT_EQ(z.skipped, 0);
    EXPECT_EQ(c.at("loss_scale/good_steps").ToDoubles()[0], step + 1);
    ExpectNear(a, b, 1e-7);
    State parameters = c;
    for (const char* name :
         {"loss_scale", "loss_scale/good_steps", "loss_scale/skipped_steps"}) {
      parameters.erase(name);
    }
    ExpectNear(a, parameters, 1e-7);
  }
}

TrainingSpec HalfSpec() {
  TrainingSpec spec = Spec();
  spec.compute = DType::kF16;
  spec.loss_scale.kind = LossScaleSpec::Kind::kDynamic;
  return spec;
}

TEST(TrainingTest, ProductsInF16TrainAsInF32) {
  Graph f32 = BuildTrainGraph(Model(4), Spec()).value();
  Graph f16 = BuildTrainGraph(Model(4), HalfSpec()).value();
  ASSERT_TRUE(VerifyGraph(f16).ok()) << VerifyGraph(f16);
  int products = 0;
  for (const Node* node : f16.Nodes()) {
    if (!node->Is(OpId::kGemm)) continue;
    EXPECT_EQ(node->output_type(0).dtype, DType::kF16) << node->name();
    ++products;
  }
  EXPECT_GT(products, 4);
  State states[2] = {Initial(f32, 1), Initial(f16, 1)};
  for (int step = 0; step < 5; ++step) {
    const StepResult exact = Step(f32, &states[0], step);
    const StepResult near = Step(f16, &states[1], step);
    EXPECT_NEAR(near.loss, exact.loss, 0.003 * exact.loss) << step;
    EXPECT_EQ(near.skipped, 0);
  }
}

TEST(TrainingTest, AStepThatOverflowsIsSkippedAndHalvesTheScale) {
  TrainingSpec spec = HalfSpec();
  spec.loss_scale.value = 16 * 65536;  // too much for f16
  spec.loss_scale.growth_interval = 2;
  spec.optimizer.momentum = 0.9;
  spec.optimizer.weight_decay = 0.1;
  Graph train = BuildTrainGraph(Model(4), spec).value();
  State state = Initial(train, 1);
  double scale = spec.loss_scale.value;
  int skipped = 0;
  for (int step = 0; skipped == step && step < 12; ++step) {
    const State before = state;
    const StepResult result = Step(train, &state, step);
    EXPECT_EQ(result.loss_scale, scale);
    if (std::isfinite(result.norm)) break;
    ++skipped;
    scale /= 2;
    EXPECT_EQ(result.skipped, skipped);
    for (const auto& [name, value] : before) {
      if (name.rfind("loss_scale", 0) == 0) continue;
      EXPECT_EQ(state.at(name), value) << name;
    }
    EXPECT_EQ(state.at("loss_scale").ToDoubles()[0], scale);
    EXPECT_EQ(state.at("loss_scale/good_steps").ToDoubles()[0], 0);
  }
  EXPECT_GT(skipped, 0);
  EXPECT_LT(skipped, 12);
  // After two good steps a larger one is tried.
  state["loss_scale"] = Literal::Scalar<float>(1024);
  for (double good_steps : {0.0, 1.0}) {
    Step(train, &state, 20);
    EXPECT_EQ(state.at("loss_scale").ToDoubles()[0], 2048);
    EXPECT_EQ(state.at("loss_scale/good_steps").ToDoubles()[0], good_steps);
  }
  EXPECT_EQ(state.at("loss_scale/skipped_steps").ToDoubles()[0], skipped);
}

// Nor does it reach the running statistics, in whose averages an infinity would
// stay for ever.
TEST(TrainingTest, AStepThatOverflowsLeavesRunningStatisticsAlone) {
  TrainingSpec spec = HalfSpec();
  spec.data.image = Shape({1, 10, 10});
  const models::ModelArgs args = {
      {"channels", "2"}, {"hidden", "4"}, {"batch_norm", "1"}};
  for (int micro : {1, 2}) {
    spec.micro_batches = micro;
    spec.loss_scale.value = 1e30;
    Graph model =
        models::BuildModel("lenet", args, {4 / micro, spec.data.image, 3})
            .value();
    Graph train = BuildTrainGraph(model, spec).value();
    ASSERT_TRUE(VerifyGraph(train).ok()) << VerifyGraph(train);
    State state = Initial(train, 1);
    const State before = state;
    EXPECT_EQ(Step(train, &state, 0, micro, spec.data.image).skipped, 1);
    for (const char* name : {"norm1/running_mean", "norm1/running_var"}) {
      EXPECT_EQ(state.at(name), before.at(name)) << name;
    }
    // The same step at a scale that fits averages them, as without a scale.
    state["loss_scale"] = Literal::Scalar<float>(16);
    EXPECT_EQ(Step(train, &state, 0, micro, spec.data.image).skipped, 1);
    spec.loss_scale.kind = LossScaleSpec::Kind::kNone;
    Graph plain = BuildTrainGraph(model, spec).value();
    spec.loss_scale.kind = LossScaleSpec::Kind::kDynamic;
    State other = Initial(plain, 1);
    Step(plain, &other, 0, micro, spec.data.image);
    for (const char* name : {"norm1/running_mean", "norm1/running_var"}) {
      EXPECT_FALSE(state.at(name) == before.at(name)) << name;
      EXPECT_EQ(state.at(name), other.at(name)) << name;
    }
  }
}

TEST(TrainingTest, ModelsThatDoNotFitAreNamed) {
  TrainingSpec spec = Spec();
  spec.data.classes = 7;
  absl::Status status = BuildTrainGraph(Model(4), spec).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kShapeMismatch));
  EXPECT_THAT(std::string(status.message()), HasSubstr("f32[4,3]"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("f32[4,7]"));
  spec = Spec();
  spec.data.image = Shape({3, 3});
  EXPECT_THAT(std::string(BuildEvalGraph(Model(4), spec).status().message()),
              HasSubstr("[4,3,3]"));
  EXPECT_TRUE(IsError(BuildTrainGraph(Graph("empty"), Spec()).status(),
                      ErrorCode::kBadGraph));
}

}  // namespace
}  // namespace weft::training
