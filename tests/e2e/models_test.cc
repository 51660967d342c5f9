// The models of the library as jobs: a language model on text, a residual
// network on images.

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/base/error.h"
#include "core/base/os.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/harness.h"
#include "tools/weft/trainer.h"

namespace weft::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Sentences of few words: what comes next can be learnt.
std::string Sentences(int count) {
  const char* words[] = {"a cat", "the dog", "my bird", "no fish"};
  std::string text;
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&text, words[i * i % 4], " sees ", words[(i * 7 + 1) % 4],
                    ".\n");
  }
  return text;
}

TestJob TextJob(const std::string& name) {
  TestJob job(name, Mlp());
  WriteText(job.File("text"), Sentences(60));
  WriteText(job.path(), R"(name: "job"
model { builtin { name: "gpt"
  args { key: "layers" value: "1" }
  args { key: "width" value: "16" }
  args { key: "heads" value: "2" } } }
data { train { text { path: "text" context: 12 eval_fraction: 0.1 } } }
optimizer {
  adamw { weight_decay: 0.01 decay_exclude: "bias|norm|embedding" }
  clip_norm: 1
  schedule { constant { base: 0.01 } } }
batch_size: 8
steps: 10
seed: 7
runtime { threads: 1 }
)");
  return job;
}

struct TextVariant {
  const char* name;
  Sets sets;
};

std::vector<TextVariant> TextVariants() {
  return {{"bytes", {}},
          {"pieces",
           {"data.train.text.bpe.size=280", "data.train.text.stride=5",
            "model.builtin.args.dropout=0.1", "micro_batches=2"}},
          {"untied",
           {"model.builtin.args.tied=0", "model.builtin.args.context=20",
            "data.shuffle=false", "data.tail=DROP"}}};
}

TEST(TextJobTest, LearnsWhatComesNext) {
  TestJob job = TextJob("learns");
  absl::StatusOr<TrainResult> run = job.Train({"steps=120"});
  ASSERT_TRUE(run.ok()) << run.status();
  const std::string metrics = MetricsOf(run->run_directory);
  EXPECT_THAT(metrics, HasSubstr("{\"step\":1,"));
  EXPECT_THAT(metrics, HasSubstr("\"perplexity\":2"));  // of 256 bytes
  EXPECT_THAT(metrics, HasSubstr("\"eval_bits_per_byte\":"));
  EXPECT_THAT(metrics, Not(HasSubstr("accuracy")));
  EXPECT_LT(run->final_loss, 0.7);
  EXPECT_LT(run->eval.loss, 0.7);
  EXPECT_DOUBLE_EQ(run->eval.perplexity, std::exp(run->eval.loss));
  // A token is a byte here.
  EXPECT_NEAR(run->eval.bits_per_byte, run->eval.loss / std::log(2.0), 1e-12);
}

TEST(TextJobTest, WhatIsComputedAgainChangesNoBits) {
  TestJob job = TextJob("again");
  for (const Sets& more :
       {Sets{}, Sets{"precision.compute=BF16", "micro_batches=2"}}) {
    SCOPED_TRACE(absl::StrJoin(more, ", "));
    Sets sets = {"model.builtin.args.layers=3", "model.builtin.args.width=32",
                 "data.train.text.context=40", "batch_size=24", "steps=3"};
    sets.insert(sets.end(), more.begin(), more.end());
    absl::StatusOr<TrainResult> kept = job.Train(sets);
    ASSERT_TRUE(kept.ok()) << kept.status();
    sets.push_back("runtime.recompute=100");
    absl::StatusOr<TrainResult> again = job.Train(sets);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(StateOf(again->run_directory), StateOf(kept->run_directory));
    std::vector<std::string> show = {"plan", "show", job.path()};
    for (const std::string& set : sets) {
      show.push_back("--set");
      show.push_back(set);
    }
    EXPECT_THAT(job.Weft(show).Wait().out, HasSubstr("/again"));
  }
}

TEST(TextJobTest, EvaluationCountsEveryTokenOnce) {
  TestJob job = TextJob("exact");
  const size_t bytes = Sentences(60).size();
  const size_t kept = static_cast<size_t>(bytes * (1 - double{0.1f}));
  std::vector<EvalResult> results;
  for (const char* batch : {"batch_size=1", "batch_size=4", "batch_size=9"}) {
    absl::StatusOr<TrainResult> run =
        job.Train({"steps=1", "optimizer.schedule.constant.base=1e-30", batch});
    ASSERT_TRUE(run.ok()) << run.status();
    results.push_back(run->eval);
  }
  for (const EvalResult& r : results) {
    EXPECT_EQ(r.samples, bytes - kept - 1);
    EXPECT_NEAR(r.loss, results[0].loss, 1e-5);
  }
  // The same model on the same text as an explicit one.
  WriteText(job.File("end"), Sentences(60).substr(kept));
  WriteText(job.File("start"), Sentences(60).substr(0, kept));
  absl::StatusOr<TrainResult> own =
      job.Train({"steps=1", "optimizer.schedule.constant.base=1e-30",
                 "batch_size=4", "data.train.text.eval_fraction=0",
                 "data.train.text.path=start", "data.eval.text.path=end"});
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->eval.loss, results[1].loss);
  EXPECT_EQ(own->eval.samples, results[1].samples);
}

