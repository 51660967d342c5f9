// ActorTable: when an actor may act and what follows from it. Workers, the plan
// checker and the explorer share this one implementation: a timing that a check
// has seen is one that a run can have.
//
// An actor owns the registers that it gives. Each register has a few copies of
// memory; a copy goes round:
//
//            acquire                give: REQ to every reader
//     FREE ----------> WRITING -------------------------------> READ
//      ^                                                         |
//      +---------------------------------------------------------+
//              the last ACK of its `acks_per_copy` readers
//
// and at the reader's port each copy goes round:
//
//            REQ                 take                  ack: ACK to the owner
//     AWAY ------> PENDING -------------> HELD -------------------> AWAY
//
// In which acts a port takes, acks, acquires or gives is its *pattern*, one
// byte an act (pattern.h). The state of an actor is thus a count of ports that
// still lack something in the coming act:
//
//     blocked > 0  --- the last REQ, ACK or lease that it lacked --->  ready
//     ready        --- Act, when it is its turn on its stream   --->  blocked
//
// A Variable is an actor like any other. It has two outputs over the same
// memory and acts twice a period; the bit kHome makes each phase wait until all
// copies of both are free:
//
//     SHARED (readers of the value) --all ACKs--> EXCLUSIVE (its update)
//        ^                                              |
//        +---------- all ACKs, and the lease -----------+
//
// Copies are used in cyclic order, so which memory act n uses depends on n
// alone, and a message that names another copy than the next is refused.
//
// A loop that drives a table:
//
//   table.SetLease(100);                             // run 100 periods
//   for (uint32_t i : table.leased()) Run(i);
//   while (!queue.empty()) Run(table.OnMessage(queue.Pop()));
//
//   void Run(uint32_t i) {                           // kNoActor is allowed
//     while (table.CanAct(i)) {
//       i = table.Act(i, &effects);
//       ...launch, then send the messages
//     }
//   }
//
// Limits: at most one copy held per input, one being written per output; no
// allocation after Create except in SetLease; nothing here waits.
//
// Threading: thread-compatible; a table belongs to one worker. Ownership: a
// value; copies are independent (the explorer branches by copying).
#ifndef WEFT_CORE_ACTOR_ACTOR_H_
#define WEFT_CORE_ACTOR_ACTOR_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/actor/effects.h"
#include "core/actor/kinds.h"
#include "core/actor/message.h"
#include "core/actor/spec.h"

namespace weft::actor {

// Not an actor of this table.
inline constexpr uint32_t kNoActor = 0xffffffff;

// How far START may move the lease beyond the finished periods: a table keeps a
// count for each period in between. Runs are a few periods ahead.
inline constexpr uint64_t kMaxLeaseAhead = 1 << 16;

// One thing that an actor lacks.
struct Blocker {
  enum Kind { kInput, kCredit, kTurn, kLease, kAborted };
  Kind kind;
  uint32_t port = 0;  // kInput: of the inputs; kCredit: of the outputs
};

class ActorTable {
 public:
  // kBadPlan where `spec` contradicts itself. Reader lists and ack routes that
  // lead outside the table are fine: those actors are another worker's.
  static absl::StatusOr<ActorTable> Create(const TableSpec& spec);

  // --- The rules -----------------------------------------------------------

  // Applies a message. Returns the actor whose state changed; kNoActor where
  // none did: after START (then try leased()), ABORT, STOP and FINISHED, and
  // after a message that does not fit the plan, which changes nothing but
  // refused() and refusal().
  inline uint32_t OnMessage(const Message& message);

  // Whether actor `i` may act now: its ports have what the coming act takes,
  // the lease covers it and it is its turn. False for kNoActor.
  inline bool CanAct(uint32_t i) const;

  // Acts. Pre-condition: CanAct(i). Returns the actor to try next: the one
  // whose turn it is now on an ordered stream, else `i` again. (After a message
  // only its receiver can have become able to act.)
  inline uint32_t Act(uint32_t i, Effects* effects);

  // Periods below `period` may run. Only ever grows; a smaller value changes
  // nothing. Afterwards every actor of leased() may be able to act.
  void SetLease(uint64_t period);

  // Leases that reach no more than so many periods beyond those finished need
  // no more memory from now on.
  void Reserve(uint64_t periods) {
    ReservePeriods(periods_finished_ + periods);
  }

  // From now on nothing can act. True at the first call.
  bool Abort();

  // --- Accounting ----------------------------------------------------------

