// Ring: a bounded first-in first-out queue of small records for one thread,
// such as the messages between actors of one worker.
//
//   Ring<Message> fifo(bound);     // allocates once
//   fifo.Push(m);
//   while (!fifo.empty()) Deliver(fifo.Pop());
//
// Several at once, with the ring's state in registers meanwhile:
//
//   Ring<Message>::Writer writer = fifo.BeginPush();
//   *writer.Next() = m;
//   fifo.EndPush(writer);          // now they are in the queue
//
// The bound must be one that the program can never pass (for messages it
// follows from the plan). A ring that runs full is thus a defect, and ends the
// process; nobody ever waits for room.
//
// Threading: thread-compatible. Between threads use runtime/bus/mailbox.h.
#ifndef WEFT_CORE_BASE_RING_H_
#define WEFT_CORE_BASE_RING_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <type_traits>

namespace weft {

// The smallest power of two >= max(n, 2).
inline uint64_t RingCapacity(uint64_t n) {
  uint64_t capacity = 2;
  while (capacity < n) capacity *= 2;
  return capacity;
}

template <typename T>
class Ring {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit Ring(uint64_t bound)
      : mask_(RingCapacity(bound) - 1), items_(new T[mask_ + 1]) {}

  bool empty() const { return head_ == tail_; }
  uint64_t size() const { return tail_ - head_; }
  uint64_t capacity() const { return mask_ + 1; }

  void Push(const T& item) {
    items_[tail_++ & mask_] = item;
    CheckBound();
  }

  struct Writer {
    T* items;
    uint64_t mask;
    uint64_t tail;
    T* Next() { return &items[tail++ & mask]; }
  };
  Writer BeginPush() { return {items_.get(), mask_, tail_}; }
  void EndPush(const Writer& writer) {
    tail_ = writer.tail;
    CheckBound();
  }

  const T& Front() const { return items_[head_ & mask_]; }
  // Pre-condition: not empty. The reference is valid until the next push.
  const T& Pop() { return items_[head_++ & mask_]; }

 private:
  void CheckBound() const {
    if (__builtin_expect(size() > capacity(), 0)) Overflow();
  }
  [[noreturn]] __attribute__((noinline, cold)) static void Overflow() {
    std::fprintf(stderr, "a queue sized from the plan overflowed\n");
    std::abort();
  }

  uint64_t head_ = 0;
  uint64_t tail_ = 0;
  uint64_t mask_;
  std::unique_ptr<T[]> items_;
};

}  // namespace weft

#endif  // WEFT_CORE_BASE_RING_H_
