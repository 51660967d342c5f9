#include "runtime/bus/futex_word.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace weft::runtime {

// Not the private variants: the word may lie in memory that processes share.
bool FutexWord::SleepFor(uint32_t seen, uint64_t timeout_ns) {
  timespec ts;
  ts.tv_sec = static_cast<time_t>(timeout_ns / 1000000000u);
  ts.tv_nsec = static_cast<long>(timeout_ns % 1000000000u);
  sleeps_.fetch_add(1, std::memory_order_relaxed);
  long rc = syscall(SYS_futex, raw(), FUTEX_WAIT, seen, &ts, nullptr, 0);
  return !(rc != 0 && errno == ETIMEDOUT);
}

namespace {

// As in linux/futex.h, which may be older than the kernel.
constexpr long kFutexWaitv = 449;
constexpr uint32_t kSize32 = 2;
struct Waiter {
  uint64_t value;
  uint64_t address;
  uint32_t flags;
  uint32_t reserved;
};

}  // namespace

bool FutexWord::SleepFor(uint32_t seen, uint64_t timeout_ns,
                         const Other* others, size_t num_others) {
  Waiter waiters[1 + kMostOthers];
  waiters[0] = {seen, reinterpret_cast<uint64_t>(raw()), kSize32, 0};
  for (size_t i = 0; i < num_others; ++i) {
    waiters[1 + i] = {others[i].seen,
                      reinterpret_cast<uint64_t>(others[i].word), kSize32, 0};
  }
  const uint64_t until = NowNs() + timeout_ns;
  timespec ts;
  ts.tv_sec = static_cast<time_t>(until / 1000000000u);
  ts.tv_nsec = static_cast<long>(until % 1000000000u);
  sleeps_.fetch_add(1, std::memory_order_relaxed);
  const long rc =
      syscall(kFutexWaitv, waiters, 1 + num_others, 0, &ts, CLOCK_MONOTONIC);
  if (rc >= 0 || errno == EAGAIN || errno == EINTR) return true;
  if (errno == ETIMEDOUT) return false;
  // The kernel takes one of the words for none. Not to sleep at all would burn
  // a core for ever.
  return SleepFor(seen, timeout_ns);
}

bool FutexWord::CanSleepOnSeveral() {
  static const bool can =
      syscall(kFutexWaitv, nullptr, 0, 0, nullptr, 0) < 0 && errno == EINVAL;
  return can;
}

void FutexWord::Wake() {
  syscall(SYS_futex, raw(), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

uint64_t NowNs() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<uint64_t>(ts.tv_sec) * 1000000000u +
         static_cast<uint64_t>(ts.tv_nsec);
}

}  // namespace weft::runtime
