// The plans of all ranks as one: what a job does, for the proofs and the tools
// that know one plan.
//
//   WEFT_ASSIGN_OR_RETURN(Plan job, JoinRanks({&rank0, &rank1}));
//   WEFT_RETURN_IF_ERROR(check::CheckPlan(job));     // proves the whole job
//
// Tasks, registers, streams and the rest follow rank by rank; names get
// "rank 1/" before them. A channel becomes two registers without bytes: the
// credit, from POST to SEND, and the data, from SEND to RECV. They are acked,
// which the wire leaves out: SEND has taken credit k when the data k is there,
// and RECV has taken the data k when the credit after it is there. So nothing
// waits in the joined plan that would not on the wire. Registers that lie at
// another rank name the one that they are there.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_PLAN_JOB_H_
#define WEFT_CORE_PLAN_JOB_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/proto/plan.pb.h"

namespace weft::plan {

// `plans` by rank, of one program. kPlansDiffer, naming the first channel with
// what both ranks say of it, where an end is missing or the ends are not alike
// (what each decided, where names tell: core/graph/channels.h), or naming both
// pipelines;
// kBadPlan where a plan is not well formed or not of its rank.
absl::StatusOr<Plan> JoinRanks(absl::Span<const Plan* const> plans);

}  // namespace weft::plan

#endif  // WEFT_CORE_PLAN_JOB_H_
