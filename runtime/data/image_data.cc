#include "runtime/data/image_data.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/status_macros.h"
#include "runtime/data/idx.h"

namespace weft::data {
namespace {

absl::Status CheckPair(const std::string& images_path, const IdxArray& images,
                       const std::string& labels_path, const IdxArray& labels) {
  if (images.shape.rank() < 2 || labels.shape.rank() != 1) {
    return MakeError(
        ErrorCode::kDataFormat,
        absl::StrCat("'", images_path, "' is ", images.shape.ToString(),
                     " and '", labels_path, "' ", labels.shape.ToString(),
                     "; expected images [n,...] and labels [n]"));
  }
  if (images.shape.dim(0) != labels.shape.dim(0)) {
    return MakeError(
        ErrorCode::kDataFormat,
        absl::StrCat("'", images_path, "' has ", images.shape.dim(0),
                     " images but '", labels_path, "' has ",
                     labels.shape.dim(0), " labels"));
  }
  if (images.shape.dim(0) == 0) {
    return MakeError(ErrorCode::kDataFormat,
                     absl::StrCat("'", images_path, "' holds no image"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ImageData> LoadImageData(Os& os, const std::string& images_path,
                                        const std::string& labels_path) {
  auto start = std::chrono::steady_clock::now();
  WEFT_ASSIGN_OR_RETURN(IdxArray images, ReadIdx(os, images_path));
  WEFT_ASSIGN_OR_RETURN(IdxArray labels, ReadIdx(os, labels_path));
  ImageData data;
  data.inflate_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  WEFT_RETURN_IF_ERROR(CheckPair(images_path, images, labels_path, labels));
  data.samples = images.shape.dim(0);
  data.image = Shape(images.shape.dims().subspan(1));
  for (char c : labels.bytes) data.labels.push_back(static_cast<uint8_t>(c));
  // A mistaken file, not an adversary: labels and the first pixels tell.
  uint64_t digest = StableHash(absl::StrCat(
      images.shape.ToString(), labels.bytes, images.bytes.substr(0, 1 << 16)));
  data.fingerprint = absl::StrCat(absl::Hex(digest, absl::kZeroPad16));
  data.pixels = std::move(images.bytes);
  return data;
}

int64_t CountClasses(const ImageData& data) {
  return 1 + *std::max_element(data.labels.begin(), data.labels.end());
}

absl::Status ImageData::CheckClasses(int64_t classes,
                                     const std::string& path) const {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= classes) {
      return MakeError(ErrorCode::kLabelRange,
                       absl::StrCat("'", path, "': label of sample ", i, " is ",
                                    labels[i], ", the model has ", classes,
                                    " classes (0 to ", classes - 1, ")"));
    }
  }
  return absl::OkStatus();
}

std::vector<uint64_t> ImageData::FieldBytes() const {
  return {static_cast<uint64_t>(image.num_elements()), sizeof(int32_t),
          sizeof(float)};
}

void ImageData::Write(int64_t sample, absl::Span<char* const> out) const {
  const int64_t bytes = image.num_elements();
  const float weight = 1;
  std::memcpy(out[0], pixels.data() + sample * bytes, bytes);
  std::memcpy(out[1], &labels[sample], sizeof(int32_t));
  std::memcpy(out[2], &weight, sizeof(weight));
}

}  // namespace weft::data
