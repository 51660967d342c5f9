// Ranks that are processes: the bits of ranks that are threads, over every
// transport; and an end for all of them, which names who is to blame.

#include <sched.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/os.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/harness.h"

namespace weft::e2e {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kLost = 138;

// The ranks of one launch. They find each other as those of mpirun do: by the
// name of their job, without a port.
class Ranks {
 public:
  Ranks(const TestJob& job, uint32_t ranks) : job_(job), ranks_(ranks) {}

  void Start(uint32_t rank, std::vector<std::string> args) {
    const Environ environment = {
        {"OMPI_COMM_WORLD_RANK", absl::StrCat(rank)},
        {"OMPI_COMM_WORLD_SIZE", absl::StrCat(ranks_)},
        {"OMPI_COMM_WORLD_LOCAL_RANK", absl::StrCat(rank)},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", absl::StrCat(ranks_)},
        {"PMIX_NAMESPACE", name_},
    };
    args.insert(args.begin(), "train");
    processes_.push_back(job_.Weft(args, environment));
  }

  void StartAll(const std::vector<std::string>& args) {
    for (uint32_t r = 0; r < ranks_; ++r) Start(r, args);
  }

  std::vector<Ended> Wait() {
    std::vector<Ended> ends;
    for (Process& process : processes_) ends.push_back(process.Wait());
    return ends;
  }

  // Until rank 0 says that it trains.
  void AwaitSteps() {
    while (at(0).Running() &&
           !absl::StrContains(at(0).ErrSoFar(), "first step after")) {
      sched_yield();
    }
    ASSERT_TRUE(at(0).Running()) << at(0).Wait().err;
  }

  Process& at(uint32_t rank) { return processes_[rank]; }

