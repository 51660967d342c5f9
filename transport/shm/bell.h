// The word on which the threads of a domain sleep, and that its peers ring.
//
//   const uint32_t seen = bell.Announce();
//   ... look at everything; nothing there:
//   bell.Sleep(seen, timeout_ns);        // returns at once where it rang since
//   bell.Awake();
//
//   peer: write the record; bell.Ring();
//
// No ring is lost: the peer writes, then looks for sleepers; the sleeper says
// that it is one, then looks at what was written. With a fence in between at
// both, one of them sees the other: the sleeper's is a heavy one, the peer's
// costs nothing, where both have them (fence.h). A ring counts up and is a
// system call where there is a sleeper; else it only reads a line that nobody
// writes. A peer that writes nonsense into the page delays the sleeper by
// kLongestSleepNs at most.
//
// Threading: thread-safe, between processes too.
#ifndef WEFT_TRANSPORT_SHM_BELL_H_
#define WEFT_TRANSPORT_SHM_BELL_H_

#include <atomic>
#include <cstdint>

#include "transport/shm/fence.h"
#include "transport/shm/layout.h"
#include "transport/shm/os.h"

namespace weft_shm {

constexpr uint64_t kLongestSleepNs = 500'000'000;

class Bell {
 public:
  // Who sleeps on it: threads of this process, or those of a peer.
  enum class Whose { kOwn, kPeers };
  // Over a page that NewSealed made, here or in a peer.
  Bell(const Fd& fd, Whose whose);

  void Ring();

  // Between the two every ring changes word() from what Announce returned, and
  // wakes who sleeps on it.
  uint32_t Announce() {
    page().sleepers.fetch_add(1);
    const uint32_t seen = page().rings.load();
    if (light_) {
      HeavyFence(Reach::kMachine);
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    return seen;
  }
  void Awake() { page().sleepers.fetch_sub(1); }
  void Sleep(uint32_t seen, uint64_t timeout_ns);
  const uint32_t* word() const {
    return reinterpret_cast<const uint32_t*>(&page().rings);
  }

 private:
  BellPage& page() const { return *page_.At<BellPage>(0); }

  const Mapping page_;
  const bool light_;  // who rings needs no fence
};

}  // namespace weft_shm

#endif  // WEFT_TRANSPORT_SHM_BELL_H_
