#include "transport/shm/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace weft_shm {
namespace {

// Not PRIVATE: the word has another address at the other side.
void Futex(std::atomic<uint32_t>* word, int op, uint32_t value,
           const timespec* timeout) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), op, value, timeout,
          nullptr, 0);
}

}  // namespace

Bell::Bell(const Fd& fd, Whose whose)
    : page_(MapSealed(fd, kPage)),
      light_(HasFences() &&
             (whose == Whose::kOwn || page().heavy.load() != 0)) {
  if (whose == Whose::kOwn) page().heavy.store(light_ ? 1 : 0);
}

void Bell::Ring() {
  if (light_) {
    LightFence();
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  if (page().sleepers.load() == 0) return;
  page().rings.fetch_add(1);
  Futex(&page().rings, FUTEX_WAKE, INT_MAX, nullptr);
}

void Bell::Sleep(uint32_t seen, uint64_t timeout_ns) {
  const uint64_t ns = std::min(timeout_ns, kLongestSleepNs);
  const timespec timeout{0, static_cast<long>(ns)};
  Futex(&page().rings, FUTEX_WAIT, seen, &timeout);
}

}  // namespace weft_shm
