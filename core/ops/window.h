// 2-D sliding windows over NCHW images: the geometry that convolution and
// pooling share, and their two halves as primitives.
//
//   WEFT_ASSIGN_OR_RETURN(Window2d w, PoolWindow(op, op.input(0).shape));
//   w.out[0];                                      // rows of the result
//   Expr padded = PadImage(x, w, 0.0);
//   WindowDims d = GetWindowDims(w, batch, channels);
//   Expr windows = StridedCopy(padded, {d.batch, d.channel, d.kernel[0], ...});
//   Expr image = FoldWindows(windows, w);          // the adjoint
//
// Along dimension d (0 = rows, 1 = columns) window o starts at padded position
// o * stride and covers kernel positions `dilation` apart; padded position
// p is image position p - pad_begin, and counts as padding outside the image.
//
// Threading: free functions and value types, thread-compatible.
#ifndef WEFT_CORE_OPS_WINDOW_H_
#define WEFT_CORE_OPS_WINDOW_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/expr.h"
#include "core/ops/schema.h"
#include "core/types/shape.h"

namespace weft {

struct Window2d {
  using Pair = std::array<int64_t, 2>;
  Pair in{};  // image extents, H and W
  Pair kernel{};
  Pair stride{1, 1};
  Pair dilation{1, 1};
  Pair pad_begin{};
  Pair pad_end{};
  Pair out{};  // windows along each dimension

  // Extent of one window, gaps included.
  int64_t Span(int d) const { return dilation[d] * (kernel[d] - 1) + 1; }
  // The image with its padding, and whatever a last window of ceil_mode
  // overhangs.
  int64_t PaddedExtent(int d) const;
  // Image position of kernel element k of window o; outside [0, in) = padding.
  int64_t ImagePosition(int d, int64_t o, int64_t k) const {
    return o * stride[d] + k * dilation[d] - pad_begin[d];
  }
};

// One use of Conv, weft.ConvGradInput or weft.ConvGradWeights.
struct ConvGeometry {
  Window2d window;
  int64_t batch = 0;
  int64_t groups = 0;
  int64_t in_per_group = 0;   // C / groups
  int64_t out_per_group = 0;  // M / groups

  int64_t in_channels() const { return groups * in_per_group; }
  int64_t out_channels() const { return groups * out_per_group; }
  int64_t kernel_elements() const {
    return window.kernel[0] * window.kernel[1];
  }
  int64_t out_pixels() const { return window.out[0] * window.out[1]; }
  Shape OutputShape() const {
    return {batch, out_channels(), window.out[0], window.out[1]};
  }
};

// Checks `op`'s strides, pads, dilations and group against an image [N,C,H,W]
// and weights [M,C/group,kH,kW]. kShapeMismatch names both shapes;
// kBadAttribute the attribute.
absl::StatusOr<ConvGeometry> GetConvGeometry(const OpView& op, const Shape& x,
                                             const Shape& w);

// Checks `op`'s kernel_shape, strides, pads and ceil_mode against an image
// [N,C,H,W]. Every window holds at least one element of the image: a pad is
// smaller than the kernel, and a window of ceil_mode that would start in the
// end padding is left out.
absl::StatusOr<Window2d> PoolWindow(const OpView& op, const Shape& x);

// One dimension of a weft.StridedCopy.
struct StridedDim {
  int64_t extent;
  int64_t stride;
};
Expr StridedCopy(const Expr& x, absl::Span<const StridedDim> dims,
                 int64_t offset = 0);

// The dimensions of an image [N,C,padded H,padded W] and of its windows, as
// arguments of StridedCopy in any order.
struct WindowDims {
  StridedDim batch;
  StridedDim channel;
  StridedDim kernel[2];
  StridedDim out[2];
};
WindowDims GetWindowDims(const Window2d& w, int64_t batch, int64_t channels);

// x [N,C,H,W] -> [N,C,padded H,padded W], filled with `value`; x itself where
// there is no padding.
Expr PadImage(const Expr& x, const Window2d& w, double value);

// windows [N,C,kH,kW,oH,oW] -> [N,C,H,W]: adds every element of a window to the
// image element that it came from; what came from padding is dropped.
Expr FoldWindows(const Expr& windows, const Window2d& w);

}  // namespace weft

#endif  // WEFT_CORE_OPS_WINDOW_H_
