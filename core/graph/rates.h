// Rates: how often a node acts. A training step may be made of several
// micro-batches; what depends on a micro-batch acts once for each ("micro"),
// all else once a step. weft.Accumulate takes micro values and gives one a
// step.
//
//   WEFT_ASSIGN_OR_RETURN(std::vector<Rate> rates, InferRates(graph));
//   if (rates[node->id()] == Rate::kMicro) ...
//
// weft.Input and weft.DataSource are of the micro rate, weft.Counter,
// weft.Recv and weft.Send say their own; every other node, and a weft.Send that
// says nothing of the kind, is of the micro rate where an operand is, and of
// the step rate otherwise. A micro weft.Send may send a step value every time.
// A step value that a micro node reads is held for the whole step. Control
// inputs do not change rates.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_GRAPH_RATES_H_
#define WEFT_CORE_GRAPH_RATES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"

namespace weft {

enum class Rate : uint8_t { kStep, kMicro };

// By node id, kStep in holes. Errors: kBadGraph for a cycle.
absl::StatusOr<std::vector<Rate>> InferRates(const Graph& graph);

// True where the graph accumulates over several micro-batches: only then do the
// two rates differ.
bool HasAccumulation(const Graph& graph);

}  // namespace weft

#endif  // WEFT_CORE_GRAPH_RATES_H_
