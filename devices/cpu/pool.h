// What the pools have in common: MaxPool, AveragePool and their gradients, over
// [N,C,H,W] (pool.cc) and over images in blocks of channels (pool_blocks.cc).
//
// Padding never counts for a maximum, and for an average only with
// count_include_pad; what a last window of ceil_mode overhangs beyond the
// padding never counts.
//
// Threading: value types and pure functions.
#ifndef WEFT_DEVICES_CPU_POOL_H_
#define WEFT_DEVICES_CPU_POOL_H_

#include "devices/cpu/target.h"
#include "devices/cpu/window.h"

WEFT_CPU_BEGIN

struct PoolWindow : Window {
  bool blocked = false;  // the images
};

// Reads the geometry of a pool from its image and its result.
inline bool ReadPool(const Op& op, const Tensor& image, const Tensor& result,
                     PoolWindow* w) {
  for (const Tensor& t : op.in) {
    op.Check(t.dtype == op.out[0].dtype, "the types differ");
  }
  w->blocked = ReadBlocked(op, "layout");
  const Tensor x = AsNchw(op, image, w->blocked);
  const Tensor y = AsNchw(op, result, w->blocked);
  return op.ok() &&
         ReadWindow(op, x, y, op.Ints("kernel_shape"),
                    op.Int("ceil_mode", 0) != 0, w) &&
         op.Check(x.dims[1] == y.dims[1], "channels differ") &&
         op.Check(w->dilation[0] == 1 && w->dilation[1] == 1,
                  "a pool with dilations");
}

// The kernels for images in blocks, f32 and f64. The description was read.
std::unique_ptr<Kernel> MaxPoolInBlocks(const Op& op, const PoolWindow& w);
std::unique_ptr<Kernel> MaxPoolGradInBlocks(const Op& op, const PoolWindow& w);
std::unique_ptr<Kernel> AveragePoolInBlocks(const Op& op, const PoolWindow& w);
std::unique_ptr<Kernel> AveragePoolGradInBlocks(const Op& op,
                                                const PoolWindow& w);
std::unique_ptr<Kernel> GlobalAveragePoolInBlocks(const Op& op);

// Where window (oh, ow) meets the image: rows and columns [begin, end), and the
// number of its elements inside the image with padding.
struct Cut {
  int64_t begin[2];
  int64_t end[2];
  int64_t padded = 1;

  int64_t size() const { return (end[0] - begin[0]) * (end[1] - begin[1]); }
};

inline Cut CutWindow(const Window& w, int64_t oh, int64_t ow) {
  Cut cut;
  const int64_t o[2] = {oh, ow};
  for (int d = 0; d < 2; ++d) {
    int64_t first = w.At(d, o[d], 0);
    int64_t last = std::min(first + w.kernel[d], w.image[d] + w.pad_end[d]);
    cut.begin[d] = std::max<int64_t>(first, 0);
    cut.end[d] = std::max(cut.begin[d], std::min(last, w.image[d]));
    cut.padded *= last - first;
  }
  return cut;
}

template <class T>
T Divisor(const Cut& cut, bool include_pad) {
  return static_cast<T>(
      std::max<int64_t>(1, include_pad ? cut.padded : cut.size()));
}

// Windows of 2 x 2 side by side, the usual pool. A last row or column of the
// image may be left over.
inline bool TilesByTwo(const Window& w) {
  for (int d = 0; d < 2; ++d) {
    if (w.kernel[d] != 2 || w.stride[d] != 2 || w.pad_begin[d] != 0 ||
        w.pad_end[d] != 0 || w.image[d] / 2 != w.out[d]) {
      return false;
    }
  }
  return true;
}

// For V, a number or a vector of them: whether x stays the maximum when the
// later y comes. It gives way to a larger one, or to the first NaN.
template <class V>
auto Stays(V x, V y) {
  return (y <= x) | (x != x);
}
template <class V>
V FirstMax(V x, V y) {
  return Stays(x, y) ? x : y;
}

// Of a window (a b / c d), the gradient g goes to the first maximum.
template <class V>
void Share(V g, V* a, V* b, V* c, V* d) {
  const V zero{};
  const auto left = Stays(*a, *b), left_below = Stays(*c, *d);
  const V upper = left ? *a : *b, lower = left_below ? *c : *d;
  const auto above = Stays(upper, lower);
  const V up = above ? g : zero, down = above ? zero : g;
  *a = left ? up : zero;
  *b = left ? zero : up;
  *c = left_below ? down : zero;
  *d = left_below ? zero : down;
}

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_POOL_H_
