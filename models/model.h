// The model library: networks built by name and string arguments, as a job file
// gives them.
//
//   WEFT_ASSIGN_OR_RETURN(Graph g, BuildModel("mlp", {{"hidden", "512,512"}},
//                                             {.batch = 128, ...}));
//
// A model is a logical graph with one weft.Input, its parameters as
// weft.Variable nodes that carry their own initial distribution, and one
// weft.Output "logits" (f32, one row of `classes` scores for each thing to
// classify). It says nothing of training: compiler/training adds loss,
// gradients and updates.
//
//   mlp, lenet, resnet18   "image" f32 [batch, ...], normalised
//                          -> logits [batch, classes]
//   gpt                    "tokens" i32 [batch, context]
//                          -> logits [batch * context, classes]
//
// Every model takes the argument `classes` (default: as many as the data has;
// of a language model, the size of the vocabulary).
//
// A model is a function here and a row in the table of model.cc; an unknown
// name or argument is an error with "did you mean" (kUnknownModel, kBadValue);
// a model of images for data of tokens, or the other way, is kBadJob.
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

// What the data gives: images, or tokens where `context` is not 0.
struct ModelInput {
  int64_t batch = 1;
  Shape image;  // of one sample: [28,28] or [channels, height, width]
  int64_t classes = 10;
  int64_t context = 0;  // tokens of one sample
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

// The residual network of 18 layers for small images (He et al. 2015, in its
// CIFAR form), such as [3,32,32] or [28,28]: a 3x3 convolution without pooling;
// four stages of two basic blocks, of 1, 2, 4 and 8 times `width` channels,
// that halve the image from the second stage on; 1x1 convolutions where a
// shortcut changes shape; the mean of each channel; one fully connected layer.
// Arguments: width ("64").
absl::StatusOr<Graph> BuildResnet18(const ModelArgs& args,
                                    const ModelInput& input);

// A decoder-only transformer after GPT-2: learned positions, norms before
// attention and MLP, GELU. Arguments: layers ("4"), width ("128"), heads ("4",
// a divisor of the width), context (positions that the model knows; default and
// least: the tokens of a sample), dropout ("0": of embeddings, attention and
// what blocks add), tied ("1": the output layer is the token embedding; "0": a
// matrix of its own).
absl::StatusOr<Graph> BuildGpt(const ModelArgs& args, const ModelInput& input);

}  // namespace weft::models

#endif  // WEFT_MODELS_MODEL_H_
