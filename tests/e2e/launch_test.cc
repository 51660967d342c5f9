// weft run: ranks as processes that one command starts, watches, starts again
// and ends. And mpirun, where it is there.

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/os.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/harness.h"

namespace weft::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Words = std::vector<std::string>;

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Words AsFlags(const Sets& sets) {
  Words flags;
  for (const std::string& set : sets) flags = flags + Words{"--set", set};
  return flags;
}

// What a step depends on: random numbers, moments, the order of the data.
Sets Steps(int steps) {
  return {"logical_shards=2", "model.builtin.args.dropout=0.25",
          "optimizer.adamw.weight_decay=0.01", "epochs=0",
          absl::StrCat("steps=", steps)};
}

Words RunOn(int ranks, const TestJob& job, const Sets& sets,
            const Words& flags = {}) {
  return Words{"run", "--nproc-per-node", absl::StrCat(ranks)} + flags +
         Words{job.path()} + AsFlags(sets);
}

// No process that this one inherits is left: it is the nearest ancestor that
// adopts orphans.
class LaunchTest : public ::testing::Test {
 protected:
  LaunchTest() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~LaunchTest() override { EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1); }
};

TEST_F(LaunchTest, TheBitsOfThreads) {
  TestJob threads("threads", Mlp());
  const Left one = LeftBy(OnRanks(threads, 1, Steps(20)));
  for (int ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    TestJob job(absl::StrCat("run", ranks), Mlp());
    const Ended end = job.Weft(RunOn(ranks, job, Steps(20))).Wait();
    ASSERT_EQ(end.exit_code, 0) << end.err;
    ASSERT_EQ(job.Runs().size(), 1u);
    const std::string run = job.Runs()[0];
    EXPECT_TRUE(StateOf(run) == one.state);
    EXPECT_EQ(MetricsOf(run), one.metrics);
    EXPECT_THAT(end.out, HasSubstr("test accuracy"));
    EXPECT_THAT(ReadText(JoinPath(run, "logs/rank_00000.out")),
                HasSubstr(end.out));
    EXPECT_THAT(ListNames(JoinPath(run, "errors")), IsEmpty());
  }
}

TEST_F(LaunchTest, AKilledRankAndARestartChangeNoBit) {
  // Enough steps that the ranks are killed before the last.
  const Sets sets =
      Steps(1500) + Sets{"checkpoint.every_steps=25", "eval.every_epochs=0"};
  TestJob threads("threads", Mlp());
  const Left one = LeftBy(OnRanks(threads, 1, sets));
  TestJob job("killed", Mlp());
  Process launcher = job.Weft(RunOn(2, job, sets, {"--max-restarts", "2"}));
  for (int death = 1; death <= 2; ++death) {
    AwaitMetrics(job, &launcher, 30 * death);
    const std::vector<pid_t> ranks = ChildrenOf(launcher.pid());
    ASSERT_EQ(ranks.size(), 2u);
    kill(ranks[death % 2], SIGKILL);
    const std::string said = absl::StrCat("weft: restart ", death, " of 2");
    while (launcher.Running() &&
           !absl::StrContains(launcher.ErrSoFar(), said)) {
      sched_yield();
    }
  }
  const Ended end = launcher.Wait();
  ASSERT_EQ(end.exit_code, 0) << end.err;
  EXPECT_THAT(end.err, AllOf(HasSubstr("first: it was killed by SIGKILL"),
                             HasSubstr("resuming at step")));
  ASSERT_EQ(job.Runs().size(), 1u);
  EXPECT_TRUE(StateOf(job.Runs()[0]) == one.state);
  EXPECT_EQ(MetricsOf(job.Runs()[0]), one.metrics);
}

TEST_F(LaunchTest, AKilledRankIsTheFirstCause) {
  TestJob job("killed", Mlp());
  const Sets endless = {"batch_size=48", "epochs=0", "steps=100000000"};
  Process launcher = job.Weft(RunOn(3, job, endless));
  AwaitMetrics(job, &launcher, 5);
  const std::vector<pid_t> ranks = ChildrenOf(launcher.pid());
  ASSERT_EQ(ranks.size(), 3u);
  kill(ranks[1], SIGKILL);
  const Ended end = launcher.Wait();
  EXPECT_EQ(end.exit_code, 128 + SIGKILL);
  EXPECT_THAT(end.err, HasSubstr("weft: rank 1 failed first: it was killed by "
                                 "SIGKILL\n"
                                 "weft: 2 other ranks stopped because of it"));
}

