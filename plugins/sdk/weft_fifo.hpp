// A queue that keeps its memory: where as many come as go, nothing is
// allocated.
//
//   Fifo<Recv> recvs;
//   recvs.push_back({host, length, cookie});
//   const Recv first = std::move(recvs.front());
//   recvs.pop_front();
//
// It grows by doubling and never shrinks. What was taken out lives on, moved
// from, until another takes its place. Elements move when it grows, so keep no
// pointers to them.
//
// Threading: thread-compatible.
#ifndef WEFT_PLUGINS_SDK_WEFT_FIFO_HPP_
#define WEFT_PLUGINS_SDK_WEFT_FIFO_HPP_

#include <cstddef>
#include <utility>
#include <vector>

namespace weft_sdk {

template <typename T>
class Fifo {
 public:
  bool empty() const { return head_ == tail_; }
  size_t size() const { return tail_ - head_; }
  // Pre-condition of these: !empty().
  T& front() { return slots_[head_ & mask()]; }
  void pop_front() { ++head_; }
  // In the order in which they came. Pre-condition: i < size().
  T& operator[](size_t i) { return slots_[(head_ + i) & mask()]; }

  // Not of this queue's own elements.
  void push_back(T&& element) { NewSlot() = std::move(element); }
  void push_back(const T& element) { NewSlot() = element; }
  // One more at the end, as it was left when it was taken out: to be written
  // all over.
  T& grow_back() { return NewSlot(); }
  void clear() { head_ = tail_; }

 private:
  static constexpr size_t kFirst = 8;  // a power of two

  size_t mask() const { return room_ - 1; }
  T& NewSlot() {
    if (size() == room_) Grow();
    return slots_[tail_++ & mask()];
  }
  void Grow() {
    std::vector<T> more(room_ == 0 ? kFirst : 2 * room_);
    const size_t n = size();
    for (size_t i = 0; i < n; ++i) more[i] = std::move((*this)[i]);
    slots_ = std::move(more);
    room_ = slots_.size();
    head_ = 0;
    tail_ = n;
  }

  std::vector<T> slots_;
  size_t room_ = 0;  // their number, which is costly to ask for
  size_t head_ = 0;  // both count on; their low bits are places
  size_t tail_ = 0;
};

}  // namespace weft_sdk

#endif  // WEFT_PLUGINS_SDK_WEFT_FIFO_HPP_
