#include "runtime/launch/launcher.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/launch/process.h"
#include "runtime/launch/report.h"

namespace weft::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr uint64_t kVeryLong = 1'000'000'000'000;

struct Calls {
  std::vector<HubOptions> hubs;
  std::vector<std::string> failures;
  std::optional<runtime::JobFailure> told;
};

class FakeHub : public Hub {
 public:
  explicit FakeHub(Calls* calls) : calls_(calls) {}
  std::string address() const override { return "127.0.0.1:4711"; }
  std::optional<runtime::JobFailure> failure() const override {
    return calls_->told;
  }
  void Fail(uint32_t rank, const absl::Status& cause) override {
    calls_->failures.push_back(absl::StrCat(rank, ": ", cause.message()));
  }

 private:
  Calls* const calls_;
};

runtime::JobFailure Silent(uint32_t rank) {
  runtime::JobFailure told;
  told.rank = rank;
  told.status = MakeError(ErrorCode::kPeerLost,
                          absl::StrCat("rank ", rank, " is silent"));
  return told;
}

size_t OpenDescriptors() { return RealOs().List("/proc/self/fd")->size(); }

// Ranks are shell scripts. They wait for each other by FIFOs in $DIR: $DIR/a
// and $DIR/b.
class LauncherTest : public ::testing::Test {
 protected:
  LauncherTest() {
    directory_ = JoinPath(
        ::testing::TempDir(),
        absl::StrCat(
            ::testing::UnitTest::GetInstance()->current_test_info()->name(),
            "-", getpid()));
    EXPECT_TRUE(RealOs().MakeDirectories(directory_).ok());
    for (const char* name : {"a", "b"}) {
      EXPECT_EQ(mkfifo(File(name).c_str(), 0600), 0);
    }
    job_.directory = directory_;
    job_.variables = {{"PATH", "/usr/bin:/bin"}, {"DIR", directory_}};
    job_.hub =
        [this](
            const HubOptions& options) -> absl::StatusOr<std::unique_ptr<Hub>> {
      calls_.hubs.push_back(options);
      return std::make_unique<FakeHub>(&calls_);
    };
    job_.to_stdout = [this](absl::string_view text) {
      absl::StrAppend(&out_, text);
    };
    job_.to_stderr = [this](absl::string_view text) {
      absl::StrAppend(&err_, text);
    };
    // Who has to be killed is killed at once, or the test hangs.
    job_.told_ns = job_.asked_ns = 0;
    flags_.nproc_per_node = "2";
    descriptors_ = OpenDescriptors();
  }

  ~LauncherTest() override {
    EXPECT_EQ(OpenDescriptors(), descriptors_);
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
  }

  std::string File(const std::string& name) const {
    return JoinPath(directory_, name);
  }
  std::string Text(const std::string& name) const {
    return RealOs().ReadFile(File(name), 1 << 20).value_or("none");
  }

  absl::StatusOr<LaunchResult> TryLaunch(const std::string& script) {
    absl::StatusOr<LaunchOptions> options = ResolveLaunch(flags_, 2);
    if (!options.ok()) return options.status();
    job_.options = *options;
    if (grace_ns_ != 0) job_.options.grace_ns = grace_ns_;
    job_.argv = {"/bin/sh", "-c", script};
    return Launch(job_);
  }

  LaunchResult MustLaunch(const std::string& script) {
    absl::StatusOr<LaunchResult> result = TryLaunch(script);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : LaunchResult();
  }

  std::string directory_;
  LaunchFlags flags_;
  LaunchJob job_;
  Calls calls_;
  std::string out_, err_;
  uint64_t grace_ns_ = 0;
  size_t descriptors_ = 0;
};

