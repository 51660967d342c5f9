// Pass "epilogues": what follows an op's result goes into the op, where that
// leaves one pass over memory instead of two:
//
//   Relu(op), op = Gemm | Conv | BatchNormTraining
//       -> op {activation = "relu"}
//
//   Relu(Add(BatchNormTraining, r))
//       -> BatchNormTraining {activation = "relu"} with residual r
//
//   LayerNormalization(Add(x, r))
//       -> LayerNormalization(x, ..., r), which gives the sum as well
//
//   SoftmaxCrossEntropyLoss and SoftmaxCrossEntropyLossGrad
//       -> SoftmaxCrossEntropyLossAndGrad
//
// In f32 and f64: of 16 bits, what two kernels round twice one would round
// once. Only where nobody else reads what would no longer be there, where the
// two have one place, rate and wave (waves.h), and where the device runs the
// result as one kernel. The bits stay the same, but for the loss and its
// gradient, which then share their exponentials.
//
// Gradients were taken before: that of Relu reads its result, so none of these
// keeps another value alive.
//
// Threading: thread-compatible.
#ifndef WEFT_COMPILER_TRANSFORMS_EPILOGUES_H_
#define WEFT_COMPILER_TRANSFORMS_EPILOGUES_H_

#include <memory>

#include "absl/status/statusor.h"
#include "compiler/pass/pass.h"

namespace weft {

// True where something was changed. Errors: kBadGraph for a graph that has a
// cycle or no rates.
absl::StatusOr<bool> FuseEpilogues(Graph* graph, const PassSettings& settings);

std::unique_ptr<Pass> CreateEpiloguesPass();

}  // namespace weft

#endif  // WEFT_COMPILER_TRANSFORMS_EPILOGUES_H_
