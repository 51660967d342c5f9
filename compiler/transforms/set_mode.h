// Training or evaluation: gives the ops that differ between the two their form.
//
//   WEFT_RETURN_IF_ERROR(SetMode(&graph, Mode::kTrain, seed));
//
// - Dropout: weft.DropoutTraining in kTrain, removed in kEval; removed in both
//   where its ratio is 0.
// - weft.SelfAttention without a counter: in kTrain it gets one where its ratio
//   is not 0, and drops weights from then on.
// - BatchNormalization {training_mode: 0} whose statistics are weft.Variables:
//   in kTrain weft.BatchNormTraining, and a weft.EmaUpdate of each statistic;
//   in kEval it stays.
//
// Each of these gets a stream of random numbers of its own: RandomStream() of
// the name that the user gave the node, beside `seed`. A weft.Counter of the
// micro rate, one for the whole graph, makes every micro-batch draw others. A
// running statistic r with momentum m and the batch's statistic b becomes r * m
// + b * (1 - m), where a variance is the biased one. The updates read the
// statistics of one micro-batch; whoever splits a step into micro-batches
// averages them (weft.EmaUpdate, operand 1).
//
// BatchNormalization with constant or computed statistics keeps its form, and
// so does one with training_mode 1. Run it before autodiff.
//
// Threading: thread-compatible.
#ifndef WEFT_COMPILER_TRANSFORMS_SET_MODE_H_
#define WEFT_COMPILER_TRANSFORMS_SET_MODE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "compiler/pass/pass.h"
#include "core/graph/graph.h"

namespace weft {

enum class Mode { kTrain, kEval };

absl::Status SetMode(Graph* graph, Mode mode, uint64_t seed);

// "set_mode": as PassSettings.training and .seed say.
std::unique_ptr<Pass> CreateSetModePass();

}  // namespace weft

#endif  // WEFT_COMPILER_TRANSFORMS_SET_MODE_H_
