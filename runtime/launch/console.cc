#include "runtime/launch/console.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <deque>
#include <string>
#include <utility>

#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "runtime/pool/thread.h"

namespace weft::launch {

class Console::State {
 public:
  State(int out, int err) : fds_{out, err} {}

  void Add(Stream stream, absl::string_view text) {
    if (text.empty()) return;
    MutexLock lock(&mu_);
    waiting_ += text.size();
    texts_.emplace_back(static_cast<int>(stream), text);
    changed_.NotifyAll();
  }

  bool full() const {
    MutexLock lock(&mu_);
    return waiting_ >= kRoom;
  }

  int error(Stream stream) const {
    MutexLock lock(&mu_);
    return errors_[static_cast<int>(stream)];
  }

  bool AwaitEmpty(uint64_t timeout_ns) {
    const int64_t begin = RealClock().MonotonicNs();
    MutexLock lock(&mu_);
    while (waiting_ != 0) {
      const uint64_t passed =
          static_cast<uint64_t>(RealClock().MonotonicNs() - begin);
      if (passed >= timeout_ns) return false;
      const uint64_t left = timeout_ns - passed;
      changed_.WaitFor(&mu_, std::chrono::nanoseconds(left < kLongestWaitNs
                                                          ? left
                                                          : kLongestWaitNs));
    }
    return true;
  }

  void End() {
    MutexLock lock(&mu_);
    ending_ = true;
    changed_.NotifyAll();
  }

  void Run() {
    MutexLock lock(&mu_);
    while (true) {
      while (texts_.empty() && !ending_) {
        changed_.WaitFor(&mu_, std::chrono::nanoseconds(kLongestWaitNs));
      }
      if (texts_.empty()) return;
      const auto [index, text] = std::move(texts_.front());
      texts_.pop_front();
      int error = errors_[index];
      if (error == 0) {
        mu_.Unlock();
        error = WriteAll(fds_[index], text);
        mu_.Lock();
        errors_[index] = error;
      }
      waiting_ -= text.size();
      if (texts_.empty()) changed_.NotifyAll();
    }
  }

 private:
  static constexpr uint64_t kLongestWaitNs = 1'000'000'000;

  // Who shares the descriptor may have made it one that does not wait.
  static int WriteAll(int fd, absl::string_view text) {
    while (!text.empty()) {
      const ssize_t wrote = write(fd, text.data(), text.size());
      if (wrote >= 0) {
        text.remove_prefix(static_cast<size_t>(wrote));
      } else if (errno == EAGAIN) {
        pollfd room = {fd, POLLOUT, 0};
        poll(&room, 1, -1);
      } else if (errno != EINTR) {
        return errno;
      }
    }
    return 0;
  }

  const int fds_[2];
  mutable Mutex mu_;
  CondVar changed_;
  std::deque<std::pair<int, std::string>> texts_ WEFT_GUARDED_BY(mu_);
  size_t waiting_ WEFT_GUARDED_BY(mu_) = 0;  // bytes, of the one under way too
  int errors_[2] WEFT_GUARDED_BY(mu_) = {0, 0};
  bool ending_ WEFT_GUARDED_BY(mu_) = false;
};

absl::StatusOr<std::unique_ptr<Console>> Console::Open(int out, int err) {
  auto state = std::make_shared<State>(out, err);
  WEFT_ASSIGN_OR_RETURN(
      runtime::Thread thread,
      runtime::Thread::Start("weft-console", [state] { state->Run(); }));
  thread.Detach();
  return std::unique_ptr<Console>(new Console(std::move(state)));
}

Console::Console(std::shared_ptr<State> state) : state_(std::move(state)) {}
Console::~Console() { state_->End(); }

void Console::Write(Stream stream, absl::string_view text) {
  state_->Add(stream, text);
}
bool Console::full() const { return state_->full(); }
bool Console::Finish(uint64_t timeout_ns) {
  return state_->AwaitEmpty(timeout_ns);
}
int Console::error(Stream stream) const { return state_->error(stream); }

}  // namespace weft::launch
