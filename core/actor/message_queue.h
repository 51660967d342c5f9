// MessageQueue: the FIFO between actors of one worker. A ring of fixed size;
// the protocol bounds how many messages can be outstanding
// (ActorTable::queue_bound), so a ring of that size is never full.
//
//   MessageQueue queue(table.queue_bound());
//   queue.Push(m);
//   while (!queue.empty()) table.OnMessage(queue.Pop());
//
// Threading: one thread. Between threads use a mailbox of the run-time.
#ifndef WEFT_CORE_ACTOR_MESSAGE_QUEUE_H_
#define WEFT_CORE_ACTOR_MESSAGE_QUEUE_H_

#include <cstdint>
#include <vector>

#include "core/actor/message.h"

namespace weft::actor {

class MessageQueue {
 public:
  // Room for at least `capacity` messages.
  explicit MessageQueue(uint64_t capacity) {
    uint64_t size = 16;
    while (size < capacity) size *= 2;
    ring_.resize(size);
    mask_ = size - 1;
  }
  bool empty() const { return head_ == tail_; }
  uint64_t size() const { return tail_ - head_; }
  uint64_t capacity() const { return mask_ + 1; }
  // Pre-condition: size() < capacity().
  void Push(const Message& m) { ring_[tail_++ & mask_] = m; }
  // Several at once: EndPush makes what was written to Next() part of the
  // queue.
  struct Writer {
    Message* ring;
    uint64_t mask;
    uint64_t tail;
    Message* Next() { return &ring[tail++ & mask]; }
  };
  Writer BeginPush() { return {ring_.data(), mask_, tail_}; }
  void EndPush(const Writer& writer) { tail_ = writer.tail; }
  // Pre-condition: not empty. Valid until the next Push.
  const Message& Pop() { return ring_[head_++ & mask_]; }

 private:
  std::vector<Message> ring_;
  uint64_t mask_ = 0;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
};

}  // namespace weft::actor

#endif  // WEFT_CORE_ACTOR_MESSAGE_QUEUE_H_
