// What other threads send to a worker: many producers, one consumer.
//
//   Mailbox<Message> box(bound);  // `bound` from the plan; allocates once
//   box.Push(m);                  // any thread
//   word.Post();
//   box.Drain([&](const Message& m) { ... });  // the owner
//
// A message and its sequence number share one cache line, so a spinning owner
// sees a message after a single transfer between cores. Producers only meet on
// the counter that hands out places. The bound holds by construction of the
// plan; breaking it is a defect of Weft and ends the process.
//
// Threading: Push from any thread; Drain and Empty from the owner.
#ifndef WEFT_RUNTIME_BUS_MAILBOX_H_
#define WEFT_RUNTIME_BUS_MAILBOX_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "core/base/ring.h"
#include "glog/logging.h"

namespace weft::runtime {

template <typename T>
class Mailbox {
  static_assert(std::is_trivially_copyable_v<T>);
  static_assert(sizeof(T) <= 56, "a message and its number fill one line");

 public:
  explicit Mailbox(uint64_t bound)
      : mask_(static_cast<uint32_t>(RingCapacity(bound) - 1)),
        slots_(new Slot[mask_ + 1]) {
    for (uint32_t i = 0; i <= mask_; ++i) {
      slots_[i].sequence.store(i, std::memory_order_relaxed);
    }
  }

  void Push(const T& item) {
    const uint32_t place = tail_.fetch_add(1, std::memory_order_relaxed);
    Slot& slot = slots_[place & mask_];
    // Free for this round: the owner has taken what lay here before.
    if (__builtin_expect(slot.sequence.load(std::memory_order_acquire) != place,
                         0)) {
      LOG(FATAL) << "a mailbox sized from the plan overflowed";
    }
    slot.item = item;
    slot.sequence.store(place + 1, std::memory_order_release);
  }

  bool Empty() const {
    return slots_[head_ & mask_].sequence.load(std::memory_order_acquire) !=
           head_ + 1;
  }

  // Calls fn(message) for what is there, at most one round of the ring.
  // Returns how many.
  template <typename Fn>
  uint32_t Drain(Fn&& fn) {
    uint32_t n = 0;
    while (n <= mask_ && !Empty()) {
      Slot& slot = slots_[head_ & mask_];
      T item = slot.item;
      slot.sequence.store(head_ + mask_ + 1, std::memory_order_release);
      ++head_;
      ++n;
      fn(item);
    }
    return n;
  }

  uint32_t capacity() const { return mask_ + 1; }

 private:
  struct alignas(64) Slot {
    std::atomic<uint32_t> sequence;
    T item;
  };

  const uint32_t mask_;
  std::unique_ptr<Slot[]> slots_;
  alignas(64) std::atomic<uint32_t> tail_{0};  // producers
  alignas(64) uint32_t head_ = 0;              // the owner
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_BUS_MAILBOX_H_
