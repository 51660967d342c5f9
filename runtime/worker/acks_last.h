// AcksLast: the order in which a worker among ranks takes the messages of its
// queue: ACKs when no other is left. What a REQ brings may be on its way to
// another rank, and is sent before; what an ACK frees is needed later. The
// messages of one port, which are of one kind, stay in their order.
//
//   AcksLast order(&queue, bound);
//   order.TakeAll([&](const actor::Message& message) { Deliver(message); });
//
// Threading: thread-compatible. Ownership: borrows the queue.
#ifndef WEFT_RUNTIME_WORKER_ACKS_LAST_H_
#define WEFT_RUNTIME_WORKER_ACKS_LAST_H_

#include <cstdint>

#include "core/actor/message.h"

namespace weft::runtime {

class AcksLast {
 public:
  // `bound`: messages that there can be at once.
  AcksLast(actor::MessageQueue* queue, uint64_t bound)
      : queue_(*queue), acks_(bound) {}

  // Until there is none: `take` may put more into the queue, and is not to look
  // at its message after that.
  template <typename Take>
  void TakeAll(const Take& take) {
    while (const actor::Message* message = Next()) take(*message);
  }
  // Those that were taken out of the queue and wait.
  bool empty() const { return acks_.empty(); }

 private:
  // Null where there is none.
  const actor::Message* Next() {
    while (!queue_.empty()) {
      const actor::Message& message = queue_.Pop();
      if (message.kind != actor::MessageKind::kAck) return &message;
      acks_.Push(message);
    }
    return acks_.empty() ? nullptr : &acks_.Pop();
  }

  actor::MessageQueue& queue_;
  actor::MessageQueue acks_;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_WORKER_ACKS_LAST_H_