TEST_F(LaunchTest, ARankThatFailsIsTheFirstCause) {
  TestJob job("fails", Mlp());
  const Ended end = job.Weft(RunOn(2, job,
                                   {"optimizer.sgd.momentum=0.9",
                                    "optimizer.schedule.constant.base=1e30",
                                    "epochs=0", "steps=50"}))
                        .Wait();
  EXPECT_EQ(end.exit_code, 7) << end.err;
  EXPECT_THAT(end.err, AllOf(HasSubstr("failed first, on host "),
                             HasSubstr(": WEFT-6001: ")));
}

TEST_F(LaunchTest, StoppedAndResumed) {
  TestJob threads("threads", Mlp());
  const Left one = LeftBy(OnRanks(threads, 1, Steps(700)));
  TestJob job("stopped", Mlp());
  Process launcher = job.Weft(RunOn(2, job, Steps(700)));
  AwaitMetrics(job, &launcher, 5);
  launcher.Signal(SIGTERM);
  const Ended end = launcher.Wait();
  EXPECT_EQ(end.signal, SIGTERM) << end.err;
  const std::string run = job.Runs().back();
  EXPECT_THAT(
      end.out,
      AllOf(HasSubstr("stopped at step"),
            HasSubstr("go on with: weft run --nproc-per-node 2 --resume ")));
  EXPECT_THAT(end.err, Not(HasSubstr("failed")));
  const Ended again = job.Weft({"run", "--nproc-per-node", "2", "--resume", run,
                                "--set", "checkpoint.keep=2"})
                          .Wait();
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(job.Runs().size(), 1u);
  EXPECT_TRUE(StateOf(run) == one.state);
  EXPECT_EQ(MetricsOf(run), one.metrics);
}

TEST_F(LaunchTest, NoRankOutlivesAKilledLauncher) {
  TestJob job("orphans", Mlp());
  Process launcher = job.Weft(RunOn(2, job, Steps(100000000)));
  AwaitMetrics(job, &launcher, 5);
  const std::vector<pid_t> ranks = ChildrenOf(launcher.pid());
  ASSERT_EQ(ranks.size(), 2u);
  launcher.Signal(SIGKILL);
  EXPECT_EQ(launcher.Wait().signal, SIGKILL);
  // They are this process's children now.
  for (pid_t rank : ranks) {
    int status = 0;
    ASSERT_EQ(waitpid(rank, &status, 0), rank);
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
  }
}

TEST_F(LaunchTest, LaunchesAtOnce) {
  TestJob job("many", Mlp());
  std::vector<Process> launchers;
  for (int i = 0; i < 4; ++i) {
    launchers.push_back(job.Weft(RunOn(2, job, Steps(3))));
  }
  for (Process& launcher : launchers) {
    const Ended end = launcher.Wait();
    EXPECT_EQ(end.exit_code, 0) << end.err;
  }
  const std::vector<std::string> runs = job.Runs();
  ASSERT_EQ(runs.size(), launchers.size());
  for (const std::string& run : runs) {
    EXPECT_TRUE(StateOf(run) == StateOf(runs[0]));
  }
}

TEST_F(LaunchTest, BadLaunches) {
  struct Case {
    Words args;
    int exit_code;
    const char* text;
  };
  TestJob job("bad", Mlp());
  const std::string path = job.path();
  for (const Case& c : std::vector<Case>{
           {{"run"}, 2, "run needs a job file"},
           {{"run", "--nproc", "2", path}, 2, "unknown flag --nproc"},
           {{"run", "--max_restart=2", path}, 2, "'--max-restarts'"},
           {{"run", "--nproc-per-node", "0", path}, 2, "WEFT-1009"},
           {{"run", "--standalone", "--nnodes=2", path}, 2, "--standalone"},
           {{"run", "--node-rank", "1", path}, 2, "--node-rank is 1"},
           {{"run", "--tee", "5", path}, 2, "--tee is '5'"},
           {{"run", "no_such_job"}, 6, "no_such_job"},
           {{"run", "--resume", job.folder()}, 6, "no run directory"},
           {{"run", "--nproc-per-node", "2", path, "--sets", "a"},
            2,
            "failed first, on host"},
           {{"run", "--nproc-per-node", "2", path, "--virtual-ranks", "2"},
            2,
            "--virtual-ranks 2"},
           {{"run", "--nproc-per-node", "2", path, "--set", "batch_size=15"},
            2,
            "WEFT-1004"}}) {
    SCOPED_TRACE(absl::StrJoin(c.args, " "));
    const Ended end = job.Weft(c.args).Wait();
    EXPECT_EQ(end.exit_code, c.exit_code) << end.err;
    EXPECT_THAT(end.err, HasSubstr(c.text));
  }
  EXPECT_THAT(job.Runs(), IsEmpty());  // of what never began
}

