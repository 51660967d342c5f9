// From a model to programs: adds what a model leaves open (data, loss,
// gradients, accumulation, clipping, schedule, updates, metrics) and makes one
// logical graph per program. All programs of a session name the same variables.
//
//   TrainingSpec spec;
//   spec.data = {Shape({28, 28}), /*classes=*/10, /*mean=*/0.286,
//   /*std=*/0.353}; WEFT_ASSIGN_OR_RETURN(Graph train, BuildTrainGraph(model,
//   spec)); WEFT_ASSIGN_OR_RETURN(Graph init, BuildInitGraph(train,
//   spec.seed));
//
// One step of `train`, with n micro-batches of b samples:
//
//   images u8, labels i32, weights f32 <- weft.DataSource "train"   n times
//   x = (images / 255 - mean) / std, on the I/O stream               n times
//   (or tokens i32, which go to the model as they are)
//   loss_sum, d loss_sum / d parameter, weight_sum, correct          n times
//   each accumulated over the n micro-batches in tree order          once
//   update by gradient * (1 / weight_sum * clip_scale)               once
//
// So a step is the update of the weighted mean over all its samples (of a
// language model: all tokens that it predicts), whatever n is. Weight decay is
// part of the updates; parameters whose name matches `decay_exclude` have none.
//
// Names that the session binds: sources "train", "eval", "load/<variable>";
// sinks "loss", "weight", "correct", "learning_rate", "grad_norm",
// "loss_scale", "skipped_steps", "save/<variable>". "loss" is the mean of a
// training step; in `eval` it is the sum, so that sums over batches of
// different weight are exact. "correct" is there for images only.
//
// Where the model's nodes have stages of a pipeline, gradients are in stages
// that lead back (compiler/pipeline/stages.h).
//
// The model: one weft.Input, f32 [b, ...] images or i32 [b, context] tokens,
// and one weft.Output named "logits", f32 [b, classes] or [b * context,
// classes]. Not here: passes that only rewrite (compiler/transforms),
// placement, plans.
//
// Threading: thread-safe functions.
#ifndef WEFT_COMPILER_TRAINING_TRAINING_H_
#define WEFT_COMPILER_TRAINING_TRAINING_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"

namespace weft::training {

struct DataSpec {
  Shape image;  // of one sample, as the files hold it (u8)
  int64_t classes = 10;
  double mean = 0;  // of values scaled to [0, 1]
  double std = 1;
  // Tokens of one sample where the data is text: each is to be classified as
  // the next one, and image, mean and std say nothing.
  int64_t context = 0;
};

struct ScheduleSpec {
  std::string kind = "constant";  // "step", "cosine": weft.LearningRate
  double base = 0.1;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;  // cosine
  int64_t step_size = 0;    // step
  double gamma = 0.1;       // step
  double final = 0;         // cosine
};

struct OptimizerSpec {
  enum class Kind { kSgd, kAdam, kAdamW, kAdagrad };
  Kind kind = Kind::kSgd;
  double momentum = 0;  // sgd; 0 = none
  bool nesterov = false;
  double beta1 = 0.9;  // adam, adamw
  double beta2 = 0.999;
  double epsilon = 1e-8;  // adam, adamw, adagrad
  double weight_decay = 0;
  std::string decay_exclude;  // regular expression, searched in the name
  double clip_norm = 0;       // of the global gradient norm; 0 = off
  ScheduleSpec schedule;
};

// What the loss is multiplied by before it is differentiated, and gradients
// divided by before they are used (compiler/training/loss_scale.h).
struct LossScaleSpec {
  enum class Kind { kNone, kFixed, kDynamic };
  Kind kind = Kind::kNone;
  double value = 65536;  // that a dynamic one starts with
  // Dynamic: after a step that is skipped, after so many in a row that are not.
  double backoff_factor = 0.5;
  double growth_factor = 2;
  int64_t growth_interval = 2000;
};

struct TrainingSpec {
  DataSpec data;
  OptimizerSpec optimizer;
  double label_smoothing = 0;
  // Of products: f32, or a 16-bit format (compiler/transforms/mixed_precision).
  DType compute = DType::kF32;
  LossScaleSpec loss_scale;
  int micro_batches = 1;
  // Percent of a step's time for values that are computed again instead of kept
  // (compiler/autodiff/recompute.h).
  double recompute = 0;
  uint64_t seed = 0;
};

// Errors: kBadGraph where the model lacks its input or logits, kShapeMismatch
// where they do not fit `spec` (both named), kNoGradient, kBadValue for a
// broken regular expression.
absl::StatusOr<Graph> BuildTrainGraph(const Graph& model,
                                      const TrainingSpec& spec);

// Model and loss over one batch, in inference mode.
absl::StatusOr<Graph> BuildEvalGraph(const Graph& model,
                                     const TrainingSpec& spec);

// Gives every variable of `program` its first value.
absl::StatusOr<Graph> BuildInitGraph(const Graph& program, uint64_t seed);

// Delivers every variable to the sink "save/<name>".
absl::StatusOr<Graph> BuildSaveGraph(const Graph& program);

// Fills every variable from the source "load/<name>".
absl::StatusOr<Graph> BuildLoadGraph(const Graph& program);

}  // namespace weft::training

#endif  // WEFT_COMPILER_TRAINING_TRAINING_H_
