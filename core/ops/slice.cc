#include "core/ops/slice.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/infer.h"

namespace weft {
namespace {

// A position as ONNX writes it, moved into [low, high].
int64_t Clamp(int64_t position, int64_t extent, int64_t low, int64_t high) {
  if (position < 0) position += extent;
  return std::min(std::max(position, low), high);
}

void SliceAxis(int axis, int64_t start, int64_t end, int64_t step,
               SliceSpec* spec) {
  int64_t extent = spec->extent[axis];
  int64_t span, stride;
  if (step > 0) {
    start = Clamp(start, extent, 0, extent);
    span = Clamp(end, extent, 0, extent) - start;
    stride = step;
  } else {
    start = Clamp(start, extent, -1, extent - 1);
    span = start - Clamp(end, extent, -1, extent - 1);
    stride = -step;
  }
  int64_t extent_left = span <= 0 ? 0 : (span - 1) / stride + 1;
  spec->start[axis] = start;
  // A step that is never taken may be too large to multiply with.
  spec->step[axis] = extent_left > 1 ? step : 1;
  spec->extent[axis] = extent_left;
}

}  // namespace

SliceSpec SliceSpec::Whole(const Shape& shape) {
  SliceSpec spec;
  spec.start.assign(shape.rank(), 0);
  spec.step.assign(shape.rank(), 1);
  spec.extent.assign(shape.dims().begin(), shape.dims().end());
  return spec;
}

absl::StatusOr<SliceSpec> SliceSpec::FromOp(const OpView& op) {
  const Shape& shape = op.input(0).shape;
  const std::vector<int64_t>& starts = op.Ints("starts");
  const std::vector<int64_t>& ends = op.Ints("ends");
  const std::vector<int64_t>& axes = op.Ints("axes");
  const std::vector<int64_t>& steps = op.Ints("steps");
  size_t n = starts.size();
  if (ends.size() != n || (!axes.empty() && axes.size() != n) ||
      (!steps.empty() && steps.size() != n)) {
    return op.Error(
        ErrorCode::kBadAttribute,
        absl::StrCat("starts, ends, axes and steps have ", n, ", ", ends.size(),
                     ", ", axes.size(), " and ", steps.size(), " items"));
  }
  WEFT_RETURN_IF_ERROR(AxesAttr(op, "axes", shape.rank()).status());
  SliceSpec spec = Whole(shape);
  for (size_t i = 0; i < n; ++i) {
    int64_t named = axes.empty() ? static_cast<int64_t>(i) : axes[i];
    absl::StatusOr<int> axis = NormalizeAxis(named, shape.rank());
    if (!axis.ok()) {
      return op.Error(ErrorCode::kBadAttribute, axis.status().message());
    }
    int64_t step = steps.empty() ? 1 : steps[i];
    if (step == 0 || step == std::numeric_limits<int64_t>::min()) {
      return op.Error(ErrorCode::kBadAttribute,
                      absl::StrCat("a step must not be ", step));
    }
    SliceAxis(*axis, starts[i], ends[i], step, &spec);
  }
  return spec;
}

}  // namespace weft