TEST_F(LauncherTest, RanksKnowTheirPlace) {
  job_.variables["WEFT_SEED"] = "5";
  job_.variables["RANK"] = "77";
  job_.variables["WEFT_SECRET_FILE"] = "x";
  const LaunchResult result = MustLaunch(
      "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE "
      "$MASTER_ADDR:$MASTER_PORT $WEFT_COORDINATOR $WEFT_LAUNCHER "
      "$WEFT_SEED $TORCHELASTIC_RESTART_COUNT $WEFT_SECRET_FILE");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(out_, "0/2 0/2 127.0.0.1:4711 127.0.0.1:4711 env 5 0\n");
  EXPECT_EQ(Text("logs/rank_00001.out"),
            "1/2 1/2 127.0.0.1:4711 127.0.0.1:4711 env 5 0\n");
  EXPECT_EQ(Text("logs/rank_00000.out"), out_);
  EXPECT_EQ(err_, "");
  ASSERT_EQ(calls_.hubs.size(), 1u);
  EXPECT_EQ(calls_.hubs[0].listen, "127.0.0.1:0");
  EXPECT_EQ(calls_.hubs[0].ranks, 2u);
}

TEST_F(LauncherTest, TheSecretComesByADescriptorOnly) {
  const LaunchResult result = MustLaunch(
      "read secret <&$WEFT_SECRET_FD; echo $secret; "
      "env | grep -c \"$secret\"; read more <&$WEFT_SECRET_FD || echo once; "
      "ls /proc/$$/fd");
  EXPECT_EQ(result.exit_code, 0);
  const std::vector<std::string> lines = absl::StrSplit(out_, '\n');
  ASSERT_GE(lines.size(), 6u);
  EXPECT_TRUE(calls_.hubs[0].secret == lines[0]);
  EXPECT_EQ(lines[0].size(), 64u);
  EXPECT_EQ(lines[1], "0");
  EXPECT_EQ(lines[2], "once");
  // Standard streams and the secret.
  EXPECT_EQ(lines.size(), 3u + 4u + 1u) << out_;
}

TEST_F(LauncherTest, OneRankNeedsNoHub) {
  flags_.nproc_per_node = "1";
  EXPECT_EQ(MustLaunch("exit 3").exit_code, 3);
  EXPECT_THAT(calls_.hubs, IsEmpty());
  EXPECT_EQ(err_, "weft: rank 0 failed first: it ended with exit code 3\n");
}

TEST_F(LauncherTest, TheFirstFailureIsTheResult) {
  flags_.nproc_per_node = "4";
  const LaunchResult result =
      MustLaunch("[ $RANK = 2 ] && exit 7; exec sleep 1000");
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(err_,
            "weft: rank 2 failed first: it ended with exit code 7\n"
            "weft: 3 other ranks stopped because of it\n");
  EXPECT_THAT(calls_.failures, ElementsAre("2: rank 2 ended with exit code 7"));
}

TEST_F(LauncherTest, ASignalHasItsName) {
  const LaunchResult result =
      MustLaunch("[ $RANK = 1 ] && kill -SEGV $$; exec sleep 1000");
  EXPECT_EQ(result.exit_code, 128 + SIGSEGV);
  EXPECT_THAT(err_, HasSubstr("rank 1 failed first: it was killed by SIGSEGV"));
}

// In its words a file's name may have what a terminal would obey.
TEST_F(LauncherTest, ATerminalObeysNoRank) {
  MustLaunch(
      "printf '{\"code\": \"WEFT-5001\", \"message\": \"no \\\\u001b[2J\"}' > "
      "$WEFT_ERROR_FILE; exit 6");
  EXPECT_THAT(err_, HasSubstr("WEFT-5001: no \\x1b[2J\n"));
}

TEST_F(LauncherTest, WhatARankSaysOfItselfIsShown) {
  const LaunchResult result = MustLaunch(
      "[ $RANK = 1 ] || exec sleep 1000; "
      "echo '{\"code\": \"WEFT-6001\", \"message\": \"loss is nan\", "
      "\"host\": \"n1\", \"step\": 12}' > $WEFT_ERROR_FILE; exit 7");
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_THAT(err_, HasSubstr("weft: rank 1 failed first, on host n1 at step "
                              "12: WEFT-6001: loss is nan\n"));
}

