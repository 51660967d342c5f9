// The proofs about bytes: see check.h, points 4 to 6.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_CHECK_MEMORY_PROOF_H_
#define WEFT_COMPILER_CHECK_MEMORY_PROOF_H_

#include "absl/status/status.h"
#include "compiler/check/happens_before.h"
#include "core/plan/plan.h"

namespace weft::check {

// kPlanRefuted where an in-place result, or a peer that was lent the memory,
// may overwrite what another task still reads, or what it reads is already
// overwritten; and where nothing orders two that write the same bytes.
absl::Status ProveAliases(const plan::PlanView& view, const HappensBefore& hb);

// kPlanRefuted where two registers share bytes while both hold something, where
// anything shares bytes with a variable, or where what an actor keeps from act
// to act is not its own. `live`: of the plan's actors.
absl::Status ProveMemory(const plan::PlanView& view, const HappensBefore& hb,
                         const LiveRanges& live);

// kPlanRefuted where the owner of what a mapped channel offers may hear that it
// has been read, or has landed, while a task of this rank still uses it.
absl::Status ProveMapped(const plan::PlanView& view, const HappensBefore& hb,
                         const LiveRanges& live);

}  // namespace weft::check

#endif  // WEFT_COMPILER_CHECK_MEMORY_PROOF_H_