  uint64_t lease() const { return lease_; }
  bool aborted() const { return aborted_; }
  // All actors have made all their acts of the periods below this.
  uint64_t periods_finished() const { return periods_finished_; }
  // Every copy of every register owned here is free.
  bool credits_home() const { return credits_out_ == 0; }
  uint64_t credits_out() const { return credits_out_; }
  // Nothing is left to do under the present lease: the program can be switched
  // once each stream's last tick is done.
  bool drained() const {
    return periods_finished_ >= lease_ && credits_out_ == 0;
  }
  // Messages that OnMessage did not accept, and what the last one was.
  uint64_t refused() const { return refused_; }
  const std::string& refusal() const { return refusal_; }

  // --- What it holds -------------------------------------------------------

  uint32_t size() const { return static_cast<uint32_t>(actors_.size()); }
  ActorId id(uint32_t i) const { return actors_[i].id; }
  ActorKind kind(uint32_t i) const { return actors_[i].kind; }
  // Acts made so far, and how many make a period.
  uint64_t acts(uint32_t i) const { return actors_[i].acts; }
  uint32_t acts_per_period(uint32_t i) const {
    return actors_[i].acts_per_period;
  }
  // Position of the actor's stream in TableSpec::streams.
  uint32_t stream(uint32_t i) const { return actors_[i].stream; }
  // The local index, or kNoActor.
  uint32_t Find(ActorId id) const;
  // Tells a REQ or an ACK to one of these actors at which port it will arrive.
  void Hint(Message* message);
  // Sources and Variables: what a new lease may wake.
  absl::Span<const uint32_t> leased() const { return leased_; }
  // Whose turn it is on an ordered stream; kNoActor on others.
  uint32_t Turn(uint32_t stream) const {
    return streams_[stream].ordered ? streams_[stream].turn : kNoActor;
  }

  // Sizes to allocate once: what any act can produce, and how many messages to
  // actors of this table can be outstanding.
  EffectsSize effects_size() const { return effects_size_; }
  uint64_t queue_bound() const { return queue_bound_; }

  // Everything that actor `i` lacks; empty where it can act. For diagnostics.
  std::vector<Blocker> WhyBlocked(uint32_t i) const;
  // Whether the coming act of the receiver of `req`, a REQ, lacks it and, but
  // perhaps for a turn, nothing else.
  bool Awaits(const Message& req) const;
  // REQs that wait at an input; free copies at an output.
  uint32_t Pending(uint32_t i, uint32_t input) const {
    return in_[actors_[i].in_begin + input].pending;
  }
  uint32_t Home(uint32_t i, uint32_t output) const {
    return out_[actors_[i].out_begin + output].home;
  }
  // Hash of everything that decides what can happen next.
  uint64_t StateHash() const;

 private:
  struct alignas(64) Actor {  // hot: one cache line
    ActorId id;
    uint64_t acts = 0;
    uint64_t period = 0;   // of the coming act
    uint32_t blocked = 0;  // ports and leases that the coming act lacks
    uint32_t in_begin = 0;
    uint32_t out_begin = 0;
    uint32_t acts_per_period = 1;
    uint32_t phase = 0;  // of the coming act in its period
    uint16_t in_count = 0;
    uint16_t out_count = 0;
    uint16_t stream = 0;
    bool leased = false;
    // Every act is like every other: all ports take and ack, or acquire and
    // give, their one copy at each.
    bool simple = false;
    // Of simple actors, the messages of all ports: of posts_, `at_launch` from
    // `posts`, then `at_tick` more.
    uint32_t posts = 0;
    uint16_t at_launch = 0;
    uint16_t at_tick = 0;
    ActorKind kind = ActorKind::kCompute;
    // As simple ones, but of any number of copies, and ports may say nothing.
    bool regular = false;
  };
  static_assert(sizeof(Actor) == 64, "hot state of an actor: one cache line");

  struct alignas(32) InPort {
    uint32_t reg = 0;
    uint32_t actor = 0;  // whose port it is
    uint16_t copies = 1;
    uint16_t pending = 0;
    uint16_t next = 0;        // copy of the oldest pending REQ
    uint16_t held = kNoCopy;  // taken and not yet acked
    uint32_t pattern = 0;     // offset in patterns_
    uint16_t pattern_length = 1;
    uint16_t pattern_at = 0;
    uint16_t divisor = 1;
    uint8_t bits = 3;  // of the coming act
    bool at_launch = false;
    uint32_t post = 0;  // its ACK, in posts_; kNoPost: its alias's readers ack
  };
  static constexpr uint32_t kNoPost = 0xffffffff;
  static_assert(sizeof(InPort) == 32, "two inputs a cache line");

