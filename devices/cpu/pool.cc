// MaxPool, AveragePool, their gradients, GlobalAveragePool.
//
// Padding never counts for a maximum, and for an average only with
// count_include_pad; what a last window of ceil_mode overhangs beyond the
// padding never counts.
#include <algorithm>
#include <vector>

#include "devices/cpu/reduction.h"
#include "devices/cpu/via_float.h"
#include "devices/cpu/window.h"

namespace weft_cpu {
namespace {

// Where window (oh, ow) meets the image: rows and columns [begin, end), and the
// number of its elements inside the image with padding.
struct Cut {
  int64_t begin[2];
  int64_t end[2];
  int64_t padded = 1;

  int64_t size() const { return (end[0] - begin[0]) * (end[1] - begin[1]); }
};

Cut CutWindow(const Window& w, int64_t oh, int64_t ow) {
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

// f(image offset, cut, result index) for every window of every plane.
template <class F>
void ForEachWindow(const Window& w, F f) {
  int64_t out = 0;
  for (int64_t plane = 0; plane < w.batch * w.channels; ++plane) {
    for (int64_t oh = 0; oh < w.out[0]; ++oh) {
      for (int64_t ow = 0; ow < w.out[1]; ++ow) {
        f(plane * w.image_size(), CutWindow(w, oh, ow), out++);
      }
    }
  }
}

// The first maximum; a NaN is above all numbers. -1 for an empty window.
template <class T>
int64_t FirstMaximum(const Window& w, const Cut& cut, const T* plane) {
  int64_t best = -1;
  for (int64_t h = cut.begin[0]; h < cut.end[0]; ++h) {
    for (int64_t x = cut.begin[1]; x < cut.end[1]; ++x) {
      int64_t at = h * w.image[1] + x;
      if (best < 0 || plane[at] > plane[best] ||
          (plane[at] != plane[at] && plane[best] == plane[best])) {
        best = at;
      }
    }
  }
  return best;
}

// Reads the geometry of a pool from its image and its result.
bool ReadPool(const Op& op, const Tensor& image, const Tensor& result,
              Window* w) {
  for (const Tensor& t : op.in) {
    op.Check(t.dtype == op.out[0].dtype, "the types differ");
  }
  return op.ok() &&
         ReadWindow(op, image, result, op.Ints("kernel_shape"),
                    op.Int("ceil_mode", 0) != 0, w) &&
         op.Check(image.dims[1] == result.dims[1], "channels differ") &&
         op.Check(w->dilation[0] == 1 && w->dilation[1] == 1,
                  "a pool with dilations");
}

std::unique_ptr<Kernel> MaxPoolFloat(const Op& op) {
  Window w;
  if (!op.Arity(1, 1) || !ReadPool(op, op.in[0], op.out[0], &w)) return nullptr;
  return WithF32F64(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([w](const Args& a) {
      const T* x = a.Input<T>(0);
      T* y = a.Output<T>(0);
      ForEachWindow(w, [&](int64_t plane, const Cut& cut, int64_t out) {
        int64_t at = FirstMaximum(w, cut, x + plane);
        y[out] = at < 0 ? MaxOf::Identity<T>() : x[plane + at];
      });
    });
  });
}

std::unique_ptr<Kernel> MaxPoolGradFloat(const Op& op) {
  Window w;
  if (!op.Arity(2, 1) || !ReadPool(op, op.in[1], op.in[0], &w) ||
      !op.Check(op.in[1].SameDims(op.out[0]), "shapes differ")) {
    return nullptr;
  }
  int64_t count = op.out[0].count;
  return WithF32F64(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([w, count](const Args& a) {
      const T *dy = a.Input<T>(0), *x = a.Input<T>(1);
      T* dx = a.Output<T>(0);
      std::fill(dx, dx + count, T(0));
      ForEachWindow(w, [&](int64_t plane, const Cut& cut, int64_t out) {
        int64_t at = FirstMaximum(w, cut, x + plane);
        if (at >= 0) dx[plane + at] += dy[out];
      });
    });
  });
}

template <class T>
T Divisor(const Cut& cut, bool include_pad) {
  return static_cast<T>(
      std::max<int64_t>(1, include_pad ? cut.padded : cut.size()));
}

std::unique_ptr<Kernel> AveragePoolFloat(const Op& op) {
  Window w;
  if (!op.Arity(1, 1) || !ReadPool(op, op.in[0], op.out[0], &w)) return nullptr;
  bool include_pad = op.Int("count_include_pad", 0) != 0;
  return WithF32F64(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([w, include_pad](const Args& a) {
      T* y = a.Output<T>(0);
      ForEachWindow(w, [&](int64_t plane, const Cut& cut, int64_t out) {
        const T* x = a.Input<T>(0) + plane;
        T sum = 0;
        for (int64_t h = cut.begin[0]; h < cut.end[0]; ++h) {
          for (int64_t c = cut.begin[1]; c < cut.end[1]; ++c) {
            sum += x[h * w.image[1] + c];
          }
        }
        y[out] = sum / Divisor<T>(cut, include_pad);
      });
    });
  });
}

