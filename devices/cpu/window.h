// The geometry that convolution and pooling share: 2-D windows over [N,C,H,W].
// Index 0 is rows, 1 is columns. Images in blocks of channels lie otherwise and
// have the same geometry.
//
// Threading: value types.
#ifndef WEFT_DEVICES_CPU_WINDOW_H_
#define WEFT_DEVICES_CPU_WINDOW_H_

#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

struct Window {
  int64_t batch = 0;
  int64_t channels = 0;  // of the image
  int64_t image[2] = {0, 0};
  int64_t out[2] = {0, 0};
  int64_t kernel[2] = {0, 0};
  int64_t stride[2] = {1, 1};
  int64_t dilation[2] = {1, 1};
  int64_t pad_begin[2] = {0, 0};
  int64_t pad_end[2] = {0, 0};

  // Image position of kernel element k of window o.
  int64_t At(int d, int64_t o, int64_t k) const {
    return o * stride[d] + k * dilation[d] - pad_begin[d];
  }
  int64_t image_size() const { return image[0] * image[1]; }
  int64_t out_size() const { return out[0] * out[1]; }
};

// How images lie, by the attribute `attr`: [N,C/16,H,W,16] where true, else
// [N,C,H,W]. Records a failure for another layout.
bool ReadBlocked(const Op& op, const char* attr);
// [N,C,H,W] of an image that lies so. Records a failure where it does not.
Tensor AsNchw(const Op& op, const Tensor& image, bool blocked);
inline constexpr int64_t kChannelBlock = 16;

// Reads strides, pads and dilations; image and result extents from the tensors.
// False after recording why not.
bool ReadWindow(const Op& op, const Tensor& image, const Tensor& out,
                const std::vector<int64_t>& kernel, bool ceil_mode, Window* w);

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_WINDOW_H_