 private:
  const TestJob& job_;
  const uint32_t ranks_;
  std::string name_ = UniqueName("test");
  std::vector<Process> processes_;
};

std::vector<std::string> Args(const TestJob& job, const Sets& sets,
                              const std::vector<std::string>& more = {}) {
  std::vector<std::string> args = {job.path()};
  for (const std::string& set : sets) {
    args.insert(args.end(), {"--set", set});
  }
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

// The newest run; nothing where there is none.
std::string LastRun(const TestJob& job) {
  const std::vector<std::string> runs = job.Runs();
  EXPECT_FALSE(runs.empty());
  return runs.empty() ? "" : runs.back();
}

void ExpectAllEnd(const std::vector<Ended>& ends, int code,
                  const std::string& text) {
  for (const Ended& end : ends) {
    EXPECT_EQ(end.exit_code, code) << end.err;
    EXPECT_THAT(end.err, HasSubstr(text));
  }
}

TEST(ProcessesTest, ComputeTheBitsOfThreads) {
  struct Case {
    uint32_t ranks;
    std::string transport;
  };
  const Sets sets = {"logical_shards=4", "model.builtin.args.dropout=0.25",
                     "optimizer.clip_norm=0.5", "epochs=1"};
  TestJob threads("threads", Mlp());
  const Left one = LeftBy(OnRanks(threads, 1, sets));
  ExpectSame(LeftBy(OnRanks(threads, 2, sets)), one);
  int n = 0;
  for (const Case& c : std::vector<Case>{
           {2, "shm"}, {2, "grpc"}, {4, "shm"}, {4, "grpc"}, {2, "auto"}}) {
    SCOPED_TRACE(absl::StrCat(c.ranks, " by ", c.transport));
    TestJob job(absl::StrCat("processes", ++n), Mlp());
    Ranks ranks(job, c.ranks);
    ranks.StartAll(Args(job, sets, {"--transport", c.transport}));
    for (const Ended& end : ranks.Wait()) {
      ASSERT_EQ(end.exit_code, 0) << end.err;
    }
    ASSERT_EQ(job.Runs().size(), 1u);
    const std::string run = job.Runs()[0];
    EXPECT_TRUE(StateOf(run) == one.state);
    EXPECT_EQ(MetricsOf(run), one.metrics);
    // Each has a log, and says who it is.
    EXPECT_EQ(ListNames(JoinPath(run, "logs")).size(), c.ranks);
    EXPECT_THAT(ReadText(JoinPath(run, "logs/rank_00001.log")),
                HasSubstr(absl::StrCat("[r1/", c.ranks, "]")));
    EXPECT_THAT(ListNames(JoinPath(run, "errors")), IsEmpty());
  }
}

// Values of the model, and stages, over what maps memory and what does not.
TEST(ProcessesTest, PipelinesAndMeshesToo) {
  const Sets sets = {"steps=4", "epochs=0"};
  for (const char* layout : {R"(pipeline { stages: 2 } micro_batches: 2)",
                             R"(mesh { axis { name: "model" size: 2 } })"}) {
    SCOPED_TRACE(layout);
    TestJob job("layout", Mlp());
    WriteText(job.path(), absl::StrCat(ReadText(job.path()), layout));
    const Left threads = LeftBy(OnRanks(job, 2, sets));
    Ranks ranks(job, 2);
    ranks.StartAll(Args(job, sets));
    for (const Ended& end : ranks.Wait()) {
      ASSERT_EQ(end.exit_code, 0) << end.err;
    }
    const std::string run = LastRun(job);
    EXPECT_TRUE(StateOf(run) == threads.state);
    EXPECT_EQ(MetricsOf(run), threads.metrics);
  }
}

TEST(ProcessesTest, OneThatIsKilledIsNamedByTheOthers) {
  const Sets endless = {"epochs=0", "steps=100000000", "batch_size=48"};
  int n = 0;
  for (const auto& [victim, transport] :
       std::vector<std::pair<uint32_t, const char*>>{
           {0, "shm"}, {2, "shm"}, {1, "grpc"}}) {
    SCOPED_TRACE(absl::StrCat(victim, " ", transport));
    TestJob job(absl::StrCat("killed", ++n), Mlp());
    Ranks ranks(job, 3);
    ranks.StartAll(Args(job, endless, {"--transport", transport}));
    ranks.AwaitSteps();
    const std::string pid = absl::StrCat("pid ", ranks.at(victim).pid());
    ranks.at(victim).Signal(SIGKILL);
    const std::vector<Ended> ends = ranks.Wait();
    for (uint32_t r = 0; r < 3; ++r) {
      SCOPED_TRACE(r);
      if (r == victim) {
        EXPECT_EQ(ends[r].signal, SIGKILL);
        continue;
      }
      EXPECT_EQ(ends[r].exit_code, kLost);
      EXPECT_THAT(ends[r].err,
                  AllOf(HasSubstr("WEFT-7001"), HasSubstr(pid),
                        HasSubstr(absl::StrCat("rank ", victim)),
                        AnyOf(HasSubstr("is lost"), HasSubstr("is gone"))));
      EXPECT_THAT(
          ReadText(absl::StrCat(LastRun(job), "/errors/rank_0000", r, ".json")),
          HasSubstr(absl::StrCat("\"rank\": ", r)));
    }
  }
}

// One that is silent is lost, too; one that pauses is not.
TEST(ProcessesTest, OneThatIsStoppedIsNamedByTheOthers) {
  TestJob job("stopped", Mlp());
  Ranks ranks(job, 2);
  ranks.StartAll(
      Args(job, {"epochs=0", "steps=100000000"}, {"--peer-timeout", "1"}));
  ranks.AwaitSteps();
  ranks.at(1).Signal(SIGSTOP);
  const Ended end = ranks.at(0).Wait();
  EXPECT_EQ(end.exit_code, kLost);
  EXPECT_THAT(end.err, AllOf(HasSubstr("rank 1 (host "),
                             HasSubstr("it has been silent for 1 s")));
  ranks.at(1).Signal(SIGCONT);
  EXPECT_EQ(ranks.at(1).Wait().exit_code, kLost);
}

TEST(ProcessesTest, TheOneThatFailsKeepsItsCode) {
  TestJob job("fails", Mlp());
  Ranks ranks(job, 3);
  for (uint32_t r : {0, 2}) {
    ranks.Start(r, Args(job, {}));
  }
  ranks.Start(1, {job.File("no_such_job.txtpb")});
  const std::vector<Ended> ends = ranks.Wait();
  EXPECT_EQ(ends[2].exit_code, 2) << ends[2].err;
  for (int i : {0, 1}) {
    EXPECT_EQ(ends[i].exit_code, kLost);
    EXPECT_THAT(ends[i].err, AllOf(HasSubstr("rank 1 (host "),
                                   HasSubstr(" failed with WEFT-"),
                                   HasSubstr("no_such_job.txtpb")));
  }
  EXPECT_THAT(job.Runs(), IsEmpty());  // of a job that never began
}

TEST(ProcessesTest, WhatDiffersIsSaidByAllBeforeTheFirstStep) {
  struct Case {
    std::vector<std::string> odd;  // what rank 1 is given besides
    std::vector<std::string> texts;
  };
  int n = 0;
  for (const Case& c : std::vector<Case>{
           {{"--set", "seed=2"},
            {"ranks differ in the job", "'seed: 2'", "'seed: 1'"}},
           {{"--peer-timeout", "9"}, {"'9000000000'", "'3500000000'"}}}) {
    SCOPED_TRACE(c.texts[0]);
    TestJob job(absl::StrCat("differs", ++n), Mlp());
    Ranks ranks(job, 3);
    ranks.Start(0, Args(job, {"seed=1"}));
    ranks.Start(1, Args(job, {"seed=1"}, c.odd));
    ranks.Start(2, Args(job, {"seed=1"}));
    const std::vector<Ended> ends = ranks.Wait();
    for (const std::string& text : c.texts) ExpectAllEnd(ends, 2, text);
    ExpectAllEnd(ends, 2, "WEFT-1009");
    EXPECT_THAT(job.Runs(), IsEmpty());
  }
}

TEST(ProcessesTest, WhatAllRefuseAllRefuse) {
  TestJob job("refused", Mlp());
  Ranks ranks(job, 3);
  ranks.StartAll(Args(job, {"batch_size=16"}));
  ExpectAllEnd(ranks.Wait(), 2, "WEFT-1004");
  EXPECT_THAT(job.Runs(), IsEmpty());
}

TEST(ProcessesTest, WhoDoesNotComeIsNamed) {
  TestJob job("absent", Mlp());
  Ranks ranks(job, 4);
  for (uint32_t r : {0, 2}) {
    ranks.Start(r, Args(job, {}, {"--join-timeout", "1"}));
  }
  ExpectAllEnd(ranks.Wait(), kLost, "these ranks have not come: 1, 3");
}

// A signal to any rank ends all at one step, from which they go on.
TEST(ProcessesTest, StoppedAndResumed) {
  const Sets sets = {"logical_shards=2", "model.builtin.args.dropout=0.25",
                     "epochs=0", "steps=700"};
  TestJob whole("whole", Mlp());
  const Left one = LeftBy(OnRanks(whole, 1, sets));
  TestJob job("resumed", Mlp());
  Ranks ranks(job, 2);
  ranks.StartAll(Args(job, sets));
  ranks.AwaitSteps();
  ranks.at(1).Signal(SIGTERM);
  const std::vector<Ended> ends = ranks.Wait();
  EXPECT_EQ(ends[0].exit_code, 0) << ends[0].err;
  EXPECT_THAT(ends[0].out, HasSubstr("stopped at step"));
  EXPECT_THAT(ends[0].out, HasSubstr(", on 2 ranks as before\n"));
  EXPECT_EQ(ends[1].signal, SIGTERM) << ends[1].err;
  const std::string run = LastRun(job);
  Ranks again(job, 2);
  again.StartAll({"--resume", run});
  for (const Ended& end : again.Wait()) {
    ASSERT_EQ(end.exit_code, 0) << end.err;
  }
  EXPECT_TRUE(StateOf(run) == one.state);
  EXPECT_EQ(MetricsOf(run), one.metrics);
}

// Ranks of other jobs do not meet, whatever is started when.
TEST(ProcessesTest, JobsAtOnce) {
  const Sets sets = {"steps=3", "epochs=0"};
  TestJob job("many", Mlp());
  std::vector<Ranks> launches;
  for (int i = 0; i < 5; ++i) launches.emplace_back(job, 2);
  for (uint32_t r : {1, 0}) {
    for (Ranks& ranks : launches) ranks.Start(r, Args(job, sets));
  }
  for (Ranks& ranks : launches) {
    for (const Ended& end : ranks.Wait()) {
      EXPECT_EQ(end.exit_code, 0) << end.err;
    }
  }
  const std::vector<std::string> runs = job.Runs();
  ASSERT_EQ(runs.size(), launches.size());
  for (const std::string& run : runs) {
    EXPECT_TRUE(StateOf(run) == StateOf(runs[0]));
  }
}

}  // namespace
}  // namespace weft::e2e
