// Timing: one of the many orders in which the actors of a table can act. It
// knows what can happen next and makes one of it happen; what an act does to
// memory is its user's.
//
//   WEFT_ASSIGN_OR_RETURN(Timing timing, Timing::Create(&spec, /*periods=*/2));
//   std::vector<Timing::Choice> choices;
//   while (!(choices = timing.Choices()).empty()) {
//     timing.Take(choices[PickRandom(&seed, choices.size())], &work);
//   }
//   absl::Status done = timing.Final();
//
// A step of the world is one of four, and every order of them that the rules
// allow is a timing:
//   act      an actor that can act does, and its launch joins a device queue
//   start    the head of a device queue begins
//   finish   it ends; the messages of its tick leave
//   deliver  the oldest message between two ports arrives
// A queue belongs to a stream, or to one actor where the end of its work is not
// in the stream's order (KindRow::late).
//
// The schedule explorer runs it on tokens (explorer.h), the compiler's tests on
// symbols.
//
// Threading: thread-compatible. Ownership: a value, whose copies are
// independent; borrows the spec.
#ifndef WEFT_CORE_ACTOR_TIMING_H_
#define WEFT_CORE_ACTOR_TIMING_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/actor/actor.h"
#include "core/actor/spec.h"

namespace weft::actor {

// A hash of `hash` and one more value.
uint64_t Mix(uint64_t hash, uint64_t value);

// A number below `n`; advances `state`. Pre-condition: n > 0.
uint64_t PickRandom(uint64_t* state, uint64_t n);

// An act, from its launch to its end.
struct Launch {
  uint32_t actor = 0;
  uint64_t act = 0;     // over the whole run
  uint64_t period = 0;  // and which of it, and where within:
  uint32_t phase = 0;
  bool started = false;
  std::vector<uint16_t> inputs;  // copies, by port; kNoCopy
  std::vector<uint16_t> outputs;
  std::vector<uint64_t> takes;  // by input, up to and with this act
  std::vector<Message> at_tick;
};

class Timing {
 public:
  enum class Step { kAct, kStart, kFinish, kDeliver };
  // Destination, register, kind and sender of messages that stay in order.
  using Channel = std::tuple<uint64_t, uint32_t, uint8_t, uint32_t>;
  struct Choice {
    Step step;
    uint32_t index = 0;  // actor or queue
    Channel channel;
  };

  // What acts do.
  class Work {
   public:
    virtual ~Work() = default;
    virtual void Start(const Launch& launch) = 0;
    virtual void Finish(const Launch& launch) = 0;
  };

  // With a lease of `periods`. kBadPlan where the spec contradicts itself.
  static absl::StatusOr<Timing> Create(const TableSpec* spec, uint32_t periods);

  // In a fixed order. Empty: nothing can happen any more.
  std::vector<Choice> Choices() const;
  // Pre-condition: one of Choices().
  void Take(const Choice& choice, Work* work);
  // Starts and finishes all that an actor has launched and not finished, as a
  // device does that is done when the call returns.
  void FinishAll(uint32_t actor, Work* work);

  // Once nothing can happen: kPlanRefuted where an act is missing (a deadlock),
  // a copy did not come home or a message was refused.
  absl::Status Final() const;

  const ActorTable& table() const { return table_; }
  // "'fc1' [actor 3]".
  std::string Name(uint32_t actor) const;
  // Of all that decides what can happen from here on.
  uint64_t Hash() const;

 private:
  Timing(const TableSpec* spec, uint32_t periods, ActorTable table);

  uint64_t Target(uint32_t i) const {
    return uint64_t{table_.acts_per_period(i)} * periods_;
  }
  void Send(uint32_t from, const Message& m);
  void Act(uint32_t i);
  void Finish(uint32_t queue, Work* work);
  void Deliver(const Channel& channel);

  const TableSpec* spec_;
  uint32_t periods_;
  ActorTable table_;
  std::vector<uint32_t> queue_of_;  // by actor
  std::vector<std::deque<Launch>> queues_;
  std::map<Channel, std::deque<Message>> channels_;
  std::vector<std::vector<uint64_t>> takes_;  // by actor and input
};

}  // namespace weft::actor

#endif  // WEFT_CORE_ACTOR_TIMING_H_
