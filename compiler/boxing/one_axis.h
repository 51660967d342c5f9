// One step of a boxing as nodes of one rank's graph.
//
//   OneAxisChange change = {&step, &collective, /*position=*/2};
//   Value y = *AddOneAxisChange(&graph, &emit, change, x);
//
// All that is split by S(d,g) is an ordinary split of the columns of a matrix:
// [dims before d, times g] x [the rest]. So collectives need not know groups.
//
// Threading: a free function; as the graph.
#ifndef WEFT_COMPILER_BOXING_ONE_AXIS_H_
#define WEFT_COMPILER_BOXING_ONE_AXIS_H_

#include "absl/status/statusor.h"
#include "compiler/boxing/plan.h"
#include "compiler/collectives/collective.h"
#include "core/graph/graph.h"

namespace weft {

// Ownership: refers to the step and the collective.
struct OneAxisChange {
  const BoxingStep* step = nullptr;
  // What all collectives of the boxing have in common, with the group, rank and
  // name of this step; kind, op and axes are set from the step.
  const Collective* collective = nullptr;
  int position = 0;  // of this rank in the group
};

// `local`: what the rank has before the step. Errors: those of AddCollective
// and of the emitter.
absl::StatusOr<Value> AddOneAxisChange(Graph* graph, GraphEmitter* emit,
                                       const OneAxisChange& change,
                                       Value local);

}  // namespace weft

#endif  // WEFT_COMPILER_BOXING_ONE_AXIS_H_
