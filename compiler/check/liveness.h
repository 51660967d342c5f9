// The proof of liveness, and why it failed: see check.h.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_CHECK_LIVENESS_H_
#define WEFT_COMPILER_CHECK_LIVENESS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "compiler/check/greedy_run.h"
#include "core/actor/spec.h"
#include "core/plan/plan.h"

namespace weft::check {

// kPlanRefuted where the acts of `periods` periods cannot all happen: the
// shortest cycle of tasks that wait for one another, and one change (copies, or
// order of a stream, or an order edge less) after which they all do.
// Pre-condition: rates balance, and `spec` is PlanToActorSpec(view).
absl::Status ProveLiveness(const plan::PlanView& view,
                           const actor::TableSpec& spec, uint32_t periods,
                           const GreedyRun& run);

}  // namespace weft::check

#endif  // WEFT_COMPILER_CHECK_LIVENESS_H_
