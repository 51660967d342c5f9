// The safetensors file format: an 8-byte little-endian header length, a JSON
// header {"name": {"dtype", "shape", "data_offsets"}, "__metadata__": {...}},
// and one buffer that the tensors cover without holes.
//
//   std::string header = SafetensorsHeader(tensors, {{"format", "pt"}});
//   // then each tensor's bytes, in the order of `tensors`
//
//   WEFT_ASSIGN_OR_RETURN(SafetensorsFile file, ParseSafetensors(path, bytes));
//
// The parser trusts nothing: header length <= 100 MB and within the file,
// offsets relative to the buffer, in order, without holes, overlap or trailing
// bytes, byte counts equal to dtype x shape, `__metadata__` of strings only.
// Errors are kCheckpointCorrupt and name the file and the tensor.
//
// Threading: thread-safe functions.
#ifndef WEFT_RUNTIME_CHECKPOINT_SAFETENSORS_H_
#define WEFT_RUNTIME_CHECKPOINT_SAFETENSORS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/types/shape.h"

namespace weft::checkpoint {

// A named tensor whose bytes (dense, row-major) somebody else owns.
struct NamedTensor {
  std::string name;
  TensorType type;
  absl::string_view bytes;
};

// Length and JSON, padded with spaces so that the buffer is 8-byte aligned.
// Pre-condition: names are unique and none is "__metadata__".
std::string SafetensorsHeader(absl::Span<const NamedTensor> tensors,
                              const std::map<std::string, std::string>& meta);

struct SafetensorsFile {
  std::map<std::string, std::string> metadata;
  std::vector<NamedTensor> tensors;  // by offset; bytes point into the input
};

// `name` stands for the file in messages; `bytes` must outlive the result.
absl::StatusOr<SafetensorsFile> ParseSafetensors(absl::string_view name,
                                                 absl::string_view bytes);

}  // namespace weft::checkpoint

#endif  // WEFT_RUNTIME_CHECKPOINT_SAFETENSORS_H_
