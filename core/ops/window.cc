#include "core/ops/window.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

// Larger values make no sense, and would overflow the arithmetic of windows.
constexpr int64_t kMaxExtent = int64_t{1} << 30;

absl::Status CheckInts(const OpView& op, absl::string_view name, size_t count,
                       int64_t min) {
  const std::vector<int64_t>& v = op.Ints(name);
  bool in_range = std::all_of(v.begin(), v.end(), [min](int64_t i) {
    return i >= min && i <= kMaxExtent;
  });
  if (v.size() == count && in_range) return absl::OkStatus();
  return op.Error(
      ErrorCode::kBadAttribute,
      absl::StrCat("attribute '", name, "' is [", absl::StrJoin(v, ","),
                   "], want ", count, " integers, each at least ", min));
}

// Fills stride and pads, which convolution and pooling have alike.
absl::Status ReadStrideAndPads(const OpView& op, Window2d* w) {
  WEFT_RETURN_IF_ERROR(CheckInts(op, "strides", 2, 1));
  WEFT_RETURN_IF_ERROR(CheckInts(op, "pads", 4, 0));
  const std::vector<int64_t>& strides = op.Ints("strides");
  const std::vector<int64_t>& pads = op.Ints("pads");
  for (int d = 0; d < 2; ++d) {
    w->stride[d] = strides[d];
    w->pad_begin[d] = pads[d];
    w->pad_end[d] = pads[d + 2];
  }
  return absl::OkStatus();
}

