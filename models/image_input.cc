#include "models/image_input.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace weft::models {

absl::Status RequireImages(absl::string_view model, const ModelInput& input) {
  if (input.context == 0) return absl::OkStatus();
  return MakeError(ErrorCode::kBadJob,
                   absl::StrCat("model '", model,
                                "' reads images, the data "
                                "gives samples of ",
                                input.context, " tokens (data.train.text)"));
}

Value InputImage(const ModelInput& input, LayerBuilder* b) {
  std::vector<int64_t> dims = {input.batch};
  dims.insert(dims.end(), input.image.dims().begin(), input.image.dims().end());
  return b->Input("image", {DType::kF32, Shape(dims)});
}

Value InputChannels(const ModelInput& input, LayerBuilder* b) {
  Value x = InputImage(input, b);
  if (input.image.rank() != 2) return x;
  return b->Reshape("channel", x,
                    {input.batch, 1, input.image.dim(0), input.image.dim(1)});
}

}  // namespace weft::models
