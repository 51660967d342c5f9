// "decompose": replaces nodes by the decomposition that their schema gives,
// again and again until nothing is left that should go and can.
//
//   PassContext context;
//   context.settings.decompose = [&](const Node& n) { return !HasKernel(n); };
//   WEFT_ASSIGN_OR_RETURN(bool changed, CreateDecomposePass()->Run(graph,
//   context));
//
// A node without a decomposition stays, whatever the predicate says: the
// compiler says then that no device can run it. New nodes are named
// "<node>/<op>", lie where the node lay, and wait for what it waited for; who
// waited for it waits for them all. An update becomes the computation of the
// new values and a weft.Assign of each.
#ifndef WEFT_COMPILER_TRANSFORMS_DECOMPOSE_H_
#define WEFT_COMPILER_TRANSFORMS_DECOMPOSE_H_

#include <memory>

#include "absl/status/status.h"
#include "compiler/pass/pass.h"

namespace weft {

// Replaces this one node. Pre-condition: its schema has a decomposition.
absl::Status DecomposeNode(Graph* graph, int32_t node);

std::unique_ptr<Pass> CreateDecomposePass();

}  // namespace weft

#endif  // WEFT_COMPILER_TRANSFORMS_DECOMPOSE_H_
