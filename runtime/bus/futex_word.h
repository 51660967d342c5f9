// The one 32-bit word on which a worker sleeps.
//
// Everything that can give a sleeping worker something to do - a message from
// another worker, a device's host_signal, a plugin's notify - bumps this word
// and wakes the sleeper. The worker looks for work, announces that it is about
// to sleep, looks again, and sleeps only while the word keeps the value that it
// saw; a bump in between makes the sleep return at once, so no wake-up is lost.
//
//   worker:                              poster:
//     uint32_t seen = word.Announce();     mailbox.Push(m);
//     if (mailbox.Empty())                 word.Post();
//       word.SleepFor(seen, deadline);
//     word.Awake();
//
// Bit 0 says "somebody sleeps or is about to": a post to a running worker is
// one atomic addition and no system call. The other bits count posts. Code
// outside (a device) that adds 1 and always wakes is safe too: at worst it
// leaves the bit wrong, which costs one needless wake and no missed one.
//
// Threading: thread-safe; Announce, SleepFor and Awake belong to the one
// worker that owns the word.
#ifndef WEFT_RUNTIME_BUS_FUTEX_WORD_H_
#define WEFT_RUNTIME_BUS_FUTEX_WORD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft::runtime {

class FutexWord {
 public:
  FutexWord() = default;
  FutexWord(const FutexWord&) = delete;
  FutexWord& operator=(const FutexWord&) = delete;

  // Makes what the caller wrote before visible to the worker; wakes it where
  // it sleeps.
  void Post() {
    if (word_.fetch_add(2, std::memory_order_seq_cst) & 1) Wake();
  }

  // Changes with every post.
  uint32_t posts() const { return word_.load(std::memory_order_acquire) >> 1; }

  // The value to pass to SleepFor. Look for work once more in between.
  uint32_t Announce() {
    return word_.fetch_or(1, std::memory_order_seq_cst) | 1;
  }

  // Sleeps until the word differs from `seen` or `timeout_ns` have passed.
  // May return early. Returns false where the time-out ended it.
  bool SleepFor(uint32_t seen, uint64_t timeout_ns);

  // The same, but `others` end it as well: words that others than this class
  // change and wake. Where the kernel refuses one of them it sleeps on its own
  // alone. Pre-condition: CanSleepOnSeveral(), and not too many.
  struct Other {
    const uint32_t* word = nullptr;
    uint32_t seen = 0;
  };
  static constexpr size_t kMostOthers = 7;
  bool SleepFor(uint32_t seen, uint64_t timeout_ns, const Other* others,
                size_t num_others);
  // Whether the kernel has it: Linux 5.16.
  static bool CanSleepOnSeveral();

  // After sleeping, or after finding work instead.
  void Awake() { word_.fetch_and(~1u, std::memory_order_seq_cst); }

  // For devices that signal through sync2.host_signal.
  uint32_t* raw() { return reinterpret_cast<uint32_t*>(&word_); }

  // System calls made by SleepFor so far (tests count them).
  uint64_t sleeps() const { return sleeps_.load(std::memory_order_relaxed); }

 private:
  void Wake();

  std::atomic<uint32_t> word_{0};
  std::atomic<uint64_t> sleeps_{0};
};

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

// Monotonic time, nanoseconds.
uint64_t NowNs();

// Counts a few times a nanosecond, or once; costs less to read than that clock.
inline uint64_t CpuTicks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return NowNs();
#endif
}

// A hint to the core that the caller spins.
inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_BUS_FUTEX_WORD_H_
