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

OrderOptions ToOrder(const ImageData& data, const ReaderOptions& options) {
  OrderOptions order;
  order.samples = data.samples;
  order.batch = options.batch;
  order.seed = options.seed;
  order.shuffle = options.shuffle && options.training;
  order.tail = options.training ? options.tail : Tail::kCarry;
  return order;
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

absl::Status CheckLabels(const ImageData& data, int64_t classes,
                         const std::string& path) {
  for (size_t i = 0; i < data.labels.size(); ++i) {
    if (data.labels[i] >= classes) {
      return MakeError(ErrorCode::kLabelRange,
                       absl::StrCat("'", path, "': label of sample ", i, " is ",
                                    data.labels[i], ", the model has ", classes,
                                    " classes (0 to ", classes - 1, ")"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBatch(const ImageData& data, int64_t batch,
                        const std::string& name) {
  if (batch <= data.samples) return absl::OkStatus();
  return MakeError(ErrorCode::kBatchTooLarge,
                   absl::StrCat("batch_size ", batch, " is larger than the ",
                                data.samples, " samples of '", name, "'"));
}

BatchReader::BatchReader(const ImageData* data, const ReaderOptions& options)
    : data_(data), options_(options), order_(ToOrder(*data, options)) {}

absl::Status BatchReader::Fill(uint64_t step, uint32_t micro,
                               absl::Span<const runtime::HostTensor> out) {
  int64_t count = options_.batch / options_.micro_batches;
  size_t pixels = data_->image.num_elements();
  if (out.size() != 3 || out[0].bytes != count * pixels ||
      out[1].bytes != count * sizeof(int32_t) ||
      out[2].bytes != count * sizeof(float)) {
    return absl::InternalError("the plan's batch differs from the reader's");
  }
  char* images = static_cast<char*>(out[0].data);
  int32_t* labels = static_cast<int32_t*>(out[1].data);
  float* weights = static_cast<float*>(out[2].data);
  int64_t first = static_cast<int64_t>(step) * options_.batch + micro * count;
  for (int64_t i = 0; i < count; ++i) {
    int64_t position = first + i;
    if (!options_.training && position >= data_->samples) {
      std::memset(images + i * pixels, 0, pixels);
      labels[i] = 0;
      weights[i] = 0;
      continue;
    }
    int64_t sample = order_.At(position);
    std::memcpy(images + i * pixels, data_->pixels.data() + sample * pixels,
                pixels);
    labels[i] = data_->labels[sample];
    weights[i] = 1;
  }
  return absl::OkStatus();
}

int64_t BatchReader::StepsOf(int64_t epochs) const {
  return order_.StepsOf(epochs);
}

}  // namespace weft::data
