// Processes that are stopped or killed while they train. Whatever the moment, a
// resumed run ends with the bits of one that was left alone.
//
// TEST_KILLS=20 makes the campaign longer, TEST_SEED picks other moments:
// tests/fault/kill_resume.sh.

#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/os.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/checkpoint/checkpoint.h"
#include "tests/e2e/harness.h"

namespace weft::e2e {
namespace {

using ::testing::HasSubstr;

uint64_t Setting(const char* text, uint64_t fallback) {
  uint64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : fallback;
}

std::vector<std::string> Command(std::vector<std::string> args,
                                 const Sets& sets) {
  for (const std::string& set : sets) {
    args.push_back("--set");
    args.push_back(set);
  }
  args.push_back("--quiet");
  return args;
}

// Everything that has state: random numbers, two moments per parameter, a
// schedule, the order of the data. A checkpoint after each step, so that most
// of the time goes into saving.
Sets Campaign() {
  return {"model.builtin.args.dropout=0.25",
          "optimizer.adamw.weight_decay=0.01",
          "optimizer.schedule.cosine.base=0.01", "checkpoint.every_steps=1",
          "epochs=2"};
}

constexpr int kSteps = 25;

size_t NumCheckpoints(const std::string& run) {
  size_t n = 0;
  for (const std::string& name : ListNames(JoinPath(run, "ckpt"))) {
    n += absl::StartsWith(name, "step_");
  }
  return n;
}

uint64_t NewestStep(const std::string& run) {
  uint64_t newest = 0, step;
  for (const std::string& name : ListNames(JoinPath(run, "ckpt"))) {
    if (absl::StartsWith(name, "step_") &&
        absl::SimpleAtoi(name.substr(5), &step)) {
      newest = std::max(newest, step);
    }
  }
  return newest;
}

// Kills the process when it has got some random number of steps further, plus a
// random moment: from its first instructions to its last save.
void KillSometime(const TestJob& job, std::mt19937* random, Process* process) {
  const uint64_t before =
      job.Runs().empty() ? 0 : NewestStep(job.Runs().back());
  const uint64_t steps = (*random)() % (kSteps - before + 1);
  while (
      steps > 0 && process->Running() &&
      (job.Runs().empty() || NewestStep(job.Runs().back()) < before + steps)) {
    sched_yield();
  }
  // Without a step to wait for: anywhere in its start.
  const uint32_t spin = (*random)() % (steps == 0 ? 300000 : 3000);
  for (uint32_t i = 0; i < spin && process->Running(); ++i) sched_yield();
  process->Signal(SIGKILL);
}

// One run that is killed up to `deaths` times; its directory.
std::string KilledRun(const TestJob& job, int deaths, std::mt19937* random) {
  for (int attempt = 0;; ++attempt) {
    // A run without its job file, which comes first, has not begun.
    std::string run;
    for (const std::string& r : job.Runs()) {
      if (RealOs().Exists(JoinPath(r, "resolved_job.txtpb"))) run = r;
    }
    const size_t had = run.empty() ? 0 : NumCheckpoints(run);
    Process process =
        job.Weft(run.empty() ? Command({"train", "job.txtpb"}, Campaign())
                             : Command({"train", "--resume", run}, {}));
    if (attempt < deaths) KillSometime(job, random, &process);
    Ended end = process.Wait();
    if (end.exit_code == 0) return job.Runs().back();
    EXPECT_EQ(end.signal, SIGKILL) << end.err;
    if (end.signal != SIGKILL) return "";
    if (run.empty()) continue;
    // Once there was a checkpoint, there always is one.
    EXPECT_GE(NumCheckpoints(run), std::min<size_t>(had, 1));
    if (NumCheckpoints(run) == 0) continue;
    absl::StatusOr<std::vector<checkpoint::Info>> list =
        checkpoint::List(RealOs(), run);
    EXPECT_TRUE(list.ok()) << list.status();
    if (!list.ok()) return "";
    for (const checkpoint::Info& info : *list) {
      EXPECT_TRUE(info.verdict.ok()) << info.verdict;
    }
  }
}

TEST(KillTest, KilledAnywhereAndResumedIsNeverKilled) {
  const uint64_t points = Setting(std::getenv("TEST_KILLS"), 5);
  const uint64_t seed = Setting(std::getenv("TEST_SEED"), 1);
  TestJob reference("reference", Mlp());
  absl::StatusOr<TrainResult> whole = reference.Train(Campaign());
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_EQ(whole->steps, static_cast<uint64_t>(kSteps));
  const auto state = StateOf(whole->run_directory);
  const std::string metrics = MetricsOf(whole->run_directory);
  for (uint64_t point = 0; point < points; ++point) {
    SCOPED_TRACE(absl::StrCat("point ", point, " of seed ", seed));
    std::mt19937 random(seed * 1000 + point);
    TestJob job("killed", Mlp());
    const std::string run = KilledRun(job, 1 + point % 3, &random);
    ASSERT_NE(run, "");
    EXPECT_EQ(StateOf(run), state);
    EXPECT_EQ(MetricsOf(run), metrics);
    // The last save swept up what the deaths left.
    for (const std::string& name : ListNames(JoinPath(run, "ckpt"))) {
      EXPECT_FALSE(absl::StartsWith(name, ".")) << name;
    }
  }
}

// A signal lets the step finish, saves, and then ends the process as its sender
// expects.
TEST(KillTest, ASignalSavesAndEndsByThatSignal) {
  for (int number : {SIGTERM, SIGINT, SIGHUP}) {
    SCOPED_TRACE(number);
    TestJob job("signalled", Mlp());
    const Sets endless = {"epochs=0", "steps=100000000"};
    Process process = job.Weft(Command({"train", "job.txtpb"}, endless));
    while (process.Running() &&
           !absl::StrContains(process.ErrSoFar(), "first step after")) {
      sched_yield();
    }
    process.Signal(number);
    Ended end = process.Wait();
    EXPECT_EQ(end.signal, number) << end.err;
    ASSERT_THAT(end.out, HasSubstr("stopped at step "));
    ASSERT_EQ(job.Runs().size(), 1u);
    const std::string run = job.Runs()[0];
    const uint64_t step = NewestStep(run);
    EXPECT_THAT(end.out,
                HasSubstr(absl::StrCat("stopped at step ", step, ";")));
    EXPECT_GT(step, 0u);
    EXPECT_FALSE(RealOs().Exists(JoinPath(run, "errors/rank_00000.json")));

    const Sets more = {"epochs=0", absl::StrCat("steps=", step + 7)};
    Ended resumed = job.Weft(Command({"train", "--resume", run}, more)).Wait();
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    TestJob reference("reference", Mlp());
    absl::StatusOr<TrainResult> whole = reference.Train(more);
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ(StateOf(run), StateOf(whole->run_directory));
    EXPECT_EQ(MetricsOf(run), MetricsOf(whole->run_directory));
  }
}

// A terminal that closes sends SIGHUP, and its shell sends it again.
TEST(KillTest, SignalsOfOneDeathLetItSave) {
  TestJob job("hung_up", Mlp());
  const Sets endless = {"epochs=0", "steps=100000000"};
  Process process = job.Weft(Command({"train", "job.txtpb"}, endless));
  while (process.Running() &&
         !absl::StrContains(process.ErrSoFar(), "first step after")) {
    sched_yield();
  }
  process.Signal(SIGHUP);
  // Those that come while the first is not handled yet count as one.
  for (int i = 0; i < 50; ++i) {
    sched_yield();
    process.Signal(i % 2 == 0 ? SIGHUP : SIGCONT);
  }
  Ended end = process.Wait();
  EXPECT_EQ(end.signal, SIGHUP) << end.err;
  ASSERT_EQ(job.Runs().size(), 1u);
  // Only the end of the run saves.
  EXPECT_GT(NewestStep(job.Runs()[0]), 0u);
}

// Two processes in one run directory would spoil each other's files.
TEST(KillTest, ARunDirectoryIsOfOneProcess) {
  TestJob job("locked", Mlp());
  Process process =
      job.Weft(Command({"train", "job.txtpb"}, {"epochs=0", "steps=100000000",
                                                "checkpoint.every_steps=50"}));
  while (process.Running() &&
         (job.Runs().empty() || NumCheckpoints(job.Runs()[0]) == 0)) {
    sched_yield();
  }
  ASSERT_TRUE(process.Running()) << process.Wait().err;
  const std::string run = job.Runs()[0];
  const std::string before = ReadText(JoinPath(run, "resolved_job.txtpb"));
  const std::vector<std::string> resume = {"train", "--resume", run};
  Ended second = job.Weft(Command(resume, {"steps=5"})).Wait();
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.err, HasSubstr("weft: error WEFT-1008: "));
  EXPECT_THAT(second.err,
              HasSubstr(absl::StrCat("process ", process.pid(), " holds")));
  EXPECT_EQ(ReadText(JoinPath(run, "resolved_job.txtpb")), before);
  EXPECT_FALSE(RealOs().Exists(JoinPath(run, "errors/rank_00000.json")));
  // Looking is free.
  EXPECT_EQ(job.Weft({"ckpt", "ls", run}).Wait().exit_code, 0);
  // The file stays when the process dies; the lock does not.
  process.Signal(SIGKILL);
  EXPECT_EQ(process.Wait().signal, SIGKILL);
  EXPECT_TRUE(RealOs().Exists(JoinPath(run, "lock")));
  const uint64_t steps = NewestStep(run) + 3;
  Ended third =
      job.Weft(Command(resume, {absl::StrCat("steps=", steps)})).Wait();
  EXPECT_EQ(third.exit_code, 0) << third.err;
}

// Before the first step there is nothing to save.
TEST(KillTest, ASignalAtTheStartEndsAtOnce) {
  TestJob job("early", Mlp());
  ASSERT_EQ(mkfifo(job.File("pipe").c_str(), 0600), 0);
  // Waits for a writer of its data.
  Process process =
      job.Weft(Command({"train", "job.txtpb"}, {"data.train.idx.images=pipe"}));
  while (process.Running() && job.Runs().empty()) sched_yield();
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait().signal, SIGTERM);
}

}  // namespace
}  // namespace weft::e2e
