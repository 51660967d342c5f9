// What is well formed and still cannot be done: memory and files that the
// system refuses, a run resumed as another, flags that do not go together.

#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/os.h"
#include "core/plan/plan.h"
#include "core/plan/plan_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/host/services.h"
#include "tests/e2e/harness.h"
#include "tests/fault/case.h"

namespace weft::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A run that had begun says how it ended, whoever got no memory.
void ExpectItsFailureIsKept(const TestJob& job, const Ended& end) {
  if (end.exit_code == 0) return;
  for (const std::string& run : job.Runs()) {
    EXPECT_THAT(ReadText(JoinPath(run, "errors/rank_00000.json")),
                HasSubstr("\"exit_code\": " + std::to_string(end.exit_code)));
  }
}

// Patterns that make an engine that backtracks try for ever.
TEST(RefusalTest, PatternsThatNest) {
  TestJob job("patterns", Mlp());
  const std::string nested = "(((a*)*)*)*(((.*)*)*)*e";
  Ended end = job.Weft({"train", "job.txtpb", "--quiet", "--dump-to", "dumps",
                        "--dump-passes", nested, "--set",
                        "optimizer.sgd.decay_exclude=" + nested})
                  .Wait();
  EXPECT_EQ(end.exit_code, 0) << end.err;
}

TEST(RefusalTest, ResumingAsAnotherJob) {
  TestJob job("resumed", Mlp());
  ASSERT_EQ(job.Weft(Train({"epochs=1"})).Wait().exit_code, 0);
  const std::string run = job.Runs()[0];
  const std::string before = ReadText(JoinPath(run, "resolved_job.txtpb"));
  auto resume = [&](const Sets& sets) {
    std::vector<std::string> args = Train(sets);
    args[1] = "--resume=" + run;
    return job.Weft(args).Wait();
  };
  Ended shorter = resume({"epochs=0", "steps=5"});
  EXPECT_EQ(shorter.exit_code, 2);
  EXPECT_THAT(shorter.err, HasSubstr("weft: error WEFT-1004: "));
  EXPECT_THAT(shorter.err, HasSubstr("of step 13, the job ends at step 5"));
  EXPECT_EQ(ReadText(JoinPath(run, "resolved_job.txtpb")), before);
  // More of the same is what resuming is for, but it is said.
  Ended other = resume({"epochs=2", "optimizer.sgd.momentum=0.5"});
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_THAT(other.err, HasSubstr("warning: the job is not the one"));
  EXPECT_THAT(other.err, HasSubstr("epochs: 1 -> 2"));
  EXPECT_THAT(other.err, HasSubstr("momentum: 0.9 -> 0.5"));
  Ended same = resume({});
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_THAT(same.err, HasSubstr("all 25 steps are done already"));
  EXPECT_THAT(same.err, Not(HasSubstr("warning")));
  EXPECT_THAT(same.err, Not(HasSubstr("  loss ")));
  // The result is that of the run that ended.
  EXPECT_EQ(same.out, other.out);
  EXPECT_THAT(same.out, HasSubstr("test accuracy "));
  Ended json = job.Weft({"train", "--resume", run, "--json"}).Wait();
  EXPECT_THAT(json.out, HasSubstr("\"new_steps\": 0"));
  EXPECT_THAT(json.out, HasSubstr("\"loss\": null"));
}

// A plan file is one program already; what chooses among a job's is no help.
TEST(RefusalTest, FlagsThatAPlanFileCannotFollow) {
  TestJob job("plan", Mlp());
  ASSERT_EQ(job.Weft(Train({"epochs=1"})).Wait().exit_code, 0);
  const std::string plan = JoinPath(job.Runs()[0], "plan.pb");
  EXPECT_EQ(job.Weft({"plan", "check", plan}).Wait().exit_code, 0);
  for (const char* flag : {"--program=eval", "--program=xx", "--set=seed=3"}) {
    Ended end = job.Weft({"plan", "check", plan, flag}).Wait();
    EXPECT_EQ(end.exit_code, 2) << flag;
    EXPECT_THAT(end.err, HasSubstr("weft: error WEFT-1005: "));
    EXPECT_THAT(end.err, HasSubstr("plan.pb"));
  }
  Ended unknown =
      job.Weft({"plan", "check", "job.txtpb", "--program", "evil"}).Wait();
  EXPECT_THAT(unknown.err, HasSubstr("did you mean 'eval'"));
}

// Well formed, proved, and of no use to anybody.
TEST(RefusalTest, APlanThatReadsWhatIsNotThere) {
  TestJob job("sources", Mlp());
  ASSERT_EQ(job.Weft(Train({"epochs=1"})).Wait().exit_code, 0);
  const std::string file = JoinPath(job.Runs()[0], "plan.pb");
  plan::Plan plan = plan::LoadPlan(RealOs(), file).value();
  auto check = [&](const std::string& binding) {
    int changed = 0;
    for (plan::Task& task : *plan.mutable_tasks()) {
      if (task.kind() != plan::Task::SOURCE ||
          absl::StartsWith(task.binding(), "counter:")) {
        continue;
      }
      task.set_binding(binding);
      ++changed;
    }
    EXPECT_EQ(changed, 1);
    EXPECT_TRUE(plan::SavePlan(RealOs(), job.File("crafted.pb"), plan).ok());
    return job.Weft({"plan", "check", "crafted.pb"}).Wait();
  };
  EXPECT_EQ(check("train").exit_code, 0);
  for (const char* binding : {"trian", "eval", "load/fc1/weight"}) {
    Ended end = check(binding);
    EXPECT_EQ(end.exit_code, 3) << binding;
    EXPECT_THAT(end.err, HasSubstr("weft: error WEFT-2011: "));
    EXPECT_THAT(end.err, HasSubstr("bound to '" + std::string(binding) + "'"));
  }
  EXPECT_THAT(check("trian").err, HasSubstr("did you mean 'train'?"));
}

