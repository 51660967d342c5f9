// Norms of values that ranks share (weft.GlobalNorm), as sums that they can
// share, too. In f64, as the op has them, whose squares of f32 cannot overflow.
//
//   DecomposeNorms(&graph)        a sum of squares for each operand, which the
//                                 choice of sharding may do part by part
//   SplitNorms(&graph, n, bytes)  before a step's micro-batches are shared by n
//                                 members: sums over members that travel alone
//                                 become one weft.SumOfSquares {parts: n}, all
//                                 others one without parts
//
// The parts are the blocks of a sum in place: lowering takes each from the
// member that has just made it, where it was near, and only numbers travel.
// Where sums are made otherwise, each member does all parts, with the same
// bits.
//
// Threading: free functions; as the graph.
#ifndef WEFT_COMPILER_SHARDING_NORMS_H_
#define WEFT_COMPILER_SHARDING_NORMS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/graph/graph.h"

namespace weft {

// Errors: those of adding to the graph, a defect.
absl::Status DecomposeNorms(Graph* graph);

// `bundle_bytes`: of LoweringOptions; a sum over members (weft.Accumulate) of
// f32 or f64 that is too large for bundles (GoesAlone) travels alone. A norm of
// none of these stays as it is, and so do all of fewer than two members.
// Errors: as above.
absl::Status SplitNorms(Graph* graph, int members, int64_t bundle_bytes);

}  // namespace weft

#endif  // WEFT_COMPILER_SHARDING_NORMS_H_
