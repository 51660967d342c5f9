// Rates: how often each node acts in a period, and in which part of it. Builds
// on core/graph/rates.h and refuses what no plan can do.
//
//   before   step nodes that micro-batches of any rank read: once, first
//
//   micro    once for each of the n micro-batches
//
//   after    the other step nodes: once, when all micro-batches are through
//
//   WEFT_ASSIGN_OR_RETURN(RateTable rates, ClassifyRates(graph, n));
//   rates.Acts(node)      // n or 1
//
// weft.Accumulate is the bridge: it acts n times, its result is a step value.
// With n == 1 all nodes are of the one section kMicro and every mix is legal.
//
// Threading: free functions, thread-safe; RateTable is a value.
#ifndef WEFT_COMPILER_RATES_RATES_H_
#define WEFT_COMPILER_RATES_RATES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"

namespace weft {

enum class Section : uint8_t { kBefore = 0, kMicro = 1, kAfter = 2 };

struct RateTable {
  int micro_batches = 1;
  std::vector<Section> section;  // by node id; variables: kBefore

  // Acts of the node in a period.
  int Acts(const Node& node) const {
    return section[node.id()] == Section::kMicro ? micro_batches : 1;
  }
};

// Errors, all kBadGraph and by the user's names: weft.Input left unbound; an
// Accumulate whose count is not `micro_batches`; an update that reads a value
// of a micro-batch; a micro node that depends on an accumulated value (that
// would need a second pass over the micro-batches).
absl::StatusOr<RateTable> ClassifyRates(const Graph& graph, int micro_batches);

}  // namespace weft

#endif  // WEFT_COMPILER_RATES_RATES_H_
