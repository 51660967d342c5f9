// One job over different device plugins: ranks that compute other bits keep one
// state.

#include <cstdio>
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
using ::testing::Not;

constexpr char kUnlike[] = "devices=w0/cpu:0,w1/sim:0";

struct Ran {
  TrainResult result;
  std::string said;
};

Ran RunJob(const TestJob& job, uint32_t ranks, const Sets& sets) {
  TrainOptions options = job.Options(sets);
  options.virtual_ranks = ranks;
  const std::string talk = job.File("talk.txt");
  options.talk = std::fopen(talk.c_str(), "w");
  absl::StatusOr<TrainResult> result = Train(options);
  std::fclose(options.talk);
  EXPECT_TRUE(result.ok()) << result.status();
  return {result.ok() ? *result : TrainResult(), ReadText(talk)};
}

// Each save compares the state of all ranks, bit by bit.
TEST(UnlikeRanksTest, CpuAndSimTrainOneModel) {
  TestJob job("unlike", Mlp());
  const Sets sets = {"steps=12",
                     "epochs=0",
                     "checkpoint.every_steps=3",
                     "optimizer.clip_norm=0.5",
                     "model.builtin.args.hidden=32,8",
                     "eval.every_epochs=0"};
  const Ran one = RunJob(job, 1, [&] {
    Sets with = sets;
    with.push_back("micro_batches=2");
    return with;
  }());
  Sets unlike = sets;
  unlike.push_back(kUnlike);
  for (const char* zero : {"zero=0", "zero=2"}) {
    SCOPED_TRACE(zero);
    unlike.push_back(zero);
    const Ran two = RunJob(job, 2, unlike);
    EXPECT_EQ(two.result.steps, 12u);
    EXPECT_THAT(two.said, HasSubstr("ranks 0 (cpu, host processor"));
    EXPECT_THAT(two.said, HasSubstr("and 1 (sim, simulated device)"));
    EXPECT_THAT(two.said, HasSubstr("compute updates differently"));
    EXPECT_NEAR(two.result.final_loss, one.result.final_loss, 1e-4);
    // Other bits than of one rank: the devices are unlike indeed.
    EXPECT_FALSE(StateOf(two.result.run_directory) ==
                 StateOf(one.result.run_directory));
  }
  EXPECT_THAT(one.said, Not(HasSubstr("differently")));
}

// The state that updates by themselves would not keep equal: running statistics
// and the loss scale.
TEST(UnlikeRanksTest, RunningStatisticsAndLossScalesAreOne) {
  TestJob job("statistics", Lenet(), LenetData());
  const Ran two = RunJob(job, 2,
                         {"steps=3", "epochs=0", "checkpoint.every_steps=1",
                          kUnlike, "model.builtin.args.batch_norm=1",
                          "precision.loss_scale.dynamic.init_scale=1e4"});
  EXPECT_EQ(two.result.steps, 3u);
}

// Stages on unlike ranks keep no state together.
TEST(UnlikeRanksTest, StagesMayBeOnUnlikeRanks) {
  TestJob job("stages", Mlp());
  WriteText(job.File("job.txtpb"),
            absl::StrCat(ReadText(job.path()),
                         "placement { scope: \"fc2.*\" device: \"w1\" }\n"));
  const Ran two = RunJob(job, 2, {"steps=4", "epochs=0", kUnlike});
  EXPECT_EQ(two.result.steps, 4u);
  EXPECT_THAT(two.said, Not(HasSubstr("differently")));
}

TEST(UnlikeRanksTest, WhatCannotBeIsRefusedBeforeAnythingIsMade) {
  TestJob job("refused", Mlp());
  for (const auto& [sets, says] : std::vector<std::pair<Sets, std::string>>{
           {{"devices=w0/cpu:0,w2/sim:0"}, "w0 to w1"},
           {{"devices=w1/sim:0"}, "rank w0 has none"},
           {{kUnlike, "logical_shards=4"}, "logical_shards is 4"}}) {
    TrainOptions options = job.Options(sets);
    options.virtual_ranks = 2;
    absl::Status status = Train(options).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kBadJob)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(says));
  }
  EXPECT_TRUE(job.Runs().empty());
}

}  // namespace
}  // namespace weft::e2e