TEST(TextJobTest, ResumingGivesTheSameBits) {
  for (const TextVariant& variant : TextVariants()) {
    SCOPED_TRACE(variant.name);
    TestJob job = TextJob(absl::StrCat("resume_", variant.name));
    Sets sets = variant.sets;
    sets.push_back("checkpoint.every_steps=6");
    absl::StatusOr<TrainResult> whole = job.Train(sets);
    ASSERT_TRUE(whole.ok()) << whole.status();
    const std::string run = whole->run_directory;
    const auto state = StateOf(run);
    const std::string metrics = MetricsOf(run);
    TrainOptions options = job.Options();
    options.job_path = "";
    options.resume = JoinPath(run, "ckpt/step_00000006");
    absl::StatusOr<TrainResult> again = Train(options);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->steps, 10u);
    EXPECT_EQ(StateOf(run), state);
    EXPECT_EQ(MetricsOf(run), metrics);
    options.resume = run;
    absl::StatusOr<EvalResult> eval = Evaluate(options);
    ASSERT_TRUE(eval.ok()) << eval.status();
    EXPECT_EQ(eval->loss, whole->eval.loss);
    EXPECT_EQ(eval->bits_per_byte, whole->eval.bits_per_byte);
  }
}

TEST(TextJobTest, AnotherTextIsAnotherRun) {
  TestJob job = TextJob("foreign");
  absl::StatusOr<TrainResult> run = job.Train({"steps=2"});
  ASSERT_TRUE(run.ok()) << run.status();
  TrainOptions options = job.Options({"steps=4"});
  options.job_path = "";
  options.resume = run->run_directory;
  for (const char* set :
       {"data.train.text.stride=3", "data.train.text.eval_fraction=0.2"}) {
    options.sets = {"steps=4", set};
    absl::Status status = Train(options).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kCheckpointForeign)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("training data"));
  }
  options.sets = {"steps=4"};
  WriteText(job.File("text"), Sentences(61));
  absl::Status status = Train(options).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kCheckpointForeign)) << status;
}

double LargestDifference(const std::string& a, const std::string& b) {
  double difference = 0;
  for (size_t i = 0; i + 4 <= a.size(); i += 4) {
    float x, y;
    std::memcpy(&x, &a[i], 4);
    std::memcpy(&y, &b[i], 4);
    if (!(std::fabs(x - y) <= difference)) difference = std::fabs(x - y);
  }
  return difference;
}

TEST(TextJobTest, DevicesAgree) {
  for (const TextVariant& variant : TextVariants()) {
    SCOPED_TRACE(variant.name);
    TestJob job = TextJob(absl::StrCat("devices_", variant.name));
    auto train = [&](const std::string& device) {
      Sets sets = variant.sets;
      sets.push_back("devices=" + device);
      sets.push_back("steps=3");
      return job.Train(sets);
    };
    absl::StatusOr<TrainResult> cpu = train("cpu");
    ASSERT_TRUE(cpu.ok()) << cpu.status();
    absl::StatusOr<TrainResult> t0 = train("sim:0?tier=T0");
    ASSERT_TRUE(t0.ok()) << t0.status();
    auto expected = StateOf(cpu->run_directory);
    EXPECT_EQ(StateOf(t0->run_directory), expected);
    EXPECT_EQ(MetricsOf(t0->run_directory), MetricsOf(cpu->run_directory));
    if (!variant.sets.empty()) continue;
    // Adam moves a weight whose gradient is nearly 0 by the learning rate in
    // one direction or the other; three steps are 0.03 in all.
    absl::StatusOr<TrainResult> t1 = train("sim:0?tier=T1");
    ASSERT_TRUE(t1.ok()) << t1.status();
    auto got = StateOf(t1->run_directory);
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [name, bytes] : expected) {
      EXPECT_LE(LargestDifference(bytes, got[name]), 1e-2) << name;
    }
    EXPECT_NEAR(t1->eval.loss, cpu->eval.loss, 1e-3);
  }
}

std::string Resnet() {
  return R"(builtin { name: "resnet18" args { key: "width" value: "4" } })";
}

TEST(ResnetJobTest, LearnsResumesAndAgrees) {
  TestJob job("resnet", Resnet(), {96, 4, 12, 1});
  const Sets sets = {"epochs=5", "checkpoint.every_steps=10",
                     "checkpoint.keep=9"};
  absl::StatusOr<TrainResult> run = job.Train(sets);
  ASSERT_TRUE(run.ok()) << run.status();
  // 0.25 and ln 4 = 1.39 without learning; the running statistics serve too.
  EXPECT_GT(run->eval.accuracy, 0.75);
  EXPECT_LT(run->eval.loss, 0.8);
  const auto state = StateOf(run->run_directory);
  TrainOptions options = job.Options();
  options.job_path = "";
  options.resume = JoinPath(run->run_directory, "ckpt/step_00000020");
  absl::StatusOr<TrainResult> again = Train(options);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(StateOf(run->run_directory), state);
  Sets sim = sets;
  sim.push_back("devices=sim:0?tier=T0");
  absl::StatusOr<TrainResult> t0 = job.Train(sim);
  ASSERT_TRUE(t0.ok()) << t0.status();
  EXPECT_EQ(StateOf(t0->run_directory), state);
}

}  // namespace
}  // namespace weft::e2e
