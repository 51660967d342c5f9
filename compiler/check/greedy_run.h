// GreedyRun: all actors of a plan in one table, acting whenever one can, until
// a number of periods is done or nothing can act.
//
// Plans have fixed rates, and an act that is possible stays possible, so it
// does not matter which actor goes first: either every timing finishes, or this
// run stops too.
//
//   GreedyRun run = ...RunGreedily(spec, 3);
//   if (!run.complete) Explain(run.table);
//
// Threading: free function, thread-safe.
#ifndef WEFT_COMPILER_CHECK_GREEDY_RUN_H_
#define WEFT_COMPILER_CHECK_GREEDY_RUN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/actor/actor.h"
#include "core/actor/spec.h"

namespace weft::check {

struct GreedyRun {
  actor::ActorTable table;      // as it stopped
  std::vector<uint32_t> order;  // actors, in the order of their acts
  bool complete = false;        // all acts of the periods are made
};

// kBadPlan where the spec is not well formed or sends a message that does not
// fit it.
absl::StatusOr<GreedyRun> RunGreedily(const actor::TableSpec& spec,
                                      uint32_t periods);

}  // namespace weft::check

#endif  // WEFT_COMPILER_CHECK_GREEDY_RUN_H_