// By the launcher, unless nobody else knows of it.
TEST_F(LauncherTest, AnErrorIsToldOnce) {
  flags_.nproc_per_node = "1";
  const std::string fail =
      "exec >&2; echo before; echo 'weft: error WEFT-1004: no'; "
      "echo ' job'; "
      "echo 'weft: see docs/errors/WEFT-1004.md'; echo after; exit 2";
  MustLaunch(fail);
  EXPECT_EQ(err_,
            "[r0] before\n[r0] after\n"
            "[r0] weft: error WEFT-1004: no\n[r0]  job\n"
            "[r0] weft: see docs/errors/WEFT-1004.md\n"
            "weft: rank 0 failed first: it ended with exit code 2\n");
  const std::string said = Text("logs/rank_00000.out");
  err_.clear();
  MustLaunch(absl::StrCat(
      "echo '{\"code\": \"WEFT-1004\", \"message\": \"rank 0: no job\", "
      "\"host\": \"n1\", \"step\": 0}' > $WEFT_ERROR_FILE; ",
      fail));
  EXPECT_EQ(err_,
            "[r0] before\n[r0] after\n"
            "weft: rank 0 failed first, on host n1: WEFT-1004: no job\n"
            "weft: see docs/errors/WEFT-1004.md\n");
  EXPECT_EQ(Text("logs/rank_00000.out"), said + said);
}

TEST_F(LauncherTest, TheCoordinatorKnowsBetterWhoWasFirst) {
  calls_.told = Silent(1);
  const LaunchResult result =
      MustLaunch("[ $RANK = 1 ] && exec sleep 1000; exit 138");
  EXPECT_EQ(result.exit_code, 138);
  EXPECT_THAT(err_,
              HasSubstr("rank 1 failed first: WEFT-7001: rank 1 is silent"));
}

// Not only at the end: the last rank ends when it has been told.
TEST_F(LauncherTest, WhatARankHasLostIsToldWhileOthersRun) {
  job_.told_ns = kVeryLong;
  calls_.told = Silent(1);
  job_.to_stderr = [this](absl::string_view text) {
    absl::StrAppend(&err_, text);
    if (!absl::StrContains(text, "rank 0 stopped")) return;
    std::ofstream(File("a")) << "go\n";
  };
  const LaunchResult result = MustLaunch(
      "[ $RANK = 1 ] && { read x < $DIR/a; exit 138; }; "
      "echo '{\"code\": \"WEFT-7001\", \"message\": \"rank 0: rank 1 is "
      "silent\"}' > $WEFT_ERROR_FILE; exit 138");
  EXPECT_EQ(result.exit_code, 138);
  EXPECT_THAT(err_, HasSubstr("weft: rank 0 stopped: WEFT-7001: rank 1 is "
                              "silent; waiting for the others to end\n"
                              "weft: rank 1 failed first: it ended with "));
}

// A rank that is stopped is lost; it is woken by what asks it to end, and may
// end by that before it learns why.
TEST_F(LauncherTest, HowItEndsThatWasAskedToIsNotTheResult) {
  job_.asked_ns = kVeryLong;
  calls_.told = Silent(1);
  for (const char* asleep : {
           "kill -STOP $$",
           "trap 'exit 143' TERM; kill -STOP $$; sleep 1000 & wait",
           "trap 'exit 0' TERM; kill -STOP $$; sleep 1000 & wait",
       }) {
    SCOPED_TRACE(asleep);
    err_.clear();
    const LaunchResult result = MustLaunch(absl::StrCat(
        "if [ $RANK = 1 ]; then echo $$ > $DIR/a; ", asleep, "; exit 9; fi; ",
        "read pid < $DIR/a; ",
        "until grep -q '^State:.T' /proc/$pid/status; do :; done; exit 138"));
    EXPECT_EQ(result.exit_code, 138);
    EXPECT_THAT(err_,
                HasSubstr("rank 1 failed first: WEFT-7001: rank 1 is silent"));
  }
}

// What it says itself counts, however late.
TEST_F(LauncherTest, WhoWasAskedMayFailWithACauseOfItsOwn) {
  job_.asked_ns = kVeryLong;
  calls_.told = Silent(1);
  const LaunchResult result = MustLaunch(
      "[ $RANK = 1 ] || { read x < $DIR/a; exit 138; }; "
      "trap 'echo \"{\\\"code\\\": \\\"WEFT-6001\\\"}\" > "
      "$WEFT_ERROR_FILE; exit 7' TERM; "
      "echo go > $DIR/a; sleep 1000 & wait");
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_THAT(err_, HasSubstr("rank 1 failed first, on host : WEFT-6001: "));
}