std::unique_ptr<Kernel> AveragePoolGradFloat(const Op& op) {
  Window w;
  if (!op.Arity(1, 1) || !ReadPool(op, op.out[0], op.in[0], &w)) return nullptr;
  bool include_pad = op.Int("count_include_pad", 0) != 0;
  int64_t count = op.out[0].count;
  return WithF32F64(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([w, include_pad, count](const Args& a) {
      const T* dy = a.Input<T>(0);
      std::fill_n(a.Output<T>(0), count, T(0));
      ForEachWindow(w, [&](int64_t plane, const Cut& cut, int64_t out) {
        T* dx = a.Output<T>(0) + plane;
        const T share = dy[out] / Divisor<T>(cut, include_pad);
        for (int64_t h = cut.begin[0]; h < cut.end[0]; ++h) {
          for (int64_t c = cut.begin[1]; c < cut.end[1]; ++c) {
            dx[h * w.image[1] + c] += share;
          }
        }
      });
    });
  });
}

std::unique_ptr<Kernel> GlobalAveragePoolFloat(const Op& op) {
  if (!op.Arity(1, 1)) return nullptr;
  const Tensor& x = op.in[0];
  if (!op.Check(x.dtype == op.out[0].dtype, "the types differ") ||
      !op.Check(x.rank >= 2 && op.out[0].count == x.dims[0] * x.dims[1],
                "not [N,C,...] to [N,C,1,...]")) {
    return nullptr;
  }
  int64_t planes = op.out[0].count, pixels = Product(x.dims, 2, x.rank);
  return WithF32F64(x.dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([planes, pixels](const Args& a) {
      T* y = a.Output<T>(0);
      for (int64_t p = 0; p < planes; ++p) {
        const T* row = a.Input<T>(0) + p * pixels;
        y[p] =
            ReduceRow<SumOf, T>(pixels, [row](int64_t i) { return row[i]; }) /
            static_cast<T>(pixels);
      }
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> MakeMaxPool(const Op& op) {
  return ViaFloat(op, MaxPoolFloat);
}
std::unique_ptr<Kernel> MakeMaxPoolGrad(const Op& op) {
  return ViaFloat(op, MaxPoolGradFloat);
}
std::unique_ptr<Kernel> MakeAveragePool(const Op& op) {
  return ViaFloat(op, AveragePoolFloat);
}
std::unique_ptr<Kernel> MakeAveragePoolGrad(const Op& op) {
  return ViaFloat(op, AveragePoolGradFloat);
}
std::unique_ptr<Kernel> MakeGlobalAveragePool(const Op& op) {
  return ViaFloat(op, GlobalAveragePoolFloat);
}

}  // namespace weft_cpu
