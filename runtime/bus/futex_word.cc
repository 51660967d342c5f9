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