TEST_F(LauncherTest, WhoDoesNotListenIsKilled) {
  const LaunchResult result = MustLaunch(
      "if [ $RANK = 0 ]; then trap '' TERM; echo go > $DIR/a; "
      "exec sleep 1000; fi; read x < $DIR/a; exit 3");
  EXPECT_EQ(result.exit_code, 3);
}

TEST_F(LauncherTest, WhatRanksLeaveBehindGoes) {
  const LaunchResult result = MustLaunch(
      "[ $RANK = 0 ] || exit 0; sleep 1000 & echo $!; "
      "setsid sh -c 'echo $$; echo > $DIR/a; exec sleep 1000' & "
      "read x < $DIR/a; exit 0");
  EXPECT_EQ(result.exit_code, 0);
  const std::vector<std::string> lines = absl::StrSplit(out_, '\n');
  ASSERT_EQ(lines.size(), 3u) << out_;
  for (int i = 0; i < 2; ++i) {
    pid_t pid = 0;
    ASSERT_TRUE(absl::SimpleAtoi(lines[i], &pid));
    EXPECT_EQ(kill(pid, 0), -1);
  }
}

// Each rank notes what reached it, and ends as $1 says.
std::string StopScript(const std::string& number, const std::string& trapped,
                       const std::string& end) {
  return absl::StrCat(
      "trap 'echo got >> $DIR/got; ", end, "' ", trapped, "; ",
      "if [ $RANK = 1 ]; then echo ready > $DIR/a; else read x < $DIR/a; ",
      "kill -", number, " $PPID; fi; sleep 1000 & wait");
}

TEST_F(LauncherTest, SignalsAskRanksToStop) {
  grace_ns_ = kVeryLong;
  const LaunchResult saved = MustLaunch(StopScript("TERM", "TERM", "exit 0"));
  EXPECT_EQ(saved.exit_code, 0);
  EXPECT_EQ(saved.stop_signal, 0);
  EXPECT_EQ(Text("got"), "got\ngot\n");
  const LaunchResult stopped =
      MustLaunch(StopScript("INT", "INT", "trap - INT; kill -INT $$"));
  EXPECT_EQ(stopped.stop_signal, SIGINT);
  EXPECT_EQ(stopped.exit_code, 0);
  EXPECT_EQ(err_, "");
}

TEST_F(LauncherTest, SignalsOfBatchSystemsAskToo) {
  grace_ns_ = kVeryLong;
  const LaunchResult result =
      MustLaunch(StopScript("USR1", "TERM", "trap - TERM; kill -TERM $$"));
  EXPECT_EQ(result.stop_signal, SIGTERM);
  EXPECT_EQ(Text("got"), "got\ngot\n");
}

TEST_F(LauncherTest, AfterTheGraceTimeTheyAreKilled) {
  grace_ns_ = 1;
  const LaunchResult result = MustLaunch(
      "trap '' TERM; if [ $RANK = 1 ]; then echo ready > $DIR/a; else "
      "read x < $DIR/a; kill -TERM $PPID; fi; exec sleep 1000");
  EXPECT_EQ(result.stop_signal, SIGTERM);
}

TEST_F(LauncherTest, ASecondInterruptKillsAtOnce) {
  grace_ns_ = kVeryLong;
  const LaunchResult result = MustLaunch(
      "trap 'echo got > $DIR/b' INT; "
      "if [ $RANK = 1 ]; then trap '' INT; echo ready > $DIR/a; "
      "read x < $DIR/b; kill -INT $PPID; exec sleep 1000; fi; "
      "read x < $DIR/a; kill -INT $PPID; sleep 1000 & wait; sleep 1000");
  EXPECT_EQ(result.stop_signal, SIGINT);
}

