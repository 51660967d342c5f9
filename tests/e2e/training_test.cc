// What a job must give whatever happens around it: the same bits for the same
// seed, and no difference that nobody asked for.

#include <cmath>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/harness.h"

namespace weft::e2e {
namespace {

struct Variant {
  const char* name;
  bool lenet;
  Sets sets;
};

const std::vector<Variant>& Variants() {
  static const auto* variants = new std::vector<Variant>{
      {"mlp", false, {}},
      {"mlp_adamw",
       false,
       {"optimizer.adamw.weight_decay=0.01", "optimizer.clip_norm=0.5",
        "loss.softmax_cross_entropy.label_smoothing=0.1",
        "optimizer.schedule.cosine.base=0.01"}},
      {"mlp_dropout", false, {"model.builtin.args.dropout=0.25"}},
      {"mlp_bf16", false, {"precision.compute=BF16"}},
      {"lenet", true, {}},
      {"lenet_dropout", true, {"model.builtin.args.dropout=0.25"}},
      {"lenet_batch_norm", true, {"model.builtin.args.batch_norm=1"}},
  };
  return *variants;
}

TestJob MakeJob(const Variant& variant) {
  return variant.lenet ? TestJob(variant.name, Lenet(), LenetData())
                       : TestJob(variant.name, Mlp());
}

Sets Plus(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

TEST(TrainingTest, LearnsAndReportsItsStart) {
  TestJob job("learns", Mlp());
  TrainOptions options = job.Options();
  options.started_ns = RealClock().MonotonicNs();
  absl::StatusOr<TrainResult> result = Train(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->steps, 38u);  // 3 x 200 / 16, rounded up
  EXPECT_GT(result->eval.accuracy, 0.9);
  EXPECT_EQ(result->eval.samples, 103);
  EXPECT_GT(result->inflate_seconds, 0);
  EXPECT_GT(result->first_step_seconds, result->inflate_seconds);
  EXPECT_FALSE(result->stopped);
}

TEST(TrainingTest, SameSeedSameBitsOtherSeedOtherBits) {
  for (const Variant& variant : Variants()) {
    SCOPED_TRACE(variant.name);
    TestJob job = MakeJob(variant);
    absl::StatusOr<TrainResult> a = job.Train(variant.sets);
    ASSERT_TRUE(a.ok()) << a.status();
    absl::StatusOr<TrainResult> b = job.Train(variant.sets);
    ASSERT_TRUE(b.ok()) << b.status();
    absl::StatusOr<TrainResult> c = job.Train(Plus(variant.sets, {"seed=8"}));
    ASSERT_TRUE(c.ok()) << c.status();
    EXPECT_EQ(StateOf(a->run_directory), StateOf(b->run_directory));
    EXPECT_EQ(MetricsOf(a->run_directory), MetricsOf(b->run_directory));
    auto other = StateOf(c->run_directory);
    for (const auto& [name, bytes] : StateOf(a->run_directory)) {
      EXPECT_NE(bytes, other.at(name)) << name;
    }
    EXPECT_NE(MetricsOf(a->run_directory), MetricsOf(c->run_directory));
  }
}

TEST(TrainingTest, TheResolvedJobRepeatsTheRun) {
  for (const Variant& variant : Variants()) {
    SCOPED_TRACE(variant.name);
    TestJob job = MakeJob(variant);
    absl::StatusOr<TrainResult> run =
        job.Train(Plus(variant.sets, {"epochs=1"}));
    ASSERT_TRUE(run.ok()) << run.status();
    const std::string file = JoinPath(run->run_directory, "resolved_job.txtpb");
    TrainOptions options = job.Options();
    options.job_path = file;
    absl::StatusOr<TrainResult> again = Train(options);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_NE(again->run_directory, run->run_directory);
    EXPECT_EQ(StateOf(again->run_directory), StateOf(run->run_directory));
    EXPECT_EQ(MetricsOf(again->run_directory), MetricsOf(run->run_directory));
    EXPECT_EQ(ReadText(JoinPath(again->run_directory, "resolved_job.txtpb")),
              ReadText(file));
  }
}

// With logical shards the sum over a step is a tree of fixed shape: nothing of
// how the work was spread may reach the bits.
TEST(TrainingTest, SameBitsHoweverTheWorkIsSpread) {
  for (const Variant& variant : Variants()) {
    SCOPED_TRACE(variant.name);
    TestJob job = MakeJob(variant);
    const Sets base =
        Plus(variant.sets, {"logical_shards=8", "epochs=0", "steps=9"});
    absl::StatusOr<TrainResult> plain = job.Train(base);
    ASSERT_TRUE(plain.ok()) << plain.status();
    const auto state = StateOf(plain->run_directory);
    auto expect_same = [&](const Sets& sets, uint64_t order) {
      SCOPED_TRACE(sets.empty() ? "launch order" : sets[0]);
      SCOPED_TRACE(order);
      TrainOptions options = job.Options(Plus(base, sets));
      options.launch_order_seed = order;
      absl::StatusOr<TrainResult> result = Train(options);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(StateOf(result->run_directory), state);
      EXPECT_EQ(MetricsOf(result->run_directory),
                MetricsOf(plain->run_directory));
    };
    for (int threads : {2, 3, 4}) {
      expect_same({absl::StrCat("runtime.threads=", threads)}, 0);
    }
    for (int copies : {1, 2, 3, 4}) {
      expect_same({absl::StrCat("runtime.register_copies=", copies)}, 0);
    }
    for (int order : {1, 2, 3, 4, 5}) expect_same({}, order);
    expect_same({"runtime.threads=3", "runtime.register_copies=3"}, 7);
  }
}

TEST(TrainingTest, Bf16KeepsF32WeightsAndLearnsAsWell) {
  TestJob job("bf16", Mlp());
  absl::StatusOr<TrainResult> f32 = job.Train();
  ASSERT_TRUE(f32.ok()) << f32.status();
  absl::StatusOr<TrainResult> bf16 = job.Train({"precision.compute=BF16"});
  ASSERT_TRUE(bf16.ok()) << bf16.status();
  EXPECT_NEAR(bf16->eval.accuracy, f32->eval.accuracy, 0.03);
  auto exact = StateOf(f32->run_directory);
  auto near = StateOf(bf16->run_directory);
  ASSERT_EQ(near.size(), exact.size());
  for (const auto& [name, bytes] : near) {
    EXPECT_EQ(exact.count(name), 1u) << name;  // the type is in the name
  }
  EXPECT_NE(near, exact);
}

// The training steps of metrics.jsonl, one object each.
std::vector<nlohmann::json> StepsOf(const TrainResult& result) {
  std::vector<nlohmann::json> steps;
  std::istringstream lines(MetricsOf(result.run_directory));
  for (std::string line; std::getline(lines, line);) {
    nlohmann::json record = nlohmann::json::parse(line);
    if (record.contains("loss")) steps.push_back(std::move(record));
  }
  return steps;
}

TEST(TrainingTest, F16LearnsAsWellWithALossScale) {
  TestJob job("f16", Mlp());
  absl::StatusOr<TrainResult> f32 = job.Train();
  ASSERT_TRUE(f32.ok()) << f32.status();
  EXPECT_FALSE(StepsOf(*f32).back().contains("loss_scale"));
  absl::StatusOr<TrainResult> f16 = job.Train({"precision.compute=F16"});
  ASSERT_TRUE(f16.ok()) << f16.status();
  EXPECT_NEAR(f16->final_loss, f32->final_loss, 0.01);
  EXPECT_NEAR(f16->eval.accuracy, f32->eval.accuracy, 0.02);
}

// A scale that f16 cannot hold: steps are skipped until it fits.
TEST(TrainingTest, StepsThatOverflowAreSkipped) {
  TestJob job("overflow", Mlp());
  absl::StatusOr<TrainResult> result =
      job.Train({"precision.compute=F16",
                 "precision.loss_scale.dynamic.init_scale=1073741824"});
  ASSERT_TRUE(result.ok()) << result.status();
  const std::vector<nlohmann::json> steps = StepsOf(*result);
  ASSERT_EQ(steps.size(), 38u);
  double scale = 1 << 30;
  int skipped = 0;
  for (const nlohmann::json& step : steps) {
    EXPECT_EQ(step["loss_scale"], scale);
    if (step["grad_norm"].is_null()) {
      ++skipped;
      scale /= 2;
    }
    EXPECT_EQ(step["skipped_steps"], skipped);
  }
  EXPECT_GT(skipped, 4);
  EXPECT_LT(skipped, 30);
  EXPECT_LT(result->final_loss, 0.8 * steps[0]["loss"].get<double>());
}

// Its statistics, too, are not averaged into the running ones.
TEST(TrainingTest, AStepThatOverflowsLeavesRunningStatisticsAlone) {
  TestJob job("statistics", Lenet(), LenetData());
  const Sets sets = {"precision.compute=F16", "model.builtin.args.batch_norm=1",
                     "epochs=0", "steps=1"};
  auto train = [&](const char* scale) {
    const Sets more = {
        absl::StrCat("precision.loss_scale.dynamic.init_scale=", scale)};
    absl::StatusOr<TrainResult> result = job.Train(Plus(sets, more));
    EXPECT_TRUE(result.ok()) << result.status();
    return *result;
  };
  const TrainResult skipped = train("1e30"), taken = train("16");
  EXPECT_EQ(StepsOf(skipped).at(0)["skipped_steps"], 1);
  EXPECT_EQ(StepsOf(taken).at(0)["skipped_steps"], 0);
  const auto same = StateOf(skipped.run_directory);
  const auto moved = StateOf(taken.run_directory);
  int statistics = 0;
  for (const auto& [name, bytes] : same) {
    if (name.find("/running_") == std::string::npos) continue;
    ++statistics;
    EXPECT_NE(moved.at(name), bytes) << name;
    if (name.find("/running_mean") == std::string::npos) continue;
    EXPECT_EQ(bytes, std::string(bytes.size(), '\0')) << name;  // as it began
  }
  EXPECT_GE(statistics, 2);
}

// What no scale cures is an error as ever, once the scale has fallen to 1.
TEST(TrainingTest, ALossThatIsNotFiniteEndsADynamicScaleToo) {
  TestJob job("hopeless", Mlp());
  const Sets sets = {"precision.loss_scale.dynamic.init_scale=4",
                     "optimizer.schedule.constant.base=1e30"};
  absl::StatusOr<TrainResult> result = job.Train(sets);
  EXPECT_TRUE(IsError(result.status(), ErrorCode::kNotFinite))
      << result.status();
}

TEST(TrainingTest, EvaluationDoesNotTouchTraining) {
  for (const Variant& variant : Variants()) {
    SCOPED_TRACE(variant.name);
    TestJob job = MakeJob(variant);
    absl::StatusOr<TrainResult> often = job.Train(variant.sets);
    ASSERT_TRUE(often.ok()) << often.status();
    absl::StatusOr<TrainResult> once =
        job.Train(Plus(variant.sets, {"eval.every_epochs=0"}));
    ASSERT_TRUE(once.ok()) << once.status();
    EXPECT_EQ(StateOf(often->run_directory), StateOf(once->run_directory));
    EXPECT_EQ(often->eval.accuracy, once->eval.accuracy);
    EXPECT_EQ(often->eval.loss, once->eval.loss);
    EXPECT_NE(MetricsOf(often->run_directory), MetricsOf(once->run_directory));
  }
}

// One state under five programs: what `load` puts there and `eval` reads is
// what training left and `save` wrote.
TEST(TrainingTest, ACheckpointEvaluatesAsTrainingSaid) {
  for (const Variant& variant : Variants()) {
    SCOPED_TRACE(variant.name);
    TestJob job = MakeJob(variant);
    absl::StatusOr<TrainResult> trained = job.Train(variant.sets);
    ASSERT_TRUE(trained.ok()) << trained.status();
    TrainOptions options = job.Options();
    options.job_path = "";
    options.sets = {};
    options.resume = trained->run_directory;
    absl::StatusOr<EvalResult> eval = Evaluate(options);
    ASSERT_TRUE(eval.ok()) << eval.status();
    EXPECT_EQ(eval->accuracy, trained->eval.accuracy);
    EXPECT_EQ(eval->loss, trained->eval.loss);
    EXPECT_EQ(eval->samples, trained->eval.samples);
  }
}

TEST(TrainingTest, EvalThroughTheBinary) {
  TestJob job("binary", Mlp());
  Ended train = job.Weft({"train", "job.txtpb", "--json"}).Wait();
  ASSERT_EQ(train.exit_code, 0) << train.err;
  auto trained = nlohmann::json::parse(train.out, nullptr, false);
  ASSERT_TRUE(trained.is_object()) << train.out;
  EXPECT_GT(trained["first_step_seconds"], trained["inflate_seconds"]);
  EXPECT_GT(trained["inflate_seconds"], 0);
  ASSERT_EQ(job.Runs().size(), 1u);
  Ended eval = job.Weft({"eval", job.Runs()[0], "--json"}).Wait();
  ASSERT_EQ(eval.exit_code, 0) << eval.err;
  auto evaluated = nlohmann::json::parse(eval.out, nullptr, false);
  ASSERT_TRUE(evaluated.is_object()) << eval.out;
  EXPECT_EQ(evaluated["accuracy"], trained["eval_accuracy"]);
  EXPECT_EQ(evaluated["loss"], trained["eval_loss"]);
}

}  // namespace
}  // namespace weft::e2e
