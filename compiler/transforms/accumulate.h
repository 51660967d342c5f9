// Gradient accumulation: turns a value made once for each micro-batch into its
// sum over the step.
//
//   WEFT_ASSIGN_OR_RETURN(Value sum, AddAccumulate(&graph, grad, 4));
//
// Does not move readers: whoever wants the sum reads it.
//
// Threading: thread-compatible.
#ifndef WEFT_COMPILER_TRANSFORMS_ACCUMULATE_H_
#define WEFT_COMPILER_TRANSFORMS_ACCUMULATE_H_

#include "absl/status/statusor.h"
#include "core/graph/graph.h"

namespace weft {

// The result of a new weft.Accumulate node "<node of value>/accumulate", with
// the device and stage of the node that makes `value`. Errors: kBadAttribute
// for a count below 1, kDTypeMismatch for a value that cannot be summed.
absl::StatusOr<Value> AddAccumulate(Graph* graph, Value value, int count);

}  // namespace weft

#endif  // WEFT_COMPILER_TRANSFORMS_ACCUMULATE_H_
