// IDX files (the format of MNIST and its relatives), plain or gzip-compressed:
// magic {0, 0, type, rank}, `rank` big-endian 32-bit extents, elements.
// Only unsigned bytes (type 0x08) occur in these data sets and are accepted.
//
//   WEFT_ASSIGN_OR_RETURN(IdxArray images, ReadIdx(RealOs(), path));
//   images.shape;                  // [60000,28,28]
//
// Errors name the file: kDataMissing (cannot be opened or read), kDataCorrupt
// (gzip stream damaged, shorter or longer than its header says), kDataFormat
// (wrong magic, element type or rank), each with what was expected and found.
//
// Threading: thread-safe.
#ifndef WEFT_RUNTIME_DATA_IDX_H_
#define WEFT_RUNTIME_DATA_IDX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/os.h"
#include "core/types/shape.h"

namespace weft::data {

struct IdxArray {
  Shape shape;
  std::string bytes;  // shape.num_elements() of them, row-major
};

absl::StatusOr<IdxArray> ReadIdx(Os& os, const std::string& path);

// The same from memory; `name` stands for the path in messages.
absl::StatusOr<IdxArray> ParseIdx(absl::string_view name,
                                  absl::string_view file);

// A file that parses to `array`, not compressed: for tests and tools.
std::string EncodeIdx(const IdxArray& array);

// RFC 1952, all members, at most `max_bytes` of output. Zeros behind the last
// one are padding. DataLoss where the stream is damaged or ends early.
absl::StatusOr<std::string> Gunzip(absl::string_view bytes, uint64_t max_bytes);

}  // namespace weft::data

#endif  // WEFT_RUNTIME_DATA_IDX_H_
