// The model library: networks built by name and string arguments, as a job file
// gives them.
//
//   WEFT_ASSIGN_OR_RETURN(Graph g, BuildModel("mlp", {{"hidden", "512,512"}},
//                                             {.batch = 128, ...}));
//
// A model is a logical graph with one weft.Input "image" (f32, batch first,
// normalised), its parameters as weft.Variable nodes that carry their own
// initial distribution, and one weft.Output "logits" (f32 [batch, classes]). It
// says nothing of training: compiler/training adds loss, gradients and updates.
//
// Every model takes the argument `classes` (default: as many as the data has).
//
// A model is a function here and a row in the table of model.cc; an unknown
// name or argument is an error with "did you mean" (kUnknownModel, kBadValue).
//
// Threading: thread-safe.
#ifndef WEFT_MODELS_MODEL_H_
#define WEFT_MODELS_MODEL_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"

namespace weft::models {

struct ModelInput {
  int64_t batch = 1;
  Shape image;  // of one sample: [28,28] or [channels, height, width]
  int64_t classes = 10;
};

using ModelArgs = std::map<std::string, std::string>;

absl::StatusOr<Graph> BuildModel(absl::string_view name, const ModelArgs& args,
                                 const ModelInput& input);

// Names of all models, sorted.
std::vector<std::string> ModelNames();

// Fully connected: Flatten, then Gemm and ReLU for each hidden size, then Gemm.
// Arguments: hidden ("512,512"), dropout ("0": ratio after each hidden layer).
absl::StatusOr<Graph> BuildMlp(const ModelArgs& args, const ModelInput& input);

// A small convolution network after LeNet-5: two 3x3 convolutions without
// padding, each with ReLU and 2x2 max pooling, then two fully connected layers.
// Arguments: channels ("32,64"), hidden ("128"), dropout ("0"), batch_norm ("0"
// or "1": after each convolution).
absl::StatusOr<Graph> BuildLenet(const ModelArgs& args,
                                 const ModelInput& input);

}  // namespace weft::models

#endif  // WEFT_MODELS_MODEL_H_
