// Element types. The ids are part of every file format and of the plugin ABI
// (plugins/abi/weft_plugin.h repeats them and a test holds them equal): an id
// is never reused.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_TYPES_DTYPE_H_
#define WEFT_CORE_TYPES_DTYPE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft {

enum class DType : uint32_t {
  kInvalid = 0,
  kF32 = 1,
  kF16 = 2,
  kBF16 = 3,
  kF64 = 4,
  kI8 = 5,
  kU8 = 6,
  kI16 = 7,
  kI32 = 8,
  kI64 = 9,
  kBool = 10,  // one byte, 0 or 1
};

inline constexpr uint32_t kNumDTypes = 11;

// Bytes of one element; 0 for kInvalid or an unknown id.
size_t DTypeSize(DType dtype);

// "f32", "bool", ...; "invalid" for an unknown id.
absl::string_view DTypeName(DType dtype);

// The inverse of DTypeName. kDTypeMismatch for an unknown name.
absl::StatusOr<DType> ParseDType(absl::string_view name);

bool IsFloat(DType dtype);
bool IsInteger(DType dtype);  // signed or unsigned, not bool

}  // namespace weft

#endif  // WEFT_CORE_TYPES_DTYPE_H_