// A socket that listens, with its port.
std::pair<int, std::string> Listen(const char* host) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  inet_pton(AF_INET, host, &address.sin_addr);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(fd, 1), 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return {fd, absl::StrCat(ntohs(address.sin_port))};
}

TEST_F(LaunchTest, APortThatIsTaken) {
  const auto [taken, port] = Listen("127.0.0.1");
  TestJob job("taken", Mlp());
  const Ended end = job.Weft(RunOn(2, job, {}, {"--master-port", port})).Wait();
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_THAT(end.err, AllOf(HasSubstr("WEFT-1009"), HasSubstr(port)));
  EXPECT_THAT(job.Runs(), IsEmpty());
  close(taken);
}

// An address of this machine that is not loopback; empty where there is none.
std::string OuterAddress() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string found;
  for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET ||
        (i->ifa_flags & IFF_LOOPBACK) != 0 || (i->ifa_flags & IFF_UP) == 0) {
      continue;
    }
    char text[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET,
              &reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr,
              text, sizeof(text));
    found = text;
  }
  freeifaddrs(all);
  return found;
}

// Two launchers, each with the ranks of a host, which happen to be one.
TEST_F(LaunchTest, TwoHosts) {
  const std::string host = OuterAddress();
  if (host.empty()) GTEST_SKIP() << "this machine has no network";
  const auto [held, port] = Listen(host.c_str());
  close(held);
  TestJob threads("threads", Mlp());
  const Left one = LeftBy(OnRanks(threads, 1, Steps(20)));
  TestJob job("hosts", Mlp());
  const std::string secret = job.File("secret");
  WriteText(secret, "0123456789abcdef0123456789abcdef");
  ASSERT_EQ(chmod(secret.c_str(), 0600), 0);
  std::vector<Process> launchers;
  for (const char* node : {"1", "0"}) {
    launchers.push_back(job.Weft(
        RunOn(1, job, Steps(20),
              {"--nnodes", "2", "--node-rank", node, "--master-addr", host,
               "--master-port", port, "--secret-file", secret})));
  }
  for (Process& launcher : launchers) {
    const Ended end = launcher.Wait();
    EXPECT_EQ(end.exit_code, 0) << end.err;
  }
  ASSERT_EQ(job.Runs().size(), 1u);
  EXPECT_TRUE(StateOf(job.Runs()[0]) == one.state);
  EXPECT_EQ(MetricsOf(job.Runs()[0]), one.metrics);
}

// What mpirun tells a rank is in worker_spec_test; this is the real one.
TEST_F(LaunchTest, Mpirun) {
  if (access("/usr/bin/mpirun", X_OK) != 0) {
    GTEST_SKIP() << "no mpirun here (Debian package openmpi-bin)";
  }
  TestJob threads("threads", Mlp());
  const Left one = LeftBy(OnRanks(threads, 1, Steps(20)));
  TestJob job("mpirun", Mlp());
  const Environ environment = {
      {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
      {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
      {"OMPI_MCA_orte_tmpdir_base", job.folder()},
      {"HOME", job.folder()},
  };
  const Ended end =
      job.Program("/usr/bin/mpirun",
                  Words{"-n", "2", job.weft(), "train", job.path()} +
                      AsFlags(Steps(20)),
                  environment)
          .Wait();
  ASSERT_EQ(end.exit_code, 0) << end.err;
  ASSERT_EQ(job.Runs().size(), 1u);
  EXPECT_TRUE(StateOf(job.Runs()[0]) == one.state);
  EXPECT_EQ(MetricsOf(job.Runs()[0]), one.metrics);
}

}  // namespace
}  // namespace weft::e2e
