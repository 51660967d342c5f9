// Waves: for each node, which of the graph's weft.Recv it waits for that was
// made last.
//
//   const std::vector<int32_t> waves = WavesOf(graph, order);
//   waves[node->id()];   // the id of a Recv; -1: it waits for none
//
// What several ranks send and receive was made in one order on all of them
// (compiler/collectives/collective.h), which is why none waits for another for
// ever. A pass that makes one node of several with results of different waves
// breaks that: an early Send comes to wait for a late Recv. Among nodes of one
// wave it may: no result comes to wait for another Recv than before.
//
// Threading: a free function, thread-safe.
#ifndef WEFT_COMPILER_TRANSFORMS_WAVES_H_
#define WEFT_COMPILER_TRANSFORMS_WAVES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace weft {

// By node id. `order`: the graph's, topological.
inline std::vector<int32_t> WavesOf(const Graph& graph,
                                    absl::Span<const Node* const> order) {
  std::vector<int32_t> waves(graph.id_bound(), -1);
  for (const Node* node : order) {
    int32_t& wave = waves[node->id()];
    if (node->Is(OpId::kRecv)) wave = node->id();
    for (Value v : node->inputs()) {
      if (v.valid()) wave = std::max(wave, waves[v.node]);
    }
    for (int32_t from : node->control_inputs()) {
      wave = std::max(wave, waves[from]);
    }
  }
  return waves;
}

}  // namespace weft

#endif  // WEFT_COMPILER_TRANSFORMS_WAVES_H_
