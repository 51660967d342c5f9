// Asymmetric fences, for two sides that look for each other, of which one comes
// by far more often: it pays nothing, and the other one a system call (Linux:
// membarrier) that makes every core pass a fence on which somebody runs.
//
//   often:  mine.store(1);               seldom:  mine.store(1);
//           LightFence();                         HeavyFence(Reach::kProcess);
//           ... theirs.load() ...                 ... theirs.load() ...
//
// One of the two sees the other's store. Both are of processes in which
// HasFences() has returned true; elsewhere use a sequentially consistent fence
// on both sides.
//
// Threading: thread-safe. Depends on Linux.
#ifndef WEFT_TRANSPORT_SHM_FENCE_H_
#define WEFT_TRANSPORT_SHM_FENCE_H_

#include <atomic>

namespace weft_shm {

// Whether this process takes part in heavy fences from now on. The first call
// starts a child that looks in at every core, and waits for it: a millisecond,
// where a core is busy up to two seconds.
bool HasFences();

inline void LightFence() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Who is to pass it: all threads of this process, or of every process that
// takes part. Some microseconds, the more the more cores they run on.
enum class Reach { kProcess, kMachine };
void HeavyFence(Reach reach);

}  // namespace weft_shm

#endif  // WEFT_TRANSPORT_SHM_FENCE_H_
