// What the passes share: which nodes may be rewritten, and how one is replaced.
//
//   if (!IsFreelyReplaceable(graph, node)) continue;
//   WEFT_RETURN_IF_ERROR(ReplaceNode(&graph, node.id(), {replacement}));
//
// Threading: thread-compatible.
#ifndef WEFT_COMPILER_TRANSFORMS_REWRITE_H_
#define WEFT_COMPILER_TRANSFORMS_REWRITE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace weft {

// No effect but its results, and nothing random.
inline bool IsPure(const Node& node) {
  return node.schema().effect == OpEffect::kPure;
}

// Part of the control order: takes part in no rewrite that would change it.
inline bool HasControlEdges(const Graph& graph, const Node& node) {
  return !node.control_inputs().empty() ||
         !graph.ControlUses(node.id()).empty();
}

inline bool SamePlacement(const Node& a, const Node& b) {
  return a.device == b.device && a.stage == b.stage;
}

// The operand's node where it is a Constant, else null.
const Node* AsConstant(const Graph& graph, Value v);

// The single value of a Constant whose elements are all the same, bit for bit
// (so that 0.0 and -0.0 differ); false where `v` is no such thing or i64 beyond
// 2^53.
bool IsSplat(const Graph& graph, Value v, double* value);

// Readers of output i read replacements[i] instead; control uses move to
// replacements[0]'s node, where there are any; then the node is removed. An
// invalid replacement is for an output that nobody reads.
absl::Status ReplaceNode(Graph* graph, int32_t node,
                         absl::Span<const Value> replacements);

// Adds a node that is going to stand in the place of `node`: named after it
// ("fc1" and suffix "moved": "fc1/moved"), with its device, its stage and its
// history, to which `why` is added.
absl::StatusOr<Node*> AddInPlaceOf(Graph* graph, const Node& node,
                                   absl::string_view suffix,
                                   absl::string_view op,
                                   absl::Span<const Value> inputs,
                                   AttrMap attrs, std::string why,
                                   int num_outputs = -1);

}  // namespace weft

#endif  // WEFT_COMPILER_TRANSFORMS_REWRITE_H_
