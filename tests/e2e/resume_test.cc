// A run that was stopped and resumed, however often and wherever, ends as one
// that was not: same parameters, same optimizer state, same history.

#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/harness.h"

namespace weft::e2e {
namespace {

using ::testing::HasSubstr;

TrainOptions WithClock(const TestJob& job, const Sets& sets,
                       StoppingClock* clock) {
  TrainOptions options = job.Options(sets);
  options.progress = true;
  options.clock = clock;
  options.on_session = [clock](runtime::Session* session) {
    clock->SetSession(session);
  };
  return options;
}

TrainOptions Resuming(TrainOptions options, const std::string& path) {
  options.job_path = "";
  options.sets = {};
  options.resume = path;
  return options;
}

struct Variant {
  const char* name;
  bool lenet;
  Sets sets;
};

TEST(ResumeTest, StoppedAnywhereAndResumedIsNeverStopped) {
  const std::vector<Variant> variants = {
      {"mlp", false, {"model.builtin.args.dropout=0.25"}},
      {"mlp_adamw",
       false,
       {"optimizer.adamw.weight_decay=0.01", "logical_shards=4",
        "optimizer.schedule.cosine.base=0.01", "checkpoint.every_steps=4",
        "runtime.threads=2", "data.tail=DROP"}},
      // The scale falls, and grows again.
      {"mlp_f16",
       false,
       {"precision.compute=F16", "logical_shards=2",
        "precision.loss_scale.dynamic.init_scale=1e8",
        "precision.loss_scale.dynamic.growth_interval=3"}},
      {"lenet",
       true,
       {"model.builtin.args.dropout=0.25", "model.builtin.args.batch_norm=1",
        "runtime.register_copies=3"}},
  };
  for (const Variant& variant : variants) {
    SCOPED_TRACE(variant.name);
    TestJob job = variant.lenet ? TestJob(variant.name, Lenet(), LenetData())
                                : TestJob(variant.name, Mlp());
    absl::StatusOr<TrainResult> whole = job.Train(variant.sets);
    ASSERT_TRUE(whole.ok()) << whole.status();
    StoppingClock clock;
    clock.StopAt(0);  // before the first step
    TrainOptions options = WithClock(job, variant.sets, &clock);
    absl::StatusOr<TrainResult> part = Train(options);
    ASSERT_TRUE(part.ok()) << part.status();
    EXPECT_EQ(part->steps, 0u);
    EXPECT_TRUE(part->stopped);
    const std::string run = part->run_directory;
    int stops = 0;
    for (int n = 1; part->stopped; n += 2) {
      const uint64_t before = part->steps;
      clock.StopAt(n);
      part = Train(Resuming(options, run));
      ASSERT_TRUE(part.ok()) << part.status();
      EXPECT_GT(part->steps, before);
      EXPECT_EQ(part->run_directory, run);
      ++stops;
    }
    EXPECT_GE(stops, 3);
    EXPECT_EQ(part->steps, whole->steps);
    EXPECT_EQ(StateOf(run), StateOf(whole->run_directory));
    EXPECT_EQ(MetricsOf(run), MetricsOf(whole->run_directory));
    EXPECT_EQ(part->eval.loss, whole->eval.loss);
  }
}

TEST(ResumeTest, FromAnOlderCheckpointAndFromTheLast) {
  TestJob job("older", Mlp());
  absl::StatusOr<TrainResult> whole =
      job.Train({"checkpoint.every_steps=10", "checkpoint.keep=9"});
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::string run = whole->run_directory;
  const auto state = StateOf(run);
  const std::string metrics = MetricsOf(run);
  for (const char* from :
       {"ckpt/step_00000020", "ckpt/step_00000010", "ckpt", ""}) {
    SCOPED_TRACE(from);
    absl::StatusOr<TrainResult> again =
        Train(Resuming(job.Options(), JoinPath(run, from)));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->run_directory, run);
    EXPECT_EQ(StateOf(run), state);
    EXPECT_EQ(MetricsOf(run), metrics);
  }
}

// A run that ended before it had anything to keep.
TEST(ResumeTest, WithoutACheckpointARunStartsAgain) {
  TestJob job("empty", Mlp());
  absl::StatusOr<TrainResult> whole = job.Train();
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::string run = whole->run_directory;
  const auto state = StateOf(run);
  const std::string metrics = MetricsOf(run);
  ASSERT_TRUE(RealOs().RemoveAll(JoinPath(run, "ckpt")).ok());
  absl::StatusOr<TrainResult> again = Train(Resuming(job.Options(), run));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->run_directory, run);
  EXPECT_EQ(StateOf(run), state);
  EXPECT_EQ(MetricsOf(run), metrics);
}

TEST(ResumeTest, WhatIsNoRunIsRefusedAndLeftAlone) {
  TestJob job("refused", Mlp());
  const std::string nothing = job.File("nothing");
  for (bool with_job : {true, false}) {
    TrainOptions options = job.Options();
    if (!with_job) options.job_path = "";
    options.resume = nothing;
    absl::Status status = Train(options).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kCheckpointMissing)) << status;
    EXPECT_FALSE(RealOs().Exists(nothing));
  }
}

TEST(ResumeTest, AForeignCheckpointIsRefusedByName) {
  TestJob job("foreign", Mlp());
  absl::StatusOr<TrainResult> run = job.Train({"epochs=1"});
  ASSERT_TRUE(run.ok()) << run.status();
  const std::string job_text =
      ReadText(JoinPath(run->run_directory, "resolved_job.txtpb"));
  struct Case {
    const char* set;
    const char* text;
  };
  for (const Case& c : std::vector<Case>{
           {"seed=8", "seed 7, the job has 8"},
           {"batch_size=20", "batch_size 16, the job has 20"},
           {"data.shuffle=false", "shuffle"},
           {"model.builtin.args.hidden=12,9", "fc2/"},
           {"optimizer.adam.weight_decay=0", "of another model"}}) {
    SCOPED_TRACE(c.set);
    TrainOptions options = Resuming(job.Options(), run->run_directory);
    options.sets = {c.set};
    absl::Status status = Train(options).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kCheckpointForeign)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.text));
    // The run is as it was: it can still be resumed.
    EXPECT_EQ(ReadText(JoinPath(run->run_directory, "resolved_job.txtpb")),
              job_text);
  }
  absl::Status status =
      Train(Resuming(job.Options(), run->run_directory)).status();
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace weft::e2e
