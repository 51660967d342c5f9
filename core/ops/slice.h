// SliceSpec: what a Slice reads, with ONNX's rules (negative positions count
// from the end, everything is clamped) already applied.
//
//   WEFT_ASSIGN_OR_RETURN(SliceSpec s, SliceSpec::FromOp(op));
//   // y[i0, i1, ..] = x[s.start[0] + i0 * s.step[0], ..], i_d < s.extent[d]
//
// Threading: thread-compatible value type.
#ifndef WEFT_CORE_OPS_SLICE_H_
#define WEFT_CORE_OPS_SLICE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ops/schema.h"

namespace weft {

struct SliceSpec {
  // One item for every axis of the operand.
  std::vector<int64_t> start;
  std::vector<int64_t> step;
  std::vector<int64_t> extent;

  // The whole of a tensor.
  static SliceSpec Whole(const Shape& shape);
  // From a Slice's attributes; kBadAttribute where they contradict each other.
  static absl::StatusOr<SliceSpec> FromOp(const OpView& op);
};

}  // namespace weft

#endif  // WEFT_CORE_OPS_SLICE_H_
