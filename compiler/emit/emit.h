// Emit: an ordered partition as the plan message, complete but for the places
// of registers, the proof and the hash (compile.cc does these).
//
//   WEFT_ASSIGN_OR_RETURN(plan::Plan plan,
//                         EmitPlan(parts, schedule, state, options));
//
// One draft of a task is one task. What tasks pass on becomes registers: the
// values that a chain gives to the same readers share one, everything else has
// its own. Ports follow from rates: equal rates act every time, a step value is
// held by a micro-batch task from its first act to its last, a sum is given at
// the last act, a variable's two registers overlay and exclude each other.
// Control edges that no stream order implies become registers without bytes.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_EMIT_EMIT_H_
#define WEFT_COMPILER_EMIT_EMIT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/memory/state_layout.h"
#include "compiler/order/order.h"
#include "compiler/partition/partition.h"
#include "compiler/pipeline/schedule.h"
#include "core/proto/plan.pb.h"

namespace weft {

struct EmitOptions {
  std::string program;
  std::string graph;
  absl::Span<const plan::Device> devices;
  bool estimate = false;
  uint32_t rank = 0;  // whose plan it is
  uint32_t ranks = 1;
  PipelineSpec pipeline;
};

absl::StatusOr<plan::Plan> EmitPlan(const Partition& parts,
                                    const Schedule& schedule,
                                    const StateLayout& state,
                                    const EmitOptions& options);

}  // namespace weft

#endif  // WEFT_COMPILER_EMIT_EMIT_H_
