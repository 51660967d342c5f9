// Phases: when in a pipeline each node of a training graph acts.
//
//   WEFT_ASSIGN_OR_RETURN(std::vector<int> phase,
//                         PhasesOfNodes(graph, rank_of_node, pipeline));
//
// A node is of the first phase of its rank that is neither before its stage (as
// Node::stage, where it has one) nor before the phases of its operands and
// control inputs. So phases only grow along edges, and what follows from them
// can be done. Sources, which act ahead of time, are of the first phase that
// reads them where no stage says otherwise.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_PARTITION_PHASES_H_
#define WEFT_COMPILER_PARTITION_PHASES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/pipeline/schedule.h"
#include "core/graph/graph.h"

namespace weft {

// By node id; -1 for nodes that act once a step. `rank` is by node id.
// kBadJob for a node that no phase of its rank is left for.
absl::StatusOr<std::vector<int>> PhasesOfNodes(const Graph& graph,
                                               absl::Span<const int> rank,
                                               const PipelineSpec& pipeline);

}  // namespace weft

#endif  // WEFT_COMPILER_PARTITION_PHASES_H_
