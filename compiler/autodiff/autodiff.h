// Reverse-mode differentiation: adds the nodes that compute the derivatives of
// one scalar. Each op's own rule comes from its schema (core/ops); this adds
// the order, the sums and the names.
//
//   WEFT_ASSIGN_OR_RETURN(std::vector<Value> grads,
//                         AddGradients(&graph, loss, {w1, w2}));
//
// Run it on the model and its loss, before passes that lose what a gradient
// needs (weft.fused has none) and after set_mode, which decides what is
// differentiated.
//
// A gradient flows from the loss to the values that were asked for, through
// floating point values only: nodes on no such path are not looked at, so an op
// without a gradient is no error there. Where a value is used more than once,
// its contributions are added from the left in reverse topological order of the
// uses: the same graph gives the same sums.
//
// The nodes made for node n are named "n/grad/<op>" and keep its device and
// stage.
//
// Values in `recompute` are no operands of gradients: each is made once more
// beside the first gradient that reads it, by a node "n/again" that waits for
// what that gradient waits for (compiler/autodiff/recompute.h chooses them).
//
// Threading: thread-compatible.
#ifndef WEFT_COMPILER_AUTODIFF_AUTODIFF_H_
#define WEFT_COMPILER_AUTODIFF_AUTODIFF_H_

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace weft {

// d loss / d wrt[i], of wrt[i]'s type; invalid where the loss does not depend
// on it. Errors: kShapeMismatch or kDTypeMismatch where `loss` is no floating
// point scalar, kNoGradient (names node and op) where the path meets an op
// without a rule. After an error the graph holds part of the new nodes: discard
// it.
absl::StatusOr<std::vector<Value>> AddGradients(
    Graph* graph, Value loss, absl::Span<const Value> wrt,
    const absl::flat_hash_set<Value>& recompute = {});

}  // namespace weft

#endif  // WEFT_COMPILER_AUTODIFF_AUTODIFF_H_