// Ranks that write without end, into what nobody reads.
TEST_F(LauncherTest, SignalsAreHeardWhileNobodyReads) {
  grace_ns_ = kVeryLong;
  job_.full = [] { return true; };
  const LaunchResult result = MustLaunch(
      "if [ $RANK = 1 ]; then trap '' TERM; "
      "(while true; do echo much; done) & echo ready > $DIR/a; "
      "read x < $DIR/b; kill -TERM $PPID; wait; fi; "
      "trap 'echo got > $DIR/b' TERM; "
      "read x < $DIR/a; kill -TERM $PPID; sleep 1000 & wait; sleep 1000");
  EXPECT_EQ(result.stop_signal, SIGTERM);
}

// What they wrote is read when there is room again, and at the end in any case.
TEST_F(LauncherTest, NothingIsLostWhileThereIsNoRoom) {
  flags_.tee = "3";
  int looks = 0;
  job_.full = [&looks] { return ++looks % 4 != 0; };
  EXPECT_EQ(MustLaunch("for i in $(seq 500); do echo $RANK:$i; done").exit_code,
            0);
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 2 * 500);
}

// As a shell between does.
TEST_F(LauncherTest, TheCodeOfTheSignalIsTheSignal) {
  grace_ns_ = kVeryLong;
  const LaunchResult result =
      MustLaunch(StopScript("USR1", "TERM", "exit 143"));
  EXPECT_EQ(result.stop_signal, SIGTERM);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(err_, "");
}

// One that has not begun dies of the signal at once; another that has loses it.
TEST_F(LauncherTest, WhoLosesARankToTheSignalIsStopped) {
  grace_ns_ = job_.told_ns = kVeryLong;
  const LaunchResult result = MustLaunch(
      "if [ $RANK = 1 ]; then trap 'exit 138' TERM; echo ready > $DIR/a; "
      "else read x < $DIR/a; kill -TERM $PPID; fi; sleep 1000 & wait");
  EXPECT_EQ(result.stop_signal, SIGTERM);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(err_, "");
  EXPECT_EQ(MustLaunch(StopScript("TERM", "TERM", "exit 138")).exit_code, 138);
}

TEST_F(LauncherTest, AFailureWhileStoppingIsAFailure) {
  grace_ns_ = kVeryLong;
  const LaunchResult result = MustLaunch(StopScript("TERM", "TERM", "exit 6"));
  EXPECT_EQ(result.exit_code, 6);
}

TEST_F(LauncherTest, AllStartAgain) {
  flags_.max_restarts = "3";
  const LaunchResult result = MustLaunch(
      "echo $RANK >> $DIR/starts; [ $TORCHELASTIC_RESTART_COUNT = 2 ] && "
      "exit 0; [ $RANK = 1 ] && kill -KILL $$; exec sleep 1000");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.restarts, 2u);
  ASSERT_EQ(calls_.hubs.size(), 3u);
  EXPECT_EQ(calls_.hubs[2].epoch, 2u);
  EXPECT_EQ(calls_.hubs[2].job_id, calls_.hubs[0].job_id);
  EXPECT_THAT(err_, HasSubstr("killed by SIGKILL"));
  EXPECT_THAT(err_, HasSubstr("weft: restart 2 of 3: all ranks"));
}

TEST_F(LauncherTest, RestartsEnd) {
  flags_.max_restarts = "1";
  const LaunchResult result = MustLaunch("exit 1");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.restarts, 1u);
}

TEST_F(LauncherTest, WhatWouldComeAgainIsNotTriedAgain) {
  flags_.max_restarts = "5";
  for (int code : {2, 3, 5, 7}) {
    const LaunchResult result = MustLaunch(absl::StrCat("exit ", code));
    EXPECT_EQ(result.exit_code, code);
    EXPECT_EQ(result.restarts, 0u);
  }
  EXPECT_THAT(err_, HasSubstr("no restart: this would come again"));
}

