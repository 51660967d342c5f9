// CheckPlan: proofs about one rank's plan, before it is run.
//
//   WEFT_RETURN_IF_ERROR(check::CheckPlan(plan));
//
// What is proved, in this order; the first that fails is reported by the user's
// names, as kPlanRefuted:
//   1. Rates: what a register's owner gives in a period is what each reader
//      takes, and the ACKs of a copy are those that its owner waits for.
//   2. Liveness: all acts of a few periods happen. Plans have fixed rates, so
//      one greedy run of the real actors decides for every timing. Where it
//      stops, the shortest cycle of waiting is named, with one change that is
//      enough to break it.
//   3. Devices: memory is on a device that its readers and writers can reach.
//   4. Aliases: nobody reads what an in-place result has overwritten; of two
//      such results in the same bytes one comes first. What is lent to a peer
//      is overwritten from the SEND that lends it to the RECV that says it
//      landed.
//   5. Memory: no two live registers share bytes, scratch belongs to one
//      ordered stream, and what is kept from act to act to one actor.
//   6. Mapped channels: nobody writes what lies at another rank unless it is
//      lent, and the word that it has been read, or has landed, leaves after
//      its last reader. (That the owner keeps it until then is in the plan's
//      form.)
//   7. Arenas: each has the size that its contents need, to the alignment.
//
// A malformed plan is kBadPlan (core/plan). A plan with partners on other ranks
// is proved as far as its own acts go.
//
// Cost: about acts x streams, and the pairs of registers that share bytes.
//
// Threading: thread-safe.
#ifndef WEFT_COMPILER_CHECK_CHECK_H_
#define WEFT_COMPILER_CHECK_CHECK_H_

#include "absl/status/status.h"
#include "core/proto/plan.pb.h"

namespace weft::check {

absl::Status CheckPlan(const plan::Plan& plan);

}  // namespace weft::check

#endif  // WEFT_COMPILER_CHECK_CHECK_H_
