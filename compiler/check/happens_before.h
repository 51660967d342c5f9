// HappensBefore: which act of a plan is always done before which other begins.
//
// Acts are ordered by three things only: an actor acts one act after another,
// an ordered stream runs its acts in order, and a message is sent after the act
// that sends it is done. What sources, sinks, sends and receives do is in no
// stream's order, even where their launch is (actor::KindRow::late). The
// relation is computed over the acts of a few periods, laid out one after
// another, with one vector clock per act: one component for each ordered
// stream, one for each actor whose work is in no such order.
//
//   HappensBefore hb = ...Create(spec, HappensBefore::PeriodsFor(spec));
//   hb.Before({reader, 3}, {writer, 4});   // actor, act counted from 0
//
// LiveRanges says, on top of it, whether two copies of registers are ever live
// together, which is what the memory planner and the plan checker ask.
//
// Cost: acts x components in time and bytes. Threading: immutable once
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

  // `a` is done before `b` begins, whatever the timing. False for a == b.
  // Pre-condition: both acts lie within the periods.
  bool Before(ActRef a, ActRef b) const;

  uint32_t periods() const { return periods_; }
  uint32_t acts(uint32_t actor) const { return acts_[actor]; }
  // Every act, in one order in which they can happen.
  absl::Span<const ActRef> order() const { return order_; }

 private:
  HappensBefore() = default;

  uint32_t Node(ActRef a) const { return first_[a.actor] + a.act; }
  // An ordered stream is one component; an actor elsewhere, or whose work is
  // not in its stream's order, another.
  void MakeComponents(const actor::TableSpec& spec,
                      const actor::ActorTable& table);
  void Join(uint32_t from, uint32_t into);

  uint32_t periods_ = 0;
  // A program that saves thousands of tensors has as many sinks, each a
  // component of a few acts: bytes count those.
  uint32_t wide_ = 0, narrow_ = 0;    // components of many acts, of few
  std::vector<uint32_t> acts_;        // by actor
  std::vector<uint32_t> first_;       // node of an actor's act 0
  std::vector<uint32_t> component_;   // by actor; from wide_ on: narrow
  std::vector<uint32_t> position_;    // by node: 1 + index in its component
  std::vector<uint32_t> clock_;       // by node x wide component
  std::vector<uint8_t> small_clock_;  // by node x narrow component
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

 private:
  // All of `a` is over before `b` begins.
  bool Ordered(const Range& a, const Range& b) const;

  const HappensBefore* hb_;
  // By register, then copy.
  absl::flat_hash_map<uint32_t, std::vector<std::vector<Range>>> ranges_;
};

}  // namespace weft::check

#endif  // WEFT_COMPILER_CHECK_HAPPENS_BEFORE_H_
