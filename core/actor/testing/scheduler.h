// Scheduler: runs a table step by step in one thread, for tests that assert
// messages. One FIFO; nothing happens that the test did not ask for, so equal
// tests give equal logs.
//
//   Scheduler s(spec);
//   s.table().SetLease(1);
//   EXPECT_TRUE(s.TryAct("x"));
//   EXPECT_THAT(s.TakeLog(), ElementsAre("x.0", "REQ r0[0] -> y"));
//   s.Settle();                      // act and deliver until nothing can
//
// Messages of a tick leave at once, as on a device that is done when a call
// returns, unless hold_ticks(true).
//
// Threading: thread-compatible. Test only.
#ifndef WEFT_CORE_ACTOR_TESTING_SCHEDULER_H_
#define WEFT_CORE_ACTOR_TESTING_SCHEDULER_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "core/actor/actor.h"
#include "core/actor/spec.h"

namespace weft::actor {

class Scheduler {
 public:
  // Pre-condition: the table can be made, and names are unique.
  explicit Scheduler(const TableSpec& spec);

  ActorTable& table() { return table_; }
  // The index of the actor with this user's name.
  uint32_t Find(absl::string_view name) const;

  void hold_ticks(bool hold) { hold_ticks_ = hold; }
  // Lets the held messages go, in order. Returns how many.
  uint32_t CompleteTicks();

  // Acts if it can. Logs "name.act", then the messages that it sent.
  bool TryAct(absl::string_view name);
  // Delivers the oldest message, without acting. False where there is none.
  bool DeliverOne();
  // Acts whoever can and delivers, until nothing is left. Actors without inputs
  // or lease (Recv) are not acted. Returns the acts made.
  uint64_t Settle();
  // Delivers everything, without acting.
  void DeliverAll();

  // What happened since the last call. Messages name their receiver:
  // "REQ r7[0] -> fc1", "ACK r7[0] -> x".
  std::vector<std::string> TakeLog();
  // Only the acts of it: {"x.0", "fc1.0"}.
  std::vector<std::string> TakeActs();

  // The effects of the last act.
  const Effects& last() const { return effects_; }
  // The actor to try after it.
  uint32_t next() const { return next_; }
  size_t queued() const { return queue_.size(); }

 private:
  void Act(uint32_t i);
  std::string Describe(const Message& m) const;

  TableSpec spec_;
  ActorTable table_;
  Effects effects_;
  uint32_t next_ = kNoActor;
  std::deque<Message> queue_;
  std::deque<Message> held_;
  bool hold_ticks_ = false;
  std::vector<std::string> log_;
  std::vector<std::string> acts_;
};

// Builds a spec from names, so that a test reads like its picture. Actors get
// ids in the order in which they are added; registers are numbered by the
// caller.
//
//   SpecBuilder b;
//   int compute = b.Stream(/*ordered=*/true);
//   uint32_t x = b.Add("x", ActorKind::kSource, compute);
//   uint32_t y = b.Add("y", ActorKind::kSink, compute);
//   b.Edge(x, y, /*reg=*/0, {/*copies=*/2});
//   TableSpec spec = b.Build();      // orders: as added
class SpecBuilder {
 public:
  struct EdgeOptions {
    uint32_t copies = 1;
    std::string give = {};  // pattern of the output
    std::string take = {};  // pattern of the input
    bool host = false;
  };

  int Stream(bool ordered, uint32_t rank = 0);
  uint32_t Add(const std::string& name, ActorKind kind, int stream,
               uint32_t acts_per_period = 1);
  // Register `reg` from `from` to `to`. Called again for the same register, it
  // adds a reader; copies and give are those of the first call.
  void Edge(uint32_t from, uint32_t to, uint32_t reg,
            const EdgeOptions& options);
  void Edge(uint32_t from, uint32_t to, uint32_t reg) {
    Edge(from, to, reg, EdgeOptions());
  }
  // An output that nobody reads yet.
  void Output(uint32_t from, uint32_t reg, uint32_t copies,
              const std::string& give);
  // `through` reads `reg` and gives it on as `alias`, in `slices` slices.
  void Alias(uint32_t through, uint32_t reg, uint32_t alias,
             uint32_t slices = 1);
  // The launch order of a stream; default: actors as added, by their acts.
  void Order(int stream, std::vector<uint32_t> order);

  TableSpec Build() const;
  TableSpec& spec() { return spec_; }

 private:
  OutputSpec* FindOutput(uint32_t reg);

  TableSpec spec_;
  // Owner's register and slices, of aliases.
  absl::flat_hash_map<uint32_t, std::pair<uint32_t, uint32_t>> aliases_;
};

}  // namespace weft::actor

#endif  // WEFT_CORE_ACTOR_TESTING_SCHEDULER_H_