TEST(RefusalTest, ExplainingNoNode) {
  TestJob job("explain", Mlp());
  Ended none = job.Weft({"plan", "explain", "job.txtpb"}).Wait();
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("weft: error WEFT-1005: which node?"));
  EXPECT_THAT(none.err, HasSubstr("fc1, fc2, fc3"));
  Ended near = job.Weft({"plan", "explain", "job.txtpb", "fcl"}).Wait();
  EXPECT_EQ(near.exit_code, 2);
  EXPECT_THAT(near.err, HasSubstr("no node 'fcl'; did you mean 'fc1'?"));
}

TEST(RefusalTest, MoreMemoryThanThereIs) {
  if (HostServices::BuildFlags() != 0) {
    GTEST_SKIP() << "sanitizers map terabytes";
  }
  CheckCases(
      "memory", Mlp(),
      {
          {"beyond a limit",
           Train({"model.builtin.args.hidden=300000"}),
           "WEFT-3001",
           4,
           {"ulimit -v"},
           {},
           {},
           {0, uint64_t{400} << 20, 0}},
          // Nothing of it on the disk, and nothing of it to be read.
          {"a sparse file beyond all files",
           Train(),
           "WEFT-5001",
           6,
           {"train-images' is larger than 4294967295 bytes"},
           [](const TestJob& job) {
             ASSERT_EQ(
                 truncate(job.File("train-images").c_str(), off_t{5} << 30), 0);
           },
           {},
           {0, uint64_t{1000} << 20, 0}},
          {"a model beyond the machine",
           Train({"model.builtin.args.hidden=16777216,16777216"}),
           "WEFT-3001",
           4,
           {"variables of training take"}},
          // Variables of 205 MB, and 318 MB for each result of a batch.
          {"batches beyond a limit",
           Train({"model.builtin.args.hidden=400000", "batch_size=199"}),
           "WEFT-3001",
           4,
           {"the plan and buffers take"},
           {},
           {},
           {0, uint64_t{1000} << 20, 0}},
          {"batches of a simulated device beyond a limit",
           Train({"model.builtin.args.hidden=400000", "batch_size=199",
                  "devices=sim"}),
           "WEFT-3001",
           4,
           {"sim:0: the plan and buffers take"},
           {},
           {},
           {0, uint64_t{1000} << 20, 0}},
      });
  // Why it does not fit can be looked at all the same.
  TestJob large("memory", Mlp());
  Ended plan = large
                   .Weft({"plan", "show", "job.txtpb", "--set",
                          "model.builtin.args.hidden=2097152,2097152"},
                         {}, {0, uint64_t{400} << 20, 0})
                   .Wait();
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("2097152"));
  // However little there is, nothing aborts.
  for (uint64_t megabytes = 40; megabytes < 200; megabytes += 12) {
    SCOPED_TRACE(megabytes);
    TestJob job("memory", Mlp());
    Ended end =
        job.Weft(Train({"epochs=1"}), {}, {0, megabytes << 20, 0}).Wait();
    EXPECT_EQ(end.signal, 0) << end.err;
    // 127: the program itself could not be loaded.
    EXPECT_THAT(end.exit_code, ::testing::AnyOf(0, 4, 5, 127)) << end.err;
    ExpectItsFailureIsKept(job, end);
  }
}

// The system refuses to let a file grow: the plan, or else the checkpoint.
TEST(RefusalTest, FilesThatMayNotGrow) {
  if ((HostServices::BuildFlags() & WEFT_BUILD_TSAN) != 0) {
    GTEST_SKIP() << "the thread sanitizer lets files grow for itself";
  }
  const Sets wide = {"model.builtin.args.hidden=600", "steps=6", "epochs=0",
                     "checkpoint.every_steps=2"};
  for (uint64_t limit : {1000, 100000}) {
    SCOPED_TRACE(limit);
    TestJob job("limit", Mlp());
    Ended end = job.Weft(Train(wide), {}, {limit}).Wait();
    EXPECT_EQ(end.signal, 0);
    EXPECT_EQ(end.exit_code, 6);
    EXPECT_THAT(end.err, HasSubstr("weft: error WEFT-5008: "));
    // Without its plan, no run has begun.
    ASSERT_EQ(job.Runs().size(), limit > 1000 ? 1u : 0u);
    if (limit > 1000) {
      EXPECT_TRUE(ListNames(JoinPath(job.Runs()[0], "ckpt")).empty());
      EXPECT_THAT(end.err, HasSubstr("training goes on"));
      EXPECT_THAT(MetricsOf(job.Runs()[0]), HasSubstr("{\"step\":6,"));
    }
    ExpectNothingHalfWritten(job.folder());
  }
}

}  // namespace
}  // namespace weft::e2e
