// Stages: which part of a model each stage of a pipeline has.
//
//   WEFT_RETURN_IF_ERROR(CutIntoStages(/*stages=*/4, &model));
//   model.FindNode("fc1")->stage;    // 0
//
// The nodes that act for each micro-batch are cut, in topological order, into
// parts that follow each other, so values only go to later stages. The cuts
// make the dearest part as cheap as it can be, by the flops that the schemas of
// the ops count; each part has at least one node that costs something. A node
// that acts once a step, a variable above all, belongs to the first stage that
// reads it. Constants are everywhere.
//
// Gradients are stages of their own: those of stage s of S are stage 2S-1-s
// (MirrorStages), so that stages are the phases of schedule.h.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_PIPELINE_STAGES_H_
#define WEFT_COMPILER_PIPELINE_STAGES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/graph/graph.h"

namespace weft {

// Sets Node::stage. kBadJob, with both numbers, where fewer nodes cost
// something than there are stages.
absl::Status CutIntoStages(int stages, Graph* model);

// Whether values of a model only go to later stages, results aside: kBadJob
// names a node that reads another of a later stage, and both stages.
absl::Status CheckStagesFlow(const Graph& model);

// To nodes with ids from `first_gradient` on, which have the stages of what
// they are the gradients of.
void MirrorStages(int32_t first_gradient, Graph* graph);

}  // namespace weft

#endif  // WEFT_COMPILER_PIPELINE_STAGES_H_
