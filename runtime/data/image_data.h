// Labelled images in memory, and the reader that gives them to a plan batch by
// batch.
//
//   WEFT_ASSIGN_OR_RETURN(ImageData data,
//                         LoadImageData(RealOs(), images, labels));
//   BatchReader reader(&data, {.batch = 128, ...});
//   bindings.sources["train"] = &reader;
//
// A batch has three tensors: images u8 [b, ...], labels i32 [b] and weights f32
// [b]. In training every weight is 1. In evaluation the batch after the last
// sample is padded with zero images of weight 0, so that sums over batches
// count each sample once.
//
// Threading: ImageData is immutable; a BatchReader is called by one thread at a
// time, as SourceReader says. Ownership: the reader borrows the data.
#ifndef WEFT_RUNTIME_DATA_IMAGE_DATA_H_
#define WEFT_RUNTIME_DATA_IMAGE_DATA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/os.h"
#include "core/types/shape.h"
#include "runtime/data/sample_order.h"
#include "runtime/execute/bindings.h"

namespace weft::data {

struct ImageData {
  int64_t samples = 0;
  Shape image;         // of one sample
  std::string pixels;  // samples x image, u8
  std::vector<int32_t> labels;
  std::string fingerprint;     // of both files' contents, 16 hex digits
  double inflate_seconds = 0;  // spent reading and inflating the files
};

// Errors: those of ReadIdx; kDataFormat where the two files do not belong
// together (different counts, labels of rank other than 1).
absl::StatusOr<ImageData> LoadImageData(Os& os, const std::string& images,
                                        const std::string& labels);

// The largest label plus one.
int64_t CountClasses(const ImageData& data);

// kLabelRange where a label is not below `classes`, with the sample's index;
// `path` is the file of the labels.
absl::Status CheckLabels(const ImageData& data, int64_t classes,
                         const std::string& path);

struct ReaderOptions {
  int64_t batch = 1;  // of a step, all micro-batches
  int64_t micro_batches = 1;
  bool training = true;  // false: in order, once, padded
  uint64_t seed = 0;
  bool shuffle = true;
  Tail tail = Tail::kCarry;
};

class BatchReader : public runtime::SourceReader {
 public:
  // Pre-condition: options fit the data (CheckBatch).
  BatchReader(const ImageData* data, const ReaderOptions& options);

  absl::Status Fill(uint64_t step, uint32_t micro,
                    absl::Span<const runtime::HostTensor> out) override;

  // Training: as SampleOrder. Evaluation: ceil(samples / batch) for 1 epoch.
  int64_t StepsOf(int64_t epochs) const;

 private:
  const ImageData* data_;
  ReaderOptions options_;
  SampleOrder order_;
};

// kBatchTooLarge where a step takes more samples than there are.
absl::Status CheckBatch(const ImageData& data, int64_t batch,
                        const std::string& name);

}  // namespace weft::data

#endif  // WEFT_RUNTIME_DATA_IMAGE_DATA_H_
