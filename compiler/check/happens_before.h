// HappensBefore: which act of a plan is always done before which other begins.
//
// Acts are ordered by three things only: an actor acts one act after another,
// an ordered stream runs its acts in order, and a message is sent after the act
// that sends it is done. What sources, sinks, sends and receives do is in no
// stream's order, even where their launch is (actor::KindRow::late). The
// relation is computed over the acts of a few periods, laid out one after
// another.
//
// Each act has a vector clock with one component for each ordered stream: how
// many of the stream's acts are done before it. The other actors are loose, and
// there may be thousands (a program that saves has one for each tensor): what
// comes after one of their acts is known by the first act of each stream that
// follows it without another stream in between.
//
//   HappensBefore hb = ...Create(spec, HappensBefore::PeriodsFor(spec));
//   hb.Before({reader, 3}, {writer, 4});   // actor, act counted from 0
//
// LiveRanges says, on top of it, whether two copies of registers are ever live
// together, which is what the memory planner and the plan checker ask.
//
// Cost: acts x ordered streams, in time and bytes. Threading: immutable once
// created. Ownership: no reference to the spec is kept; LiveRanges borrows the
// relation.
#ifndef WEFT_COMPILER_CHECK_HAPPENS_BEFORE_H_
#define WEFT_COMPILER_CHECK_HAPPENS_BEFORE_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/actor/actor.h"
#include "core/actor/spec.h"

namespace weft::check {

struct GreedyRun;

struct ActRef {
  uint32_t actor = 0;  // index into TableSpec::actors
  uint32_t act = 0;    // from 0, over all periods
  friend bool operator==(ActRef a, ActRef b) {
    return a.actor == b.actor && a.act == b.act;
  }
};

class HappensBefore {
 public:
  // Enough periods to decide for a plan of any length: every copy of every
  // register is used twice.
  static uint32_t PeriodsFor(const actor::TableSpec& spec);

  // kPlanRefuted where the acts of `periods` periods cannot all happen. The
  // spec must hold all actors that its ports name.
  static absl::StatusOr<HappensBefore> Create(const actor::TableSpec& spec,
                                              uint32_t periods);
  // Of a run of these periods that is there already.
  static absl::StatusOr<HappensBefore> Create(const actor::TableSpec& spec,
                                              uint32_t periods,
                                              const GreedyRun& run);

  // `a` is done before `b` begins, whatever the timing. False for a == b.
  // Pre-condition: both acts lie within the periods.
  bool Before(ActRef a, ActRef b) const;

  uint32_t periods() const { return periods_; }
  uint32_t acts(uint32_t actor) const { return acts_[actor]; }
  // Every act, in one order in which they can happen.
  absl::Span<const ActRef> order() const { return order_; }
  uint32_t index(ActRef a) const { return index_[Node(a)]; }  // in order()

  // For who asks about many acts at once. Streams that are ordered and have
  // acts; which of them an actor acts on, or kLoose.
  static constexpr uint32_t kLoose = ~uint32_t{0};
  uint32_t streams() const { return streams_; }
  uint32_t stream(uint32_t actor) const { return stream_[actor]; }
  // By stream, how many of its acts are done before `a` begins, `a` included.
  absl::Span<const uint32_t> clock(ActRef a) const {
    return absl::MakeConstSpan(clock_).subspan(size_t{Node(a)} * streams_,
                                               streams_);
  }
  // Whether `a` is done where as many acts of each stream are done as `clock`
  // says: then it is before every other act whose clock says no less. Not the
  // other way round for a loose act, which another loose act may follow.
  bool BeforeClock(ActRef a, absl::Span<const uint32_t> clock) const;

 private:
  HappensBefore() = default;

  // Of nodes: the second waits for the first.
  using Edge = std::pair<uint32_t, uint32_t>;
  static constexpr uint32_t kNever = ~uint32_t{0};

  uint32_t Node(ActRef a) const { return first_[a.actor] + a.act; }
  uint32_t StreamOf(uint32_t node) const {
    return stream_[order_[index_[node]].actor];
  }
  // What waits for a loose act.
  absl::Span<const uint32_t> Next(uint32_t node) const {
    return absl::MakeConstSpan(next_).subspan(
        next_begin_[node], next_begin_[node + 1] - next_begin_[node]);
  }
  void FindStreams(const actor::TableSpec& spec,
                   const actor::ActorTable& table);
  void Join(uint32_t from, uint32_t into);
  void FollowLoose(std::vector<Edge> edges);
  // By loose acts alone.
  bool LooselyBefore(uint32_t from, uint32_t to) const;

  uint32_t periods_ = 0;
  uint32_t streams_ = 0;            // ordered ones that have acts
  std::vector<uint32_t> acts_;      // by actor
  std::vector<uint32_t> first_;     // node of an actor's act 0
  std::vector<uint32_t> stream_;    // by actor: below streams_, or kLoose
  std::vector<uint32_t> index_;     // by node: in order_
  std::vector<uint32_t> position_;  // by node: 1 + index in its stream
  std::vector<uint32_t> clock_;     // by node x stream
  std::vector<uint32_t> entry_;     // by node x stream: position, of loose ones
  std::vector<uint32_t> next_;      // nodes, by node from next_begin_ on
  std::vector<uint32_t> next_begin_;
  std::vector<ActRef> order_;
};

// When copies of registers hold something: from the act that acquires a copy to
// the last ACK for it.
class LiveRanges {
 public:
  struct Range {
    ActRef begin;              // acquires the copy
    ActRef give;               // gives it
    std::vector<ActRef> ends;  // its final readers, when they ack; or the give
  };

  // `spec` must balance (a copy that is never acked lives for ever).
  LiveRanges(const actor::TableSpec& spec, const HappensBefore& hb);

  // Ranges of one copy of a register that owns its memory, in order of time.
  // Empty for aliases and unknown registers.
  absl::Span<const Range> Of(uint32_t reg, uint32_t copy) const;

  // Whether the two copies never hold something at the same time, so that they
  // may lie in the same bytes. False for a copy and itself.
  bool NeverTogether(uint32_t reg_a, uint32_t copy_a, uint32_t reg_b,
                     uint32_t copy_b) const;
  // The same of all copies of both; false for a register and itself.
  bool NeverTogether(uint32_t reg_a, uint32_t reg_b) const;

  // One pair of ranges of two different copies that nothing orders; none where
  // they are never live together.
  std::optional<std::pair<Range, Range>> Conflict(uint32_t reg_a,
                                                  uint32_t copy_a,
                                                  uint32_t reg_b,
                                                  uint32_t copy_b) const;

  // All of `a` is over before `b` begins.
  bool Ordered(const Range& a, const Range& b) const;

 private:
  const HappensBefore* hb_;
  // By register, then copy.
  absl::flat_hash_map<uint32_t, std::vector<std::vector<Range>>> ranges_;
};

}  // namespace weft::check

#endif  // WEFT_COMPILER_CHECK_HAPPENS_BEFORE_H_
