// From a plan to the actors that run it (core/actor). Reader lists, ack routes
// and acks through aliases are not in the plan; they follow from its tasks, and
// are derived here, once, for the run-time, the checker and the explorer alike.
//
//   ActorSpecOptions options;
//   options.worker = 0;                    // only what worker 0 drives
//   ASSIGN(actor::TableSpec spec, PlanToActorSpec(view, options));
//   ASSIGN(actor::ActorTable table, actor::ActorTable::Create(spec));
//   uint32_t task = table.id(i).index() - options.first_index;
//
// The ends of channels (SEND, RECV, POST) have ports that the plan does not
// list, after those that it does: a credit from POST to SEND and the data from
// SEND to RECV, both registers without bytes that are never acked, because what
// follows them says as much. Their other end is an actor of another rank, whose
// number only that rank knows, so the channel's stands for it.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_PLAN_ACTOR_SPEC_H_
#define WEFT_CORE_PLAN_ACTOR_SPEC_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/actor/spec.h"
#include "core/plan/plan.h"

namespace weft::plan {

inline constexpr uint32_t kAllWorkers = 0xffffffff;

struct ActorSpecOptions {
  uint32_t rank = 0;
  // ActorId::index() of task 0: programs of a session have disjoint ids.
  uint32_t first_index = 0;
  // Only the streams of this worker, with their tasks. It looks at messages
  // between launches: what a device does within its calls is done by then.
  uint32_t worker = kAllWorkers;
  // With the ports to other ranks. Without, a SEND is where data ends, and a
  // RECV has it once its receive is posted: what this rank alone can say.
  bool channels = false;
};

// The registers of channel `c`, an index in Plan.channels: no bytes, not in
// the plan.
inline uint32_t CreditRegister(const PlanView& view, uint32_t c) {
  return view.num_registers() + 2 * c;
}
inline uint32_t DataRegister(const PlanView& view, uint32_t c) {
  return view.num_registers() + 2 * c + 1;
}
// Stands for the actor at the other end: its rank, and `c` as the index.
actor::ActorId FarEnd(const PlanView& view, uint32_t c);

// Actors lie in the order of their tasks, streams in the order of the plan's.
// With kAllWorkers actor i is task i and stream s is stream s of the plan.
// kBadPlan where ids do not fit into their bits.
absl::StatusOr<actor::TableSpec> PlanToActorSpec(
    const PlanView& view, const ActorSpecOptions& options = {});

// The id of the actor of task `t`.
actor::ActorId ActorIdOf(const PlanView& view, uint32_t t,
                         const ActorSpecOptions& options = {});

}  // namespace weft::plan

#endif  // WEFT_CORE_PLAN_ACTOR_SPEC_H_