// Fills `out`. Pre-condition: all else is set. `ceil` counts a last window that
// overhangs the padded image, unless it would start in the end padding.
absl::Status CountWindows(const OpView& op, const Shape& x, bool ceil,
                          Window2d* w) {
  for (int d = 0; d < 2; ++d) {
    int64_t padded = w->in[d] + w->pad_begin[d] + w->pad_end[d];
    if (w->in[d] < 1 || w->Span(d) > padded) {
      return op.Error(
          ErrorCode::kShapeMismatch,
          absl::StrCat("a window of ",
                       Shape({w->Span(0), w->Span(1)}).ToString(),
                       " does not fit into the padded image ",
                       Shape({w->in[0] + w->pad_begin[0] + w->pad_end[0],
                              w->in[1] + w->pad_begin[1] + w->pad_end[1]})
                           .ToString(),
                       " of input ", x.ToString()));
    }
    int64_t rest = padded - w->Span(d);
    w->out[d] = rest / w->stride[d] + 1;
    if (ceil && rest % w->stride[d] != 0 &&
        w->out[d] * w->stride[d] < w->in[d] + w->pad_begin[d]) {
      ++w->out[d];
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRank4(const OpView& op, absl::string_view what,
                        const Shape& shape, absl::string_view layout) {
  if (shape.rank() == 4) return absl::OkStatus();
  return op.Error(ErrorCode::kShapeMismatch,
                  absl::StrCat(what, " ", shape.ToString(), " is not ", layout,
                               " (rank 4)"));
}

}  // namespace

int64_t Window2d::PaddedExtent(int d) const {
  int64_t padded = in[d] + pad_begin[d] + pad_end[d];
  return std::max(padded, (out[d] - 1) * stride[d] + Span(d));
}

absl::StatusOr<ConvGeometry> GetConvGeometry(const OpView& op, const Shape& x,
                                             const Shape& w) {
  WEFT_RETURN_IF_ERROR(CheckRank4(op, "input", x, "[N,C,H,W]"));
  WEFT_RETURN_IF_ERROR(CheckRank4(op, "weights", w, "[M,C/group,kH,kW]"));
  ConvGeometry g;
  WEFT_RETURN_IF_ERROR(ReadStrideAndPads(op, &g.window));
  WEFT_RETURN_IF_ERROR(CheckInts(op, "dilations", 2, 1));
  g.batch = x.dim(0);
  g.groups = op.Int("group");
  if (g.groups < 1 || w.dim(0) % g.groups != 0) {
    return op.Error(
        ErrorCode::kBadAttribute,
        absl::StrCat("group ", g.groups, " does not divide the ", w.dim(0),
                     " output channels of weights ", w.ToString()));
  }
  g.in_per_group = w.dim(1);
  g.out_per_group = w.dim(0) / g.groups;
  if (x.dim(1) % g.groups != 0 || x.dim(1) / g.groups != g.in_per_group) {
    return op.Error(
        ErrorCode::kShapeMismatch,
        absl::StrCat("input ", x.ToString(), " has ", x.dim(1), " channels in ",
                     g.groups, " groups, but weights ", w.ToString(), " take ",
                     g.in_per_group, " a group"));
  }
  for (int d = 0; d < 2; ++d) {
    g.window.in[d] = x.dim(2 + d);
    g.window.kernel[d] = w.dim(2 + d);
    g.window.dilation[d] = op.Ints("dilations")[d];
    if (g.window.kernel[d] < 1 || g.window.kernel[d] > kMaxExtent) {
      return op.Error(ErrorCode::kShapeMismatch,
                      absl::StrCat("weights ", w.ToString(),
                                   " have an empty or huge kernel, input is ",
                                   x.ToString()));
    }
  }
  WEFT_RETURN_IF_ERROR(CountWindows(op, x, /*ceil=*/false, &g.window));
  return g;
}

absl::StatusOr<Window2d> PoolWindow(const OpView& op, const Shape& x) {
  WEFT_RETURN_IF_ERROR(CheckRank4(op, "input", x, "[N,C,H,W]"));
  Window2d w;
  WEFT_RETURN_IF_ERROR(ReadStrideAndPads(op, &w));
  WEFT_RETURN_IF_ERROR(CheckInts(op, "kernel_shape", 2, 1));
  for (int d = 0; d < 2; ++d) {
    w.in[d] = x.dim(2 + d);
    w.kernel[d] = op.Ints("kernel_shape")[d];
    if (std::max(w.pad_begin[d], w.pad_end[d]) >= w.kernel[d]) {
      return op.Error(
          ErrorCode::kBadAttribute,
          absl::StrCat("pads [", absl::StrJoin(op.Ints("pads"), ","),
                       "] must be smaller than kernel_shape [",
                       absl::StrJoin(op.Ints("kernel_shape"), ","), "]"));
    }
  }
  WEFT_RETURN_IF_ERROR(CountWindows(op, x, op.Int("ceil_mode") != 0, &w));
  return w;
}

Expr StridedCopy(const Expr& x, absl::Span<const StridedDim> dims,
                 int64_t offset) {
  std::vector<int64_t> shape, strides;
  for (const StridedDim& d : dims) {
    shape.push_back(d.extent);
    strides.push_back(d.stride);
  }
  return Apply("weft.StridedCopy", {x},
               {{"shape", std::move(shape)},
                {"strides", std::move(strides)},
                {"offset", offset}});
}

WindowDims GetWindowDims(const Window2d& w, int64_t batch, int64_t channels) {
  int64_t row = w.PaddedExtent(1);
  int64_t plane = w.PaddedExtent(0) * row;
  return {{batch, channels * plane},
          {channels, plane},
          {{w.kernel[0], w.dilation[0] * row}, {w.kernel[1], w.dilation[1]}},
          {{w.out[0], w.stride[0] * row}, {w.out[1], w.stride[1]}}};
}

Expr PadImage(const Expr& x, const Window2d& w, double value) {
  std::vector<int64_t> pads(8, 0);
  for (int d = 0; d < 2; ++d) {
    pads[2 + d] = w.pad_begin[d];
    pads[6 + d] = w.PaddedExtent(d) - w.in[d] - w.pad_begin[d];
  }
  if (pads == std::vector<int64_t>(8, 0)) return x;
  return Apply("Pad", {x}, {{"pads", std::move(pads)}, {"value", value}});
}

Expr FoldWindows(const Expr& windows, const Window2d& w) {
  if (!windows.valid()) return windows;
  NodeEmitter& emit = windows.emit();
  int64_t batch = windows.shape().dim(0);
  int64_t channels = windows.shape().dim(1);
  // Padded position of every window element, as an outer sum of four ranges: a
  // constant would weigh kernel * windows elements in the plan.
  WindowDims dims = GetWindowDims(w, batch, channels);
  const StridedDim axes[4] = {dims.kernel[0], dims.kernel[1], dims.out[0],
                              dims.out[1]};
  Expr positions(emit, Value());
  for (int axis = 0; axis < 4; ++axis) {
    std::vector<int64_t> shape(4, 1);
    shape[axis] = axes[axis].extent;
    Expr range(emit, emit.Emit1("weft.Iota", {},
                                {{"shape", std::move(shape)},
                                 {"dtype", DType::kI64},
                                 {"axis", axis}}));
    Expr term = range * static_cast<double>(axes[axis].stride);
    positions = axis == 0 ? term : positions + term;
  }
  int64_t row = w.PaddedExtent(1);
  int64_t plane = w.PaddedExtent(0) * row;
  Expr padded =
      Apply("weft.GatherGrad",
            {ReshapeTo(windows, {batch * channels, w.kernel[0], w.kernel[1],
                                 w.out[0], w.out[1]}),
             positions},
            {{"axis", 1},
             {"input_shape", std::vector<int64_t>{batch * channels, plane}}});
  return StridedCopy(padded,
                     {dims.batch, dims.channel, {w.in[0], row}, {w.in[1], 1}},
                     w.pad_begin[0] * row + w.pad_begin[1]);
}

}  // namespace weft
