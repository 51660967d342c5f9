// The loss scale: gradients in f16 would fall below its smallest numbers, so
// the loss is multiplied by a scale before it is differentiated, and what
// updates multiply gradients by divides by it again. No gradient is passed over
// for it.
//
//   WEFT_ASSIGN_OR_RETURN(LossScale scale, AddLossScale(&graph, spec, rows));
//   ... AddGradients(&graph, loss * scale.seed, parameters) ...
//   multiplier = inverse * scale.unscale
//   WEFT_ASSIGN_OR_RETURN(multiplier, AddScaleUpdate(&graph, scale, norm, loss,
//                                                    multiplier));
//
// It scales the mean over the step's samples, as users of other frameworks know
// it, though the loss of this one is a sum.
//
// Fixed: a constant. Dynamic: two variables, "loss_scale" and
// "loss_scale/good_steps", that weft.LossScaleUpdate changes, and
// "loss_scale/skipped_steps", that counts. A step whose gradients are not all
// finite, which their norm tells, or whose loss is not, is skipped: its
// multiplier is NaN, with which updates change nothing; nor do those of running
// statistics, which are multiplied by 1 or NaN.
//
// Threading: thread-safe functions.
#ifndef WEFT_COMPILER_TRAINING_LOSS_SCALE_H_
#define WEFT_COMPILER_TRAINING_LOSS_SCALE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "compiler/training/training.h"
#include "core/graph/graph.h"

namespace weft::training {

// What it is, as values that are all f32 [].
struct LossScale {
  LossScaleSpec spec;
  Value scale;       // the variable; invalid where it is not dynamic
  Value seed;        // times the sum over samples; invalid: no scale
  Value unscale;     // its inverse
  Value good_steps;  // variables, where dynamic
  Value skipped_steps;

  bool dynamic() const { return scale.valid(); }
};

// `rows`: terms of the step's loss.
absl::StatusOr<LossScale> AddLossScale(Graph* graph, const LossScaleSpec& spec,
                                       int64_t rows);

// Of a dynamic scale: its update by the gradients' norm and the loss, the
// outputs "loss_scale" (of this step) and "skipped_steps" (so far, this one
// included), and a multiplier for updates of running statistics. Returns the
// multiplier, or NaN where one of the two is not finite.
absl::StatusOr<Value> AddScaleUpdate(Graph* graph, const LossScale& scale,
                                     Value norm, Value loss, Value multiplier);

}  // namespace weft::training

#endif  // WEFT_COMPILER_TRAINING_LOSS_SCALE_H_
