// A bounded first-in first-out queue of small records for one thread: the
// messages between actors of one worker, and the messages of a stream that wait
// for a tick.
//
//   Ring<Message> fifo(bound);     // allocates once
//   fifo.Push(m);
//   while (!fifo.Empty()) Deliver(fifo.Pop());
//
// The capacity comes from the plan (at most one REQ and one ACK per register
// copy and reader are under way), so a full ring is a defect of Weft and ends
// the process; there is no path that waits for room.
//
// Threading: thread-compatible; used by one worker thread.
#ifndef WEFT_RUNTIME_BUS_RING_H_
#define WEFT_RUNTIME_BUS_RING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "glog/logging.h"

namespace weft::runtime {

// The smallest power of two >= max(n, 2).
inline uint32_t RingCapacity(uint64_t n) {
  CHECK_LE(n, uint64_t{1} << 30);
  uint32_t capacity = 2;
  while (capacity < n) capacity *= 2;
  return capacity;
}

template <typename T>
class Ring {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit Ring(uint64_t bound)
      : mask_(RingCapacity(bound) - 1), items_(new T[mask_ + 1]) {}

  bool Empty() const { return head_ == tail_; }
  uint32_t size() const { return tail_ - head_; }
  uint32_t capacity() const { return mask_ + 1; }

  // A place at the end, to be written at once by the caller.
  T& PushSlot() {
    DCHECK_LT(size(), capacity());
    if (__builtin_expect(size() > mask_, 0)) Overflow();
    return items_[tail_++ & mask_];
  }
  void Push(const T& item) { PushSlot() = item; }

  const T& Front() const { return items_[head_ & mask_]; }
  // The reference is valid until the next Push.
  const T& Pop() { return items_[head_++ & mask_]; }
  void Clear() { head_ = tail_; }

 private:
  [[noreturn]] static void Overflow() {
    LOG(FATAL) << "a message queue sized from the plan overflowed";
    __builtin_unreachable();
  }

  uint32_t head_ = 0;
  uint32_t tail_ = 0;
  uint32_t mask_;
  std::unique_ptr<T[]> items_;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_BUS_RING_H_
