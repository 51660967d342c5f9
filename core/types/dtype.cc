#include "core/types/dtype.h"

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace weft {
namespace {

struct Row {
  absl::string_view name;
  size_t size;
  bool is_float;
  bool is_integer;
};

constexpr Row kRows[kNumDTypes] = {
    {"invalid", 0, false, false}, {"f32", 4, true, false},
    {"f16", 2, true, false},      {"bf16", 2, true, false},
    {"f64", 8, true, false},      {"i8", 1, false, true},
    {"u8", 1, false, true},       {"i16", 2, false, true},
    {"i32", 4, false, true},      {"i64", 8, false, true},
    {"bool", 1, false, false},
};

const Row& RowOf(DType dtype) {
  uint32_t id = static_cast<uint32_t>(dtype);
  return kRows[id < kNumDTypes ? id : 0];
}

}  // namespace

size_t DTypeSize(DType dtype) { return RowOf(dtype).size; }
absl::string_view DTypeName(DType dtype) { return RowOf(dtype).name; }
bool IsFloat(DType dtype) { return RowOf(dtype).is_float; }
bool IsInteger(DType dtype) { return RowOf(dtype).is_integer; }

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  for (uint32_t id = 1; id < kNumDTypes; ++id) {
    if (kRows[id].name == name) return static_cast<DType>(id);
  }
  return MakeError(ErrorCode::kDTypeMismatch,
                   absl::StrCat("unknown dtype '", name, "'"));
}

}  // namespace weft
