// The word on which the threads of a domain sleep, and that its peers ring.
//
//   const uint32_t seen = bell.rings();
//   ... look at everything; nothing there:
//   bell.Sleep(seen, timeout_ns);        // returns at once where it rang since
//
//   peer: write the record; bell.Ring();
//
// No ring is lost: Ring counts up, then looks for sleepers; Sleep says that it
// sleeps, then the kernel compares the count. All four are sequentially
// consistent, so either the count has changed or the ringer sees the sleeper.
// A ring is a system call only where somebody sleeps. A peer that writes
// nonsense into the page delays the sleeper by kLongestSleepNs at most.
//
// Threading: thread-safe, between processes too.
#ifndef WEFT_TRANSPORT_SHM_BELL_H_
#define WEFT_TRANSPORT_SHM_BELL_H_

#include <cstdint>

#include "transport/shm/layout.h"
#include "transport/shm/os.h"

namespace weft_shm {

constexpr uint64_t kLongestSleepNs = 500'000'000;

class Bell {
 public:
  // Over a page that NewSealed made, here or in a peer.
  explicit Bell(const Fd& fd) : page_(MapSealed(fd, kPage)) {}

  uint32_t rings() const { return page().rings.load(); }
  void Ring();
  void Sleep(uint32_t seen, uint64_t timeout_ns);

  // The parts of Sleep, for who sleeps in another way: between the two, every
  // ring changes word() from what Announce returned, and wakes it.
  uint32_t Announce() {
    page().sleepers.fetch_add(1);
    return page().rings.load();
  }
  void Awake() { page().sleepers.fetch_sub(1); }
  const uint32_t* word() const {
    return reinterpret_cast<const uint32_t*>(&page().rings);
  }

 private:
  BellPage& page() const { return *page_.At<BellPage>(0); }

  Mapping page_;
};

}  // namespace weft_shm

#endif  // WEFT_TRANSPORT_SHM_BELL_H_