  struct OutPort {
    uint32_t reg = 0;
    uint32_t actor = 0;  // whose port it is
    uint16_t copies = 1;
    uint16_t home = 1;        // free copies
    uint16_t next = 0;        // the copy to acquire next
    uint16_t held = kNoCopy;  // acquired and not yet given
    uint8_t bits = 3;         // of the coming act
    bool alias = false;
    uint16_t acks_per_copy = 0;
    uint32_t acks = 0;  // offset in acks_left_, one per copy
    uint16_t pattern_length = 1;
    uint16_t pattern_at = 0;
    uint32_t pattern = 0;  // offset in patterns_
    // Its REQs: of posts_, `at_launch` from `posts`, then `at_tick` more.
    uint32_t posts = 0;
    uint16_t at_launch = 0;
    uint16_t at_tick = 0;
  };

  struct alignas(32) Stream {
    // Whose turn it is; kNoActor: nobody's, kAnybody: not ordered.
    uint32_t turn = kAnybody;
    uint32_t position = 0;
    uint32_t begin = 0;  // in order_
    uint32_t count = 0;
    bool ordered = false;
  };
  static constexpr uint32_t kAnybody = 0xfffffffe;

  struct Builder;  // actor.cc

  ActorTable() = default;

  bool Satisfied(const OutPort& port) const;
  // Ports of actors that have more than a few, which are searched one by one:
  // {actor, register} -> port.
  static constexpr uint32_t kFewPorts = 8;
  using PortMap = absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t>;
  // Positions in in_ and out_, or kNoPort.
  static constexpr uint32_t kNoPort = 0xffffffff;
  template <typename Port>
  static uint32_t FindPort(uint32_t i, uint32_t reg, uint32_t begin,
                           uint32_t count, const PortMap& many,
                           const std::vector<Port>& ports);
  uint32_t FindInput(const Message& message) const;
  uint32_t FindOutput(const Message& message) const;
  // Whether the hint is of its port, among `count` of them.
  template <typename Port>
  inline bool HintFits(const Message& message, const std::vector<Port>& ports,
                       uint32_t count) const;
  // By the message's hint where that is right.
  inline uint32_t InputOf(const Message& message) const;
  inline uint32_t OutputOf(const Message& message) const;
  inline uint32_t OnReq(const Message& message);
  inline uint32_t OnAck(const Message& message);
  // What an act does at the actor's ports. Returns how many of them lack
  // something for the act after it. ActSimply: of simple actors; ActRegularly:
  // of regular ones.
  inline uint32_t ActSimply(const Actor& a, uint64_t act, Effects* effects);
  uint32_t ActRegularly(const Actor& a, uint64_t act, Effects* effects);
  uint32_t ActByPatterns(const Actor& a, uint64_t act, Effects* effects);
  uint32_t ActOutput(OutPort* port, uint32_t k, uint64_t act, Effects* effects,
                     Effects::Outbox* outbox);
  uint32_t ActInput(InPort* port, uint32_t k, uint64_t act, Effects* effects,
                    Effects::Outbox* outbox);
  uint32_t OnControl(const Message& message);
  uint32_t Refuse(const Message& message, absl::string_view why);
  uint32_t RefusePort(const Message& message);
  // Somebody has made all acts of `period`; see unfinished_.
  inline void FinishPart(uint64_t period);
  // The last has, or there is no room to count it yet.
  void FinishPeriod(uint64_t period);
  // Room to count the actors that have not finished `period`.
  void ReservePeriods(uint64_t period);

  std::vector<Actor> actors_;
  std::vector<InPort> in_;
  std::vector<OutPort> out_;
  uint32_t num_in_ = 0;  // sizes of these two
  uint32_t num_out_ = 0;
  std::vector<Message> posts_;  // all that can be sent, but for copy and act
  std::vector<uint16_t> acks_left_;
  std::vector<uint8_t> patterns_;
  std::vector<Stream> streams_;
  std::vector<uint32_t> order_;
  std::vector<uint32_t> leased_;

  // Actors by ActorId::index() - first_index_; by id where ranks are mixed.
  std::vector<uint32_t> by_index_;
  uint32_t first_index_ = 0;
  absl::flat_hash_map<uint64_t, uint32_t> by_id_;
  PortMap many_in_;
  PortMap many_out_;

  uint64_t lease_ = 0;
  uint64_t periods_finished_ = 0;
  // Who finishes a period: each ordered stream, when its order starts again,
  // and each actor of the others.
  uint32_t parts_ = 0;
  // Those that have not finished period p, at p modulo the size.
  std::vector<uint32_t> unfinished_;
  uint64_t credits_out_ = 0;
  uint64_t refused_ = 0;
  std::string refusal_;
  bool aborted_ = false;
  EffectsSize effects_size_;
  uint64_t queue_bound_ = 0;
};

}  // namespace weft::actor

#include "core/actor/actor_inl.h"  // IWYU pragma: export

#endif  // WEFT_CORE_ACTOR_ACTOR_H_