// A launcher of another host than the first knows no more than its ranks.
TEST_F(LauncherTest, WhatWouldComeAgainOnAnotherHostIsNotTriedAgain) {
  flags_.nnodes = "2";
  flags_.node_rank = "1";
  flags_.master_addr = "192.0.2.1";
  flags_.secret_file = File("secret");
  ASSERT_TRUE(
      WriteFileAtomically(RealOs(), flags_.secret_file, "0123456789abcdef")
          .ok());
  ASSERT_EQ(chmod(flags_.secret_file.c_str(), 0600), 0);
  flags_.max_restarts = "2";
  const std::string script =
      "echo '{\"code\": \"WEFT-7001\", \"message\": \"lost\", "
      "\"cause\": \"$CAUSE\"}' > $WEFT_ERROR_FILE; exit 138";
  for (const auto& [name, restarts] :
       {std::pair("WEFT-6001", 0u), std::pair("WEFT-2007", 0u),
        std::pair("WEFT-5008", 2u), std::pair("WEFT-x", 2u)}) {
    SCOPED_TRACE(name);
    const LaunchResult result =
        MustLaunch(absl::StrReplaceAll(script, {{"$CAUSE", name}}));
    EXPECT_EQ(result.exit_code, 138);
    EXPECT_EQ(result.restarts, restarts);
  }
  EXPECT_THAT(err_, HasSubstr(" ended first, on host : WEFT-7001: lost\n"));
  EXPECT_THAT(err_, HasSubstr("no restart: this would come again"));
  EXPECT_THAT(calls_.hubs, IsEmpty());
}

TEST_F(LauncherTest, AnOldErrorIsNotThisOnes) {
  ASSERT_TRUE(RealOs().MakeDirectories(File("errors")).ok());
  ASSERT_TRUE(WriteFileAtomically(RealOs(), File("errors/rank_00001.json"),
                                  "{\"code\": \"WEFT-6001\"}")
                  .ok());
  MustLaunch("[ $RANK = 0 ] && exec sleep 1000; exit 1");
  EXPECT_THAT(err_, Not(HasSubstr("6001")));
}

TEST_F(LauncherTest, TheConsoleShowsTheFirstRankAndWarnings) {
  MustLaunch(
      "echo out; echo talk >&2; "
      "echo 'W20260102 03:04:05.1 4 x] no' >&2; printf part >&2");
  EXPECT_EQ(out_, "out\n");
  const std::vector<std::string> lines =
      absl::StrSplit(err_, '\n', absl::SkipEmpty());
  EXPECT_THAT(lines, UnorderedElementsAre(
                         "[r0] talk", "[r0] W20260102 03:04:05.1 4 x] no",
                         "[r0] part", "[r1] W20260102 03:04:05.1 4 x] no"));
  EXPECT_THAT(Text("logs/rank_00001.out"), HasSubstr("talk\n"));
}

TEST_F(LauncherTest, RedirectsAndTee) {
  flags_.redirects = "1:3";
  flags_.tee = "0:1";
  job_.log_directory = File("elsewhere");
  MustLaunch("echo out; echo err >&2");
  EXPECT_EQ(out_, "[r0] out\n");
  EXPECT_EQ(err_, "[r0] err\n");
  EXPECT_EQ(Text("elsewhere/rank_00000.out"), "out\n");
  EXPECT_THAT(Text("elsewhere/rank_00001.out"), HasSubstr("err\n"));
  EXPECT_EQ(Text("logs/rank_00001.out"), "none");
}

TEST_F(LauncherTest, NoProgram) {
  absl::StatusOr<LaunchOptions> options = ResolveLaunch(flags_, 2);
  ASSERT_TRUE(options.ok());
  job_.options = *options;
  job_.argv = {"/nowhere/weft"};
  absl::Status status = Launch(job_).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kBadLaunch)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/weft"));
}

TEST_F(LauncherTest, WhatIsLeftBehindGoesWhereARankCannotStart) {
  const pid_t orphan = fork();  // of this process, as adopted ones are
  if (orphan == 0) {
    pause();
    _exit(0);
  }
  ASSERT_GT(orphan, 0);
  absl::StatusOr<LaunchOptions> options = ResolveLaunch(flags_, 2);
  ASSERT_TRUE(options.ok());
  job_.options = *options;
  job_.argv = {"/nowhere/weft"};
  EXPECT_TRUE(IsError(Launch(job_).status(), ErrorCode::kBadLaunch));
  EXPECT_NE(kill(orphan, 0), 0);
}

