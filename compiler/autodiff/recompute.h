// What gradients compute again instead of keeping it from the forward pass to
// the backward pass: less memory for a little time.
//
//   Graph trial = graph.Clone();
//   const int32_t bound = trial.id_bound();
//   WEFT_RETURN_IF_ERROR(AddGradients(&trial, loss, wrt).status());
//   auto again = ChooseRecomputation(trial, bound, 5);
//   WEFT_ASSIGN_OR_RETURN(auto gradients,
//                         AddGradients(&graph, loss, wrt, again));
//
// A value is a candidate where a gradient reads it, it has 64 KiB or more, one
// pass over memory makes it (an elementwise op or a normalisation, nothing
// random), and what it is made from is there in the backward pass anyway: a
// variable, a constant, something that a gradient reads too, or something that
// is made from such values in the same way. It depends on the micro-batch: what
// follows from variables alone is there for the whole step. Nothing is kept
// longer for its sake, and nothing is computed more than twice.
//
// The rule: the time of a node is its bytes plus a tenth of its flops (devices
// do some ten flops while they move a byte), in the units of Cost. Candidates
// are taken by their bytes for the time of all that is made again for them, the
// best first, while that stays within `percent` of the whole graph's time.
//
// Threading: thread-safe functions.
#ifndef WEFT_COMPILER_AUTODIFF_RECOMPUTE_H_
#define WEFT_COMPILER_AUTODIFF_RECOMPUTE_H_

#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "core/graph/graph.h"

namespace weft {

// Of a graph with its gradients, whose nodes have ids from `first_gradient` on.
absl::flat_hash_set<Value> ChooseRecomputation(const Graph& graph,
                                               int32_t first_gradient,
                                               double percent);

}  // namespace weft

#endif  // WEFT_COMPILER_AUTODIFF_RECOMPUTE_H_
