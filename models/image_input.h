// How models of images begin.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_MODELS_IMAGE_INPUT_H_
#define WEFT_MODELS_IMAGE_INPUT_H_

#include "absl/status/status.h"
#include "models/layers.h"
#include "models/model.h"

namespace weft::models {

// kBadJob where the data gives tokens.
absl::Status RequireImages(absl::string_view model, const ModelInput& input);

// The input "image", as the data has it.
Value InputImage(const ModelInput& input, LayerBuilder* b);

// The same as [batch, channels, height, width]: images of rank 2 have one
// channel.
Value InputChannels(const ModelInput& input, LayerBuilder* b);

}  // namespace weft::models

#endif  // WEFT_MODELS_IMAGE_INPUT_H_
