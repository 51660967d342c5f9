// Labelled images in memory.
//
//   WEFT_ASSIGN_OR_RETURN(ImageData data,
//                         LoadImageData(RealOs(), images, labels));
//   BatchReader reader(&data, {.batch = 128, ...});
//
// A batch has three tensors: images u8 [b, ...], labels i32 [b] and weights f32
// [b], all 1.
//
// Threading: immutable.
#ifndef WEFT_RUNTIME_DATA_IMAGE_DATA_H_
#define WEFT_RUNTIME_DATA_IMAGE_DATA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/os.h"
#include "core/types/shape.h"
#include "runtime/data/samples.h"

namespace weft::data {

struct ImageData : Samples {
  int64_t size() const override { return samples; }
  std::vector<uint64_t> FieldBytes() const override;
  void Write(int64_t sample, absl::Span<char* const> out) const override;
  absl::Status CheckClasses(int64_t classes,
                            const std::string& path) const override;

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

}  // namespace weft::data

#endif  // WEFT_RUNTIME_DATA_IMAGE_DATA_H_
