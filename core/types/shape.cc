#include "core/types/shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"

namespace weft {

absl::StatusOr<Shape> Shape::Create(absl::Span<const int64_t> dims) {
  if (dims.size() > kMaxRank) {
    return MakeError(
        ErrorCode::kShapeMismatch,
        absl::StrCat("rank ", dims.size(), " is above ", kMaxRank));
  }
  int64_t count = 1;
  for (int64_t d : dims) {
    // 16 bytes an element at the most: byte counts stay within int64 as well.
    if (d < 0 || (d > 0 && __builtin_mul_overflow(count, d, &count)) ||
        count > (int64_t{1} << 58)) {
      return MakeError(ErrorCode::kShapeMismatch,
                       absl::StrCat("shape [", absl::StrJoin(dims, ","),
                                    "] is negative or too large"));
    }
  }
  return Shape(dims);
}

int64_t Shape::num_elements() const {
  int64_t n = 1;
  for (int64_t d : dims_) n *= d;
  return n;
}

absl::InlinedVector<int64_t, 4> Shape::Strides() const {
  absl::InlinedVector<int64_t, 4> strides(dims_.size());
  int64_t stride = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= dims_[i];
  }
  return strides;
}

std::string Shape::ToString() const {
  return absl::StrCat("[", absl::StrJoin(dims_, ","), "]");
}

absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  int rank = std::max(a.rank(), b.rank());
  absl::InlinedVector<int64_t, 4> dims(rank);
  for (int i = 0; i < rank; ++i) {
    int ia = i - (rank - a.rank());
    int ib = i - (rank - b.rank());
    int64_t da = ia < 0 ? 1 : a.dim(ia);
    int64_t db = ib < 0 ? 1 : b.dim(ib);
    if (da != db && da != 1 && db != 1) {
      return MakeError(ErrorCode::kShapeMismatch,
                       absl::StrCat("cannot broadcast ", a.ToString(), " with ",
                                    b.ToString()));
    }
    dims[i] = da == 1 ? db : da;
  }
  return Shape(dims);
}

absl::StatusOr<int> NormalizeAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return MakeError(
        ErrorCode::kBadAttribute,
        absl::StrCat("axis ", axis, " is out of range for rank ", rank));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::string TensorType::ToString() const {
  return absl::StrCat(DTypeName(dtype), shape.ToString());
}

}  // namespace weft
