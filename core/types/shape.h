// Shape: the extents of a dense row-major tensor, outermost first. A shape of
// rank 0 is a scalar; an extent may be 0. At most kMaxRank dimensions.
//
//   Shape s({128, 784});
//   s.num_elements();            // 100352
//   s.ToString();                // "[128,784]"
//   BroadcastShapes({2,1}, {3})  // [2,3]
//
// Threading: thread-compatible value type.
#ifndef WEFT_CORE_TYPES_SHAPE_H_
#define WEFT_CORE_TYPES_SHAPE_H_

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/types/dtype.h"

namespace weft {

inline constexpr int kMaxRank = 8;

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(absl::Span<const int64_t> dims)
      : dims_(dims.begin(), dims.end()) {}

  // Refuses negative extents, more than kMaxRank of them, and element counts
  // that overflow int64 (kShapeMismatch). Use it for shapes from outside.
  static absl::StatusOr<Shape> Create(absl::Span<const int64_t> dims);

  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t dim(int i) const { return dims_[i]; }
  absl::Span<const int64_t> dims() const { return dims_; }
  int64_t num_elements() const;

  // Row-major strides in elements.
  absl::InlinedVector<int64_t, 4> Strides() const;

  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.dims_ == b.dims_;
  }
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }

 private:
  absl::InlinedVector<int64_t, 4> dims_;
};

// Numpy's rule: trailing dimensions match, or one of them is 1 or absent.
// kShapeMismatch names both shapes.
absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b);

// `axis` in [-rank, rank) made non-negative; kBadAttribute outside.
absl::StatusOr<int> NormalizeAxis(int64_t axis, int rank);

// A tensor's static type.
struct TensorType {
  DType dtype = DType::kInvalid;
  Shape shape;

  int64_t num_bytes() const {
    return shape.num_elements() * static_cast<int64_t>(DTypeSize(dtype));
  }
  std::string ToString() const;  // "f32[128,784]"

  friend bool operator==(const TensorType& a, const TensorType& b) {
    return a.dtype == b.dtype && a.shape == b.shape;
  }
  friend bool operator!=(const TensorType& a, const TensorType& b) {
    return !(a == b);
  }
};

}  // namespace weft

#endif  // WEFT_CORE_TYPES_SHAPE_H_
