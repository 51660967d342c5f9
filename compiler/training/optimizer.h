// Updates: from summed gradients to new parameters. Adds the optimizer's state
// as variables "<parameter>/<slot>" that start at zero.
//
// Threading: thread-safe.
#ifndef WEFT_COMPILER_TRAINING_OPTIMIZER_H_
#define WEFT_COMPILER_TRAINING_OPTIMIZER_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/training/loss_scale.h"
#include "compiler/training/training.h"
#include "core/graph/graph.h"

namespace weft::training {

struct UpdateMetrics {
  Value learning_rate;  // f32 []
  Value grad_norm;      // f32 [], before clipping; invalid where none is needed
};

// `gradients[i]` is the sum over a step's samples for `parameters[i]`;
// `inverse` (f32 []) makes it a mean. The updates multiply by it and by the
// clipping factor as they read: no pass of its own over the gradients. A
// dynamic `scale` is updated too, by the norm and the step's `loss` (f32 []);
// the other kind is part of `inverse`. A parameter with an invalid gradient (no
// path to the loss) is left as it is.
absl::StatusOr<UpdateMetrics> AddUpdates(Graph* graph,
                                         const OptimizerSpec& spec,
                                         absl::Span<const Value> parameters,
                                         absl::Span<const Value> gradients,
                                         Value inverse, Value loss,
                                         const LossScale& scale);

}  // namespace weft::training

#endif  // WEFT_COMPILER_TRAINING_OPTIMIZER_H_
