// How long a worker with nothing to do looks for work before it sleeps.
//
// A thread that spins on a core which another thread needs keeps back what it
// waits for. Only worker 0 is worth a core of its own: it computes and, where
// there are other ranks, waits for their workers 0. The others read data and
// the like, are woken long before anybody needs them, and spin where cores are
// left over.
//
// Threading: a free function, thread-safe.
#ifndef WEFT_RUNTIME_SESSION_SPIN_H_
#define WEFT_RUNTIME_SESSION_SPIN_H_

#include <cstdint>

namespace weft::runtime {

struct SpinPlace {
  uint32_t cores = 1;    // that the process may use
  uint32_t ranks = 1;    // that share them
  uint32_t workers = 1;  // of a rank
  bool peers = false;    // there are other ranks, here or elsewhere
};

// Nanoseconds; 0: it lets others run and sleeps.
inline uint64_t SpinNsOf(const SpinPlace& place, uint32_t worker) {
  constexpr uint64_t kForOwnRank = 20'000;
  // Ranks with equal work differ by some such time at the end of a step.
  constexpr uint64_t kForPeers = 100'000;
  // Alone on one core it would only keep the control thread waiting.
  if (!place.peers && place.cores == 1) return 0;
  const bool all_fit =
      uint64_t{place.ranks} * place.workers <= uint64_t{place.cores};
  if (worker == 0 && place.peers) {
    return place.ranks <= place.cores ? kForPeers : 0;
  }
  return all_fit ? kForOwnRank : 0;
}

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_SESSION_SPIN_H_