// The launcher may have been started by one that closed them all.
TEST_F(LauncherTest, WithoutStandardDescriptors) {
  const pid_t child = fork();
  if (child == 0) {
    for (int fd = 0; fd < 4; ++fd) close(fd);
    std::string out;
    job_.to_stdout = [&out](absl::string_view text) {
      absl::StrAppend(&out, text);
    };
    absl::StatusOr<LaunchResult> result = TryLaunch(
        "read secret <&$WEFT_SECRET_FD; echo ${#secret}; echo err >&2; "
        "ls /proc/$$/fd; read input || echo none");
    if (!result.ok() || result->exit_code != 0) _exit(1);
    if (out != "64\n0\n1\n2\n3\nnone\n") _exit(2);
    // Where "err" stands among the rest is chance.
    const std::string other = Text("logs/rank_00001.out");
    _exit(absl::StrContains(other, "err\n") && other.size() == out.size() + 4
              ? 0
              : 3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// As kernels before 5.11 do, and filters of containers.
TEST_F(LauncherTest, WithoutCloseRange) {
  const pid_t child = fork();
  if (child == 0) {
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter = {4, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
      _exit(0);  // not here
    }
    if (dup(2) < 0) _exit(4);  // would be inherited
    std::string out;
    job_.to_stdout = [&out](absl::string_view text) {
      absl::StrAppend(&out, text);
    };
    absl::StatusOr<LaunchResult> result = TryLaunch("ls /proc/$$/fd");
    if (!result.ok() || result->exit_code != 0) _exit(1);
    _exit(out == "0\n1\n2\n3\n" ? 0 : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(LauncherTest, NoHub) {
  job_.hub = [](const HubOptions&) -> absl::StatusOr<std::unique_ptr<Hub>> {
    return MakeError(ErrorCode::kBadLaunch, "the port is taken");
  };
  EXPECT_TRUE(IsError(TryLaunch("exit 0").status(), ErrorCode::kBadLaunch));
}

// Errors of a launch in a process with limits of its own; 0: it went well.
TEST_F(LauncherTest, TooFewDescriptors) {
  auto code_with = [&](rlim_t soft, rlim_t hard) {
    const pid_t child = fork();
    if (child == 0) {
      const rlimit limit = {soft, hard};
      if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(99);
      const absl::Status status = TryLaunch("exit 0").status();
      const bool few = IsError(status, ErrorCode::kNoDescriptor);
      _exit(status.ok() ? 0 : few ? 1 : 2);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(code_with(30, 30), 1);
  EXPECT_EQ(code_with(30, 64), 0);  // it may take more, and does
}

TEST_F(LauncherTest, NoRankOutlivesAKilledLauncher) {
  AdoptOrphans();  // so that the ranks' ends are seen here
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t launcher = fork();
  if (launcher == 0) {
    job_.to_stdout = [&](absl::string_view text) {
      if (write(ready[1], text.data(), text.size()) < 0) _exit(1);
    };
    flags_.tee = "3";
    MustLaunch("echo $$; exec sleep 1000");
    _exit(0);
  }
  close(ready[1]);
  // "[r0] 123\n" of both, in some order.
  std::string said;
  char c = 0;
  while (std::count(said.begin(), said.end(), '\n') < 2) {
    ASSERT_EQ(read(ready[0], &c, 1), 1);
    said += c;
  }
  close(ready[0]);
  kill(launcher, SIGKILL);
  ASSERT_EQ(waitpid(launcher, nullptr, 0), launcher);
  for (absl::string_view line : absl::StrSplit(said, '\n', absl::SkipEmpty())) {
    pid_t pid = 0;
    ASSERT_TRUE(absl::SimpleAtoi(line.substr(line.find(' ') + 1), &pid));
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid) << line;
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
}

RankEnd End(uint32_t rank, int exit_code, uint64_t order, bool asked = false) {
  RankEnd end;
  end.rank = rank;
  end.end.exit_code = exit_code;
  end.order = order;
  end.asked = asked;
  return end;
}

TEST(FindFirstCauseTest, WhoLostAPeerIsNotTheCause) {
  const FirstCause cause = FindFirstCause(
      RealOs(), "/nowhere",
      {End(0, 138, 0), End(1, 0, 1), End(2, 4, 2), End(3, 6, 3)}, std::nullopt);
  EXPECT_EQ(cause.rank, 2u);
  EXPECT_EQ(cause.exit_code, 4);
  EXPECT_EQ(cause.others, 2u);
}

TEST(FindFirstCauseTest, ARankOfAnotherHost) {
  runtime::JobFailure told;
  told.rank = 7;
  told.status = MakeError(ErrorCode::kNotFinite, "loss is nan");
  const FirstCause cause = FindFirstCause(
      RealOs(), "/nowhere", {End(0, 138, 1), End(1, 138, 0)}, told);
  EXPECT_EQ(cause.exit_code, 138);
  EXPECT_THAT(ReportLines(cause),
              ElementsAre("rank 7 failed first: WEFT-6001: loss is nan",
                          "2 other ranks stopped because of it",
                          "see docs/errors/WEFT-6001.md"));
  EXPECT_TRUE(cause.would_come_again);
}

TEST(FindFirstCauseTest, NeverZero) {
  const FirstCause cause = FindFirstCause(
      RealOs(), "/nowhere", {End(0, 138, 1), End(1, 0, 0)}, Silent(1));
  EXPECT_EQ(cause.exit_code, 138);
  EXPECT_EQ(cause.message, "WEFT-7001: rank 1 is silent");
}

TEST(FindFirstCauseTest, WhoWasAskedHasTheCodeOfWhatWasTold) {
  RankEnd killed = End(1, 0, 1, /*asked=*/true);
  for (int number : {SIGTERM, SIGKILL}) {
    killed.end.signal = number;
    const std::vector<RankEnd> ends = {End(0, 138, 0), killed};
    EXPECT_EQ(FindFirstCause(RealOs(), "/nowhere", ends, Silent(1)).exit_code,
              138);
    runtime::JobFailure told = Silent(1);
    told.status = MakeError(ErrorCode::kNotFinite, "loss is nan");
    EXPECT_EQ(FindFirstCause(RealOs(), "/nowhere", ends, told).exit_code, 7);
  }
  // Nobody here ended by itself, and the cause is of another host.
  EXPECT_EQ(FindFirstCause(RealOs(), "/nowhere", {killed}, Silent(7)).exit_code,
            138);
}

TEST(FindFirstCauseTest, WhoDidNotComeHasNotFailedFirst) {
  runtime::JobFailure told;
  told.rank = 1;
  told.status =
      MakeError(ErrorCode::kPeerLost, "after 60 s these have not come: 1");
  told.came = false;
  const FirstCause cause =
      FindFirstCause(RealOs(), "/nowhere",
                     {End(0, 138, 0), End(1, 143, 1, /*asked=*/true)}, told);
  EXPECT_EQ(cause.exit_code, 138);
  EXPECT_EQ(ReportLines(cause)[0],
            "rank 1 did not come: WEFT-7001: after 60 s these have not come: "
            "1");
}

// The coordinator knows of a silent rank at which step it was silent, the rank
// itself how far it came.
TEST(FindFirstCauseTest, AStoppedRankIsAtOneStep) {
  const std::string directory =
      JoinPath(::testing::TempDir(), absl::StrCat("one-step-", getpid()));
  ASSERT_TRUE(RealOs().MakeDirectories(directory).ok());
  ASSERT_TRUE(
      WriteFileAtomically(RealOs(), ErrorFile(directory, 1),
                          R"({"code": "WEFT-7001", "host": "n1", "step": 13,
                              "message": "silent for 1 s, at step 12, act 3"})")
          .ok());
  const FirstCause cause = FindFirstCause(
      RealOs(), directory, {End(0, 138, 0), End(1, 138, 1)}, Silent(1));
  EXPECT_EQ(ReportLines(cause)[0],
            "rank 1 failed first, on host n1: WEFT-7001: silent for 1 s, at "
            "step 12, act 3");
}

}  // namespace
}  // namespace weft::launch
