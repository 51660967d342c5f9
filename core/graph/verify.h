// What holds for every graph between passes. Graph itself keeps most of it; the
// verifier proves all of it anew, so that a defect of a pass is met where it
// was made, under the names that the user gave.
//
//   WEFT_RETURN_IF_ERROR(VerifyGraph(graph));
//
// - names are unique, not empty, and lead back to their node;
// - operands are results of live nodes; use lists agree with operands;
// - every type, inferred anew from the operands, equals the recorded one;
// - control inputs are live, ascending, not the node itself;
// - data and control edges together have no cycle;
// - an update op changes values of weft.Variable nodes only, each variable has
//   at most one update, and nothing reads an update's results;
// - the names given to weft.Output nodes differ;
// - where values are accumulated over micro-batches, weft.Accumulate reads
// micro
//   values and updates are of the step rate (core/graph/rates.h).
//
// Errors: kBadGraph, or what inference gives; the first one found, in the order
// of ids. Threading: a free function, thread-safe.
#ifndef WEFT_CORE_GRAPH_VERIFY_H_
#define WEFT_CORE_GRAPH_VERIFY_H_

#include "absl/status/status.h"
#include "core/graph/graph.h"

namespace weft {

absl::Status VerifyGraph(const Graph& graph);

}  // namespace weft

#endif  // WEFT_CORE_GRAPH_VERIFY_H_
