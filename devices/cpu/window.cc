#include "devices/cpu/window.h"

#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

bool ReadBlocked(const Op& op, const char* attr) {
  const std::string layout = op.String(attr, "NCHW");
  if (layout == "NCHW16c") return true;
  op.Check(layout == "NCHW", "a layout that is unknown");
  return false;
}

Tensor AsNchw(const Op& op, const Tensor& image, bool blocked) {
  if (!blocked) return image;
  if (!op.Check(image.rank == 5 && image.dims[4] == kChannelBlock &&
                    image.dims[1] <= INT64_MAX / kChannelBlock,
                "an image that is not [N,C/16,H,W,16]")) {
    return image;
  }
  Tensor nchw = image;
  nchw.rank = 4;
  nchw.dims[1] *= kChannelBlock;
  return nchw;
}

bool ReadWindow(const Op& op, const Tensor& image, const Tensor& out,
                const std::vector<int64_t>& kernel, bool ceil_mode, Window* w) {
  std::vector<int64_t> strides = op.Ints("strides");
  std::vector<int64_t> pads = op.Ints("pads");
  std::vector<int64_t> dilations = op.Ints("dilations");
  if (strides.empty()) strides.resize(2, 1);
  if (pads.empty()) pads.resize(4, 0);
  if (dilations.empty()) dilations.resize(2, 1);
  if (!op.Check(image.rank == 4 && out.rank == 4 && kernel.size() == 2 &&
                    strides.size() == 2 && pads.size() == 4 &&
                    dilations.size() == 2,
                "not a 2-D window over [N,C,H,W]")) {
    return false;
  }
  w->batch = image.dims[0];
  w->channels = image.dims[1];
  bool fits = out.dims[0] == w->batch;
  // Bounds that keep all positions far from overflow.
  constexpr int64_t kLimit = int64_t{1} << 31;
  for (int d = 0; d < 2; ++d) {
    w->image[d] = image.dims[2 + d];
    w->out[d] = out.dims[2 + d];
    w->kernel[d] = kernel[d];
    w->stride[d] = strides[d];
    w->dilation[d] = dilations[d];
    w->pad_begin[d] = pads[d];
    w->pad_end[d] = pads[2 + d];
    for (int64_t v : {kernel[d], strides[d], dilations[d]}) {
      fits = fits && v > 0 && v < kLimit;
    }
    for (int64_t v : {pads[d], pads[2 + d]})
      fits = fits && v >= 0 && v < kLimit;
    if (!op.Check(fits, "a window that is not positive")) return false;
    int64_t span = w->dilation[d] * (w->kernel[d] - 1) + 1;
    int64_t room = w->image[d] + w->pad_begin[d] + w->pad_end[d] - span;
    int64_t floor = room < 0 ? 0 : room / w->stride[d] + 1;
    int64_t more = ceil_mode && room >= 0 && room % w->stride[d] != 0 ? 1 : 0;
    fits = w->out[d] == floor || w->out[d] == floor + more;
  }
  return op.Check(fits, "the result does not fit the windows");
}

WEFT_CPU_END
