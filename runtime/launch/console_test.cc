#include "runtime/launch/console.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "gtest/gtest.h"

namespace weft::launch {
namespace {

// A pipe; Read takes what is there, and waits for `bytes` of it.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe2(fds_, O_CLOEXEC), 0); }
  ~Pipe() { Close(); }
  int in() const { return fds_[1]; }
  void Close() {
    for (int& fd : fds_) {
      if (fd >= 0) close(fd);
      fd = -1;
    }
  }
  void CloseReader() {
    close(fds_[0]);
    fds_[0] = -1;
  }
  std::string Read(size_t bytes) {
    std::string text(bytes, '\0');
    size_t size = 0;
    while (size < bytes) {
      const ssize_t got = read(fds_[0], text.data() + size, bytes - size);
      if (got <= 0) break;
      size += static_cast<size_t>(got);
    }
    text.resize(size);
    return text;
  }

 private:
  int fds_[2];
};

TEST(ConsoleTest, KeepsTheOrderOfBothStreams) {
  Pipe both;
  auto console = Console::Open(both.in(), both.in()).value();
  for (int i = 0; i < 100; ++i) {
    console->Write(i % 3 == 0 ? Stream::kErr : Stream::kOut, std::to_string(i));
  }
  EXPECT_TRUE(console->Finish(Console::kForEver));
  std::string all;
  for (int i = 0; i < 100; ++i) all += std::to_string(i);
  EXPECT_EQ(both.Read(all.size()), all);
  EXPECT_EQ(console->error(Stream::kOut), 0);
}

TEST(ConsoleTest, NobodyWaitsForAReaderThatHasStopped) {
  Pipe out;
  auto console = Console::Open(out.in(), out.in()).value();
  const std::string line(1000, 'x');
  size_t bytes = 0;
  while (!console->full()) {
    console->Write(Stream::kOut, line);
    bytes += line.size();
  }
  EXPECT_GE(bytes, Console::kRoom);
  EXPECT_FALSE(console->Finish(1'000'000));
  // One more is taken all the same, and all comes once he reads.
  console->Write(Stream::kErr, "end");
  EXPECT_EQ(out.Read(bytes + 3), std::string(bytes, 'x') + "end");
  EXPECT_TRUE(console->Finish(Console::kForEver));
  EXPECT_FALSE(console->full());
}

// It goes while its thread still waits in write.
TEST(ConsoleTest, IsLeftBehindWhereNobodyReads) {
  Pipe out;
  auto console = Console::Open(out.in(), out.in()).value();
  console->Write(Stream::kOut, std::string(1 << 20, 'x'));
  console->Finish(1'000'000);
  console.reset();
  EXPECT_EQ(out.Read(1 << 20), std::string(1 << 20, 'x'));
}

TEST(ConsoleTest, AReaderThatLeftIsAnError) {
  std::signal(SIGPIPE, SIG_IGN);
  Pipe out, err;
  auto console = Console::Open(out.in(), err.in()).value();
  out.CloseReader();
  console->Write(Stream::kOut, "lost");
  console->Write(Stream::kErr, "told");
  console->Write(Stream::kOut, "lost");
  EXPECT_TRUE(console->Finish(Console::kForEver));
  EXPECT_EQ(console->error(Stream::kOut), EPIPE);
  EXPECT_EQ(console->error(Stream::kErr), 0);
  EXPECT_EQ(err.Read(4), "told");
}

}  // namespace
}  // namespace weft::launch
