#include "runtime/rendezvous/meeting_point.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/os.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/pool/thread.h"
#include "runtime/rendezvous/job_secret.h"

namespace weft::runtime {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kLong = 30'000'000'000;

// Other runs of this test may be going on, in sandboxes whose processes have
// the same ids.
std::string Name(const std::string& text) {
  static const int64_t now = RealClock().UnixNs();
  return absl::StrCat(text, "-", getpid(), "-", now);
}

TEST(MeetingPointTest, TheNoteReachesAll) {
  auto point =
      MeetingPoint::Open(Name("a"), Secret::Of("127.0.0.1:4711 secret"));
  ASSERT_TRUE(point.ok()) << point.status();
  for (int i = 0; i < 5; ++i) {
    absl::StatusOr<Secret> note = MeetingPoint::Ask(Name("a"), kLong);
    ASSERT_TRUE(note.ok()) << note.status();
    EXPECT_TRUE(*note == "127.0.0.1:4711 secret");
  }
}

TEST(MeetingPointTest, WhoComesFirstWaits) {
  absl::StatusOr<Secret> note;
  absl::StatusOr<Thread> asking = Thread::Start(
      "asking", [&] { note = MeetingPoint::Ask(Name("b"), kLong); });
  ASSERT_TRUE(asking.ok());
  auto point =
      MeetingPoint::Open(Name("b"), Secret::Of(std::string(4096, 'n')));
  ASSERT_TRUE(point.ok()) << point.status();
  asking->Join();
  ASSERT_TRUE(note.ok()) << note.status();
  EXPECT_EQ(note->size(), 4096u);
}

TEST(MeetingPointTest, NamesAreOneProcesssOnly) {
  auto first = MeetingPoint::Open(Name("c"), Secret::Of("1"));
  ASSERT_TRUE(first.ok());
  absl::Status second = MeetingPoint::Open(Name("c"), Secret::Of("2")).status();
  EXPECT_TRUE(IsError(second, ErrorCode::kBadLaunch)) << second;
  EXPECT_THAT(std::string(second.message()), HasSubstr("two ranks 0"));
  EXPECT_TRUE(MeetingPoint::Open(Name("d"), Secret::Of("2")).ok());
  first->reset();
  EXPECT_TRUE(MeetingPoint::Open(Name("c"), Secret::Of("2")).ok());
}

TEST(MeetingPointTest, NobodyComes) {
  absl::Status status = MeetingPoint::Ask(Name("e"), 2'000'000).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kPeerLost)) << status;
}

// As when the process that has the name is stopped, or is another user's.
TEST(MeetingPointTest, WhoNeverAnswersIsNotWaitedForLonger) {
  const std::string name = Name("g");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto point = MeetingPoint::Open(name, Secret::Of("late"));
    if (write(ready[1], point.ok() ? "y" : "n", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char said = 0;
  ASSERT_EQ(read(ready[0], &said, 1), 1);
  EXPECT_EQ(said, 'y');
  kill(child, SIGSTOP);
  siginfo_t stopped;
  ASSERT_EQ(waitid(P_PID, child, &stopped, WSTOPPED | WNOWAIT), 0);
  // Who asked stays in his queue: at some time there is no room for more.
  for (int i = 0; i < 300; ++i) {
    const absl::Status status = MeetingPoint::Ask(name, 1'000'000).status();
    ASSERT_TRUE(IsError(status, ErrorCode::kPeerLost)) << status;
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
}

TEST(MeetingPointTest, NothingIsLeftOfAKilledProcess) {
  const std::string name = Name("f");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto point = MeetingPoint::Open(name, Secret::Of("dead"));
    if (write(ready[1], point.ok() ? "y" : "n", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char said = 0;
  ASSERT_EQ(read(ready[0], &said, 1), 1);
  EXPECT_EQ(said, 'y');
  EXPECT_TRUE(*MeetingPoint::Ask(name, kLong) == "dead");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(MeetingPoint::Ask(name, 2'000'000).ok());
  EXPECT_TRUE(MeetingPoint::Open(name, Secret::Of("alive")).ok());
  close(ready[0]);
  close(ready[1]);
}

TEST(JobSecretTest, EachJobHasItsOwn) {
  absl::StatusOr<Secret> one = NewJobSecret();
  absl::StatusOr<Secret> two = NewJobSecret();
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(one->size(), 64u);
  EXPECT_TRUE(*one != two->view());
}

TEST(JobSecretTest, ADescriptorIsReadOnceAndClosed) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  ASSERT_EQ(write(pipes[1], "0123456789abcdef\n", 17), 17);
  close(pipes[1]);
  WorkerSpec spec;
  spec.secret_fd = pipes[0];
  EXPECT_TRUE(*ReadJobSecret(spec) == "0123456789abcdef");
  EXPECT_LT(fcntl(pipes[0], F_GETFD), 0);
  EXPECT_TRUE(IsError(ReadJobSecret(spec).status(), ErrorCode::kBadLaunch));
}

TEST(JobSecretTest, FilesAreTheOwnersOnly) {
  WorkerSpec spec;
  EXPECT_TRUE(ReadJobSecret(spec)->empty());
  spec.secret_file = JoinPath(::testing::TempDir(), Name("secret"));
  ASSERT_TRUE(
      WriteFileAtomically(RealOs(), spec.secret_file, "0123456789abcdef").ok());
  ASSERT_EQ(chmod(spec.secret_file.c_str(), 0640), 0);
  EXPECT_THAT(std::string(ReadJobSecret(spec).status().message()),
              HasSubstr("others may read it"));
  ASSERT_EQ(chmod(spec.secret_file.c_str(), 0600), 0);
  EXPECT_TRUE(*ReadJobSecret(spec) == "0123456789abcdef");
  ASSERT_TRUE(
      WriteFileAtomically(RealOs(), spec.secret_file, "0123456789").ok());
  ASSERT_EQ(chmod(spec.secret_file.c_str(), 0600), 0);
  EXPECT_THAT(std::string(ReadJobSecret(spec).status().message()),
              HasSubstr("it has 10 bytes"));
  ASSERT_TRUE(RealOs().RemoveAll(spec.secret_file).ok());
  EXPECT_TRUE(IsError(ReadJobSecret(spec).status(), ErrorCode::kBadLaunch));
}

}  // namespace
}  // namespace weft::runtime
