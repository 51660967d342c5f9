#include "core/base/os.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "core/testing/faulty_os.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Scratch(const std::string& name) {
  std::string dir = JoinPath(std::getenv("TEST_TMPDIR"), name);
  RealOs().RemoveAll(dir).IgnoreError();
  EXPECT_TRUE(RealOs().MakeDirectories(dir).ok());
  return dir;
}

TEST(OsTest, WritesAndReads) {
  Os& os = RealOs();
  std::string dir = Scratch("rw");
  std::string path = JoinPath(dir, "a");
  ASSERT_TRUE(WriteFileAtomically(os, path, "one").ok());
  ASSERT_TRUE(WriteFileAtomically(os, path, "two").ok());
  EXPECT_EQ(os.ReadFile(path, 100).value(), "two");
  auto file = os.Append(path);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Append("+").ok());
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_EQ(os.ReadFile(path, 100).value(), "two+");
  ASSERT_TRUE(os.Truncate(path, 1).ok());
  EXPECT_EQ(os.ReadFile(path, 100).value(), "t");
  EXPECT_THAT(os.List(dir).value(), ElementsAre("a"));
}

TEST(OsTest, ErrorsNameThePath) {
  Os& os = RealOs();
  absl::Status missing = os.ReadFile("/no/such/file", 10).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("/no/such/file"));
  std::string dir = Scratch("err");
  EXPECT_FALSE(os.ReadFile(dir, 10).ok());
  std::string path = JoinPath(dir, "big");
  ASSERT_TRUE(WriteFileAtomically(os, path, "0123456789").ok());
  EXPECT_EQ(os.ReadFile(path, 9).status().code(),
            absl::StatusCode::kResourceExhausted);
}

// Others may write to the directory, and what they put there in advance must
// neither hang a run nor send it to other files.
TEST(OsTest, WritesToNothingThatWasPutInItsWay) {
  Os& os = RealOs();
  std::string dir = Scratch("planted");
  std::string path = JoinPath(dir, "a"), victim = JoinPath(dir, "victim");
  ASSERT_TRUE(WriteFileAtomically(os, victim, "keep").ok());
  ASSERT_EQ(symlink(victim.c_str(), (path + ".tmp").c_str()), 0);
  ASSERT_TRUE(WriteFileAtomically(os, path, "text").ok());
  EXPECT_EQ(os.ReadFile(path, 100).value(), "text");
  ASSERT_EQ(mkfifo((path + ".tmp").c_str(), 0600), 0);
  ASSERT_TRUE(WriteFileAtomically(os, path, "more").ok());
  EXPECT_EQ(os.ReadFile(path, 100).value(), "more");
  std::string fifo = JoinPath(dir, "fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(os.Append(fifo).status().code(),
            absl::StatusCode::kFailedPrecondition);
  // With a reader it opens, and is no file all the same.
  int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_EQ(os.Append(fifo).status().code(),
            absl::StatusCode::kFailedPrecondition);
  close(reader);
  std::string lock = JoinPath(dir, "lock");
  ASSERT_EQ(symlink(victim.c_str(), lock.c_str()), 0);
  EXPECT_FALSE(os.Lock(lock).ok());
  EXPECT_EQ(os.ReadFile(victim, 100).value(), "keep");
  // A directory of the name stays.
  ASSERT_TRUE(os.MakeDirectories(JoinPath(dir, "d")).ok());
  EXPECT_FALSE(os.Create(JoinPath(dir, "d")).ok());
}

TEST(OsTest, ReadsRegularFilesOnly) {
  std::string fifo = JoinPath(Scratch("fifo"), "f");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {fifo, std::string("/dev/zero")}) {
    absl::Status status = RealOs().ReadFile(path, 10).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
}

TEST(OsTest, AtomicWriteKeepsTheOldContentsWhateverFails) {
  std::string dir = Scratch("atomic");
  std::string path = JoinPath(dir, "a");
  FaultyOs os(RealOs());
  ASSERT_TRUE(WriteFileAtomically(os, path, "old").ok());
  int64_t calls = os.calls();
  ASSERT_GE(calls, 5);  // create, write, sync, close, rename, sync directory
  for (int64_t n = 0; n < calls; ++n) {
    os.FailAt(n, absl::ResourceExhaustedError("No space left on device"));
    EXPECT_FALSE(WriteFileAtomically(os, path, "new").ok()) << n;
    std::string now = RealOs().ReadFile(path, 100).value();
    // Only the last call, which makes the rename durable, comes after it.
    EXPECT_EQ(now, n + 1 < calls ? "old" : "new") << n;
    EXPECT_THAT(RealOs().List(dir).value(), ElementsAre("a"));
  }
}

TEST(OsTest, OneLockAtATimeWhateverWasThere) {
  std::string path = JoinPath(Scratch("lock"), "lock");
  // Of a process that died long ago, whoever has its number now.
  ASSERT_TRUE(WriteFileAtomically(RealOs(), path, "1\n").ok());
  auto first = RealOs().Lock(path);
  ASSERT_TRUE(first.ok()) << first.status();
  absl::Status second = RealOs().Lock(path).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(second.message()),
              HasSubstr(absl::StrCat("process ", getpid(), " holds")));
  first->reset();
  EXPECT_TRUE(RealOs().Lock(path).ok());
}

}  // namespace
}  // namespace weft
