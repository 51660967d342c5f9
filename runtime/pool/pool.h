// ThreadPool: the helper threads of one rank, for loops inside a kernel.
//
//   ThreadPool pool({/*threads=*/4});
//   pool.ParallelFor(blocks, [](void* arg, uint64_t block) {
//     static_cast<Sum*>(arg)->AddBlock(block);
//   }, &sum);
//
// A pool of `threads` has threads - 1 helpers: the thread that calls takes
// part. Indices are handed out in chunks from one counter, so which thread runs
// which index, and in what order, is a matter of timing. Results must not
// depend on it: the caller cuts its work by shapes alone and combines partial
// results in an order of its own.
//
// One loop at a time has the helpers. A loop that is started meanwhile, by
// another thread or from inside `fn`, runs in its caller alone: it never waits
// for the first one, so nothing can deadlock. The same holds for a helper that
// the machine does not schedule: it joins late or not at all, and the caller
// does its share.
//
//   state_   closed --Start--> open, n inside --Finish--> closed, n inside
//                                                         --last--> closed
//   helper   asleep --Post--> looks: open and new? joins : asleep
//
// A helper enters by adding one to `state_` while it is open; nobody enters a
// closed loop, and the caller leaves once nobody is inside. A helper that comes
// too late sees a closed state and touches nothing.
//
// Idle helpers sleep on a futex word of their own and use no processor time.
// Before that, and while the caller waits for the last chunk, they look again
// for `spin_ns`, which should be 0 unless every thread can have a core.
//
// Threading: thread-safe. Ownership: joins its threads when it goes; no loop
// may run then. `fn` must not throw.
#ifndef WEFT_RUNTIME_POOL_POOL_H_
#define WEFT_RUNTIME_POOL_POOL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/bus/futex_word.h"
#include "runtime/pool/thread.h"

namespace weft::runtime {

class ThreadPool {
 public:
  using Fn = void (*)(void* arg, uint64_t i);

  struct Options {
    uint32_t threads = 1;  // the caller included; 0 is 1
    uint64_t spin_ns = 0;
    // Called by each helper before it works, with its number from 1.
    std::function<void(uint32_t helper)> on_start;
  };
  // Where the system gives fewer threads than asked for, the pool is smaller.
  explicit ThreadPool(const Options& options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls fn(arg, i) once for each i in [0, n); returns when all are done, and
  // what they wrote is visible to the caller.
  void ParallelFor(uint64_t n, Fn fn, void* arg);

  // Threads that a loop may use, the caller included.
  uint32_t threads() const {
    return static_cast<uint32_t>(helpers_.size()) + 1;
  }

  // Times that helpers went to sleep, and loops that found them taken (for
  // tests).
  uint64_t sleeps() const;
  uint64_t serial_loops() const {
    return serial_loops_.load(std::memory_order_relaxed);
  }

 private:
  struct Helper {
    FutexWord word;
    Thread thread;
  };
  // The loop that is open. Written by its caller while the state is closed.
  struct Loop {
    Fn fn = nullptr;
    void* arg = nullptr;
    uint64_t n = 0;
    uint64_t chunk = 1;
    uint64_t chunks = 0;
  };

  // state_: number of the loop | open | helpers inside.
  static constexpr uint64_t kInside = (uint64_t{1} << 31) - 1;
  static constexpr uint64_t kOpen = uint64_t{1} << 31;
  static constexpr uint64_t kOneLoop = uint64_t{1} << 32;

  void Serve(Helper* helper);
  // True if loop number *last is over and another one is open.
  bool Wanted(uint64_t last) const;
  // Takes part in the open loop, unless it is the one numbered *last.
  void Join(uint64_t* last);
  void Work();
  void WaitForHelpers();
  absl::Status StartHelper(uint32_t number, const Options& options);

  const uint64_t spin_ns_;
  std::vector<std::unique_ptr<Helper>> helpers_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> taken_{false};  // a caller has the helpers
  std::atomic<uint64_t> serial_loops_{0};
  FutexWord done_;  // the caller sleeps here
  Loop loop_;
  alignas(64) std::atomic<uint64_t> state_{0};
  alignas(64) std::atomic<uint64_t> next_{0};  // chunk
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_POOL_POOL_H_
