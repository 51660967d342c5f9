// Message: what actors send each other. 32 bytes, no pointers, no data.
//
// A REQ says "copy k of register r is ready to be read", an ACK says "I no
// longer read copy k of register r". Where register r lies is known from the
// plan on both sides, so a message is only a few numbers: it can be copied into
// a ring, sent over a wire, logged and replayed as it is.
//
//   Message m = Message::Req(reader, /*reg=*/7, /*copy=*/0, /*sequence=*/12);
//
// Nothing in a message is trusted: the receiver checks every number against
// its plan (ActorTable::OnMessage) and refuses what does not fit.
//
// Threading: plain values.
#ifndef WEFT_CORE_ACTOR_MESSAGE_H_
#define WEFT_CORE_ACTOR_MESSAGE_H_

#include <cstdint>
#include <string>
#include <type_traits>

#include "core/base/ring.h"

namespace weft::actor {

// Names one actor of a job: rank (20 bits) | stream (16) | index (28), highest
// bits first. The stream selects the worker thread and the rank the process, so
// routing a message is a shift. The index is unique over all programs of a
// session on that rank.
struct ActorId {
  static constexpr int kRankBits = 20;
  static constexpr int kStreamBits = 16;
  static constexpr int kIndexBits = 28;

  uint64_t value = ~uint64_t{0};  // names nobody

  static constexpr ActorId Make(uint32_t rank, uint32_t stream,
                                uint32_t index) {
    return ActorId{uint64_t{rank} << (kStreamBits + kIndexBits) |
                   uint64_t{stream} << kIndexBits | uint64_t{index}};
  }
  constexpr uint32_t rank() const {
    return static_cast<uint32_t>(value >> (kStreamBits + kIndexBits));
  }
  constexpr uint32_t stream() const {
    return static_cast<uint32_t>(value >> kIndexBits) &
           ((1u << kStreamBits) - 1);
  }
  constexpr uint32_t index() const {
    return static_cast<uint32_t>(value) & ((1u << kIndexBits) - 1);
  }
  // The same rank and stream.
  constexpr bool SameStream(ActorId other) const {
    return (value >> kIndexBits) == (other.value >> kIndexBits);
  }
  constexpr bool operator==(ActorId o) const { return value == o.value; }
  constexpr bool operator!=(ActorId o) const { return value != o.value; }
};

enum class MessageKind : uint8_t {
  kReq = 0,       // a copy is ready
  kAck = 1,       // a copy is no longer read
  kStart = 2,     // lease: periods below `sequence` may run
  kFinished = 3,  // little is left of a worker's lease, or nothing
  kStop = 4,      // the lease will not be extended
  kAbort = 5,     // give up now
};

struct Message {
  MessageKind kind = MessageKind::kReq;
  uint8_t flags = 0;  // none defined; anything else is refused
  uint16_t copy = 0;
  // REQ: the reader's name of the register; ACK: the owner's.
  uint32_t reg = 0;
  ActorId destination;
  // REQ, ACK: the sender's act, counted from 0 over the run; for traces.
  // START: a period; FINISHED, too, within a worker.
  uint64_t sequence = 0;
  // Where the receiver's table keeps its port: a hint that saves a search and
  // is checked like everything else. 0 where the sender does not know.
  uint32_t port = 0;
  // Always 0 today: room for the tick that a device could wait for itself.
  uint32_t tick = 0;

  void Set(uint16_t copy_, uint64_t sequence_) {
    copy = copy_;
    sequence = sequence_;
  }

  static constexpr Message Req(ActorId to, uint32_t reg, uint16_t copy,
                               uint64_t sequence) {
    return {MessageKind::kReq, 0, copy, reg, to, sequence, 0, 0};
  }
  static constexpr Message Ack(ActorId to, uint32_t reg, uint16_t copy,
                               uint64_t sequence) {
    return {MessageKind::kAck, 0, copy, reg, to, sequence, 0, 0};
  }
  static constexpr Message Start(uint64_t period) {
    return {MessageKind::kStart, 0, 0, 0, ActorId{}, period, 0, 0};
  }
  // The cause does not travel in it: whoever failed keeps the status.
  static constexpr Message Abort() {
    return {MessageKind::kAbort, 0, 0, 0, ActorId{}, 0, 0, 0};
  }
  // The hint aside.
  friend constexpr bool operator==(const Message& a, const Message& b) {
    return a.kind == b.kind && a.flags == b.flags && a.copy == b.copy &&
           a.reg == b.reg && a.destination == b.destination &&
           a.sequence == b.sequence && a.tick == b.tick;
  }
};

static_assert(sizeof(Message) == 32, "a message is 32 bytes on every wire");
static_assert(std::is_trivially_copyable_v<Message>, "copied into rings");

// The FIFO between actors of one worker.
using MessageQueue = Ring<Message>;

// "0:3:17": rank, stream, index.
std::string ToString(ActorId id);
// "REQ r7[0] -> 0:3:17 #12".
std::string ToString(const Message& message);

}  // namespace weft::actor

#endif  // WEFT_CORE_ACTOR_MESSAGE_H_
