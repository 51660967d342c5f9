// MaxPool, AveragePool, their gradients, GlobalAveragePool over [N,C,H,W]; for
// images in blocks of channels see pool_blocks.cc.
#include "devices/cpu/pool.h"

#include "devices/cpu/factories.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/reduction.h"
#include "devices/cpu/via_float.h"

WEFT_CPU_BEGIN
namespace {

// f(plane) for every plane [H,W], of `cost` a pixel (parallel.h); planes are
// shared out over the threads.
template <class F>
void ForEachPlane(const Window& w, int64_t cost, F f) {
  const int64_t planes = w.batch * w.channels;
  const int64_t block =
      RowBlock(planes, std::max(w.image_size(), w.out_size()), cost);
  ParallelBlocks(planes, block, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) f(plane);
  });
}

// f(cut, result index) for every window of a plane.
template <class F>
void ForEachWindow(const Window& w, int64_t plane, F f) {
  int64_t out = plane * w.out_size();
  for (int64_t oh = 0; oh < w.out[0]; ++oh) {
    for (int64_t ow = 0; ow < w.out[1]; ++ow) {
      f(CutWindow(w, oh, ow), out++);
    }
  }
}

// Two vectors of neighbouring elements as even and odd ones, and back.
// Compilers do not find these loops by themselves. Eight floats at most: rows
// of images are seldom longer than two vectors of sixteen. Rows too short for
// that take 16 bytes at a time.
#if WEFT_CPU_LEVEL >= WEFT_CPU_avx2
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
template <class T, int kWidth>
struct Pairs;
template <class T>
struct Pairs<T, 2> {
  typedef T V __attribute__((vector_size(2 * sizeof(T))));
  static V Even(V x, V y) { return __builtin_shufflevector(x, y, 0, 2); }
  static V Odd(V x, V y) { return __builtin_shufflevector(x, y, 1, 3); }
  static V Low(V x, V y) { return __builtin_shufflevector(x, y, 0, 2); }
  static V High(V x, V y) { return __builtin_shufflevector(x, y, 1, 3); }
};
template <class T>
struct Pairs<T, 4> {
  typedef T V __attribute__((vector_size(4 * sizeof(T))));
  static V Even(V x, V y) { return __builtin_shufflevector(x, y, 0, 2, 4, 6); }
  static V Odd(V x, V y) { return __builtin_shufflevector(x, y, 1, 3, 5, 7); }
  static V Low(V x, V y) { return __builtin_shufflevector(x, y, 0, 4, 1, 5); }
  static V High(V x, V y) { return __builtin_shufflevector(x, y, 2, 6, 3, 7); }
};
template <class T>
struct Pairs<T, 8> {
  typedef T V __attribute__((vector_size(8 * sizeof(T))));
  static V Even(V x, V y) {
    return __builtin_shufflevector(x, y, 0, 2, 4, 6, 8, 10, 12, 14);
  }
  static V Odd(V x, V y) {
    return __builtin_shufflevector(x, y, 1, 3, 5, 7, 9, 11, 13, 15);
  }
  static V Low(V x, V y) {
    return __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11);
  }
  static V High(V x, V y) {
    return __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15);
  }
};

// f(o) for vectors that cover [0, n), n >= width: the last begins early where
// the width does not divide n, so that what is written is written twice.
template <class F>
void ForEachVector(int64_t n, int64_t width, F f) {
  int64_t o = 0;
  for (; o + width <= n; o += width) f(o);
  if (o < n) f(n - width);
}
template <class V, class T>
V Load(const T* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class V, class T>
void Store(V v, T* to) {
  std::memcpy(to, &v, sizeof v);
}

// f(width) with the widest vectors, as a constant, of which a row of n results
// takes one; 1 for rows that are too short.
template <class T, class F>
void WithWidth(int64_t n, F f) {
  constexpr int kWide = kVectorBytes / sizeof(T), kNarrow = 16 / sizeof(T);
  if (n >= kWide) return f(std::integral_constant<int, kWide>());
  if (n >= kNarrow) return f(std::integral_constant<int, kNarrow>());
  f(std::integral_constant<int, 1>());
}

// The maxima of neighbouring pairs of a row.
template <class T, int kWidth>
typename Pairs<T, kWidth>::V MaxOfPairs(const T* row) {
  using P = Pairs<T, kWidth>;
  using V = typename P::V;
  const V low = Load<V>(row), high = Load<V>(row + kWidth);
  return FirstMax(P::Even(low, high), P::Odd(low, high));
}

template <class T, int kWidth>
void MaxOfRows(const T* top, const T* bottom, int64_t n, T* to) {
  if constexpr (kWidth > 1) {
    ForEachVector(n, kWidth, [&](int64_t o) {
      Store(FirstMax(MaxOfPairs<T, kWidth>(top + 2 * o),
                     MaxOfPairs<T, kWidth>(bottom + 2 * o)),
            to + o);
    });
  } else {
    for (int64_t o = 0; o < n; ++o) {
      to[o] = FirstMax(FirstMax(top[2 * o], top[2 * o + 1]),
                       FirstMax(bottom[2 * o], bottom[2 * o + 1]));
    }
  }
}

template <class T>
void MaxOfTiles(const Window& w, const T* x, T* y) {
  WithWidth<T>(w.out[1], [&](auto width) {
    for (int64_t oh = 0; oh < w.out[0]; ++oh) {
      const T* top = x + 2 * oh * w.image[1];
      MaxOfRows<T, decltype(width)::value>(top, top + w.image[1], w.out[1],
                                           y + oh * w.out[1]);
    }
  });
}

// The gradient of two rows of the image from one of the result.
template <class T, int kWidth>
void MaxOfRowsGrad(const T* top, const T* bottom, const T* from, int64_t n,
                   T* to_top, T* to_bottom) {
  if constexpr (kWidth > 1) {
    using P = Pairs<T, kWidth>;
    using V = typename P::V;
    ForEachVector(n, kWidth, [&](int64_t o) {
      const V t0 = Load<V>(top + 2 * o), t1 = Load<V>(top + 2 * o + kWidth);
      const V b0 = Load<V>(bottom + 2 * o);
      const V b1 = Load<V>(bottom + 2 * o + kWidth);
      V a = P::Even(t0, t1), b = P::Odd(t0, t1);
      V c = P::Even(b0, b1), d = P::Odd(b0, b1);
      Share(Load<V>(from + o), &a, &b, &c, &d);
      Store(P::Low(a, b), to_top + 2 * o);
      Store(P::High(a, b), to_top + 2 * o + kWidth);
      Store(P::Low(c, d), to_bottom + 2 * o);
      Store(P::High(c, d), to_bottom + 2 * o + kWidth);
    });
  } else {
    for (int64_t o = 0; o < n; ++o) {
      T a = top[2 * o], b = top[2 * o + 1];
      T c = bottom[2 * o], d = bottom[2 * o + 1];
      Share(from[o], &a, &b, &c, &d);
      to_top[2 * o] = a;
      to_top[2 * o + 1] = b;
      to_bottom[2 * o] = c;
      to_bottom[2 * o + 1] = d;
    }
  }
}

template <class T>
void MaxOfTilesGrad(const Window& w, const T* dy, const T* x, T* dx) {
  WithWidth<T>(w.out[1], [&](auto width) {
    for (int64_t oh = 0; oh < w.out[0]; ++oh) {
      const T* top = x + 2 * oh * w.image[1];
      T* to_top = dx + 2 * oh * w.image[1];
      T* to_bottom = to_top + w.image[1];
      MaxOfRowsGrad<T, decltype(width)::value>(top, top + w.image[1],
                                               dy + oh * w.out[1], w.out[1],
                                               to_top, to_bottom);
      if (w.image[1] % 2 != 0) {
        to_top[w.image[1] - 1] = to_bottom[w.image[1] - 1] = T(0);
      }
    }
  });
  if (w.image[0] % 2 != 0) {
    std::fill_n(dx + (w.image[0] - 1) * w.image[1], w.image[1], T(0));
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

std::unique_ptr<Kernel> MaxPoolFloat(const Op& op) {
  PoolWindow w;
  if (!op.Arity(1, 1) || !ReadPool(op, op.in[0], op.out[0], &w)) return nullptr;
  if (w.blocked) return MaxPoolInBlocks(op, w);
  return WithF32F64(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    if (TilesByTwo(w)) {
      return MakeKernel([w](const Args& a) {
        ForEachPlane(w, kPlain, [&](int64_t plane) {
          MaxOfTiles(w, a.Input<T>(0) + plane * w.image_size(),
                     a.Output<T>(0) + plane * w.out_size());
        });
      });
    }
    return MakeKernel([w](const Args& a) {
      T* y = a.Output<T>(0);
      ForEachPlane(w, kCostly, [&](int64_t plane) {
        const T* x = a.Input<T>(0) + plane * w.image_size();
        ForEachWindow(w, plane, [&](const Cut& cut, int64_t out) {
          int64_t at = FirstMaximum(w, cut, x);
          y[out] = at < 0 ? MaxOf::Identity<T>() : x[at];
        });
      });
    });
  });
}

std::unique_ptr<Kernel> MaxPoolGradFloat(const Op& op) {
  PoolWindow w;
  if (!op.Arity(2, 1) || !ReadPool(op, op.in[1], op.in[0], &w) ||
      !op.Check(op.in[1].SameDims(op.out[0]), "shapes differ")) {
    return nullptr;
  }
  if (w.blocked) return MaxPoolGradInBlocks(op, w);
  return WithF32F64(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    if (TilesByTwo(w)) {
      return MakeKernel([w](const Args& a) {
        ForEachPlane(w, kPlain, [&](int64_t plane) {
          MaxOfTilesGrad(w, a.Input<T>(0) + plane * w.out_size(),
                         a.Input<T>(1) + plane * w.image_size(),
                         a.Output<T>(0) + plane * w.image_size());
        });
      });
    }
    return MakeKernel([w](const Args& a) {
      const T* dy = a.Input<T>(0);
      ForEachPlane(w, kCostly, [&](int64_t plane) {
        const T* x = a.Input<T>(1) + plane * w.image_size();
        T* dx = a.Output<T>(0) + plane * w.image_size();
        std::fill(dx, dx + w.image_size(), T(0));
        ForEachWindow(w, plane, [&](const Cut& cut, int64_t out) {
          int64_t at = FirstMaximum(w, cut, x);
          if (at >= 0) dx[at] += dy[out];
        });
      });
    });
  });
}

std::unique_ptr<Kernel> AveragePoolFloat(const Op& op) {
  PoolWindow w;
  if (!op.Arity(1, 1) || !ReadPool(op, op.in[0], op.out[0], &w)) return nullptr;
  if (w.blocked) return AveragePoolInBlocks(op, w);
  bool include_pad = op.Int("count_include_pad", 0) != 0;
  return WithF32F64(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([w, include_pad](const Args& a) {
      T* y = a.Output<T>(0);
      ForEachPlane(w, kCostly, [&](int64_t plane) {
        const T* x = a.Input<T>(0) + plane * w.image_size();
        ForEachWindow(w, plane, [&](const Cut& cut, int64_t out) {
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
  });
}

std::unique_ptr<Kernel> AveragePoolGradFloat(const Op& op) {
  PoolWindow w;
  if (!op.Arity(1, 1) || !ReadPool(op, op.out[0], op.in[0], &w)) return nullptr;
  if (w.blocked) return AveragePoolGradInBlocks(op, w);
  bool include_pad = op.Int("count_include_pad", 0) != 0;
  return WithF32F64(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([w, include_pad](const Args& a) {
      const T* dy = a.Input<T>(0);
      ForEachPlane(w, kCostly, [&](int64_t plane) {
        T* dx = a.Output<T>(0) + plane * w.image_size();
        std::fill_n(dx, w.image_size(), T(0));
        ForEachWindow(w, plane, [&](const Cut& cut, int64_t out) {
          const T share = dy[out] / Divisor<T>(cut, include_pad);
          for (int64_t h = cut.begin[0]; h < cut.end[0]; ++h) {
            for (int64_t c = cut.begin[1]; c < cut.end[1]; ++c) {
              dx[h * w.image[1] + c] += share;
            }
          }
        });
      });
    });
  });
}

std::unique_ptr<Kernel> GlobalAveragePoolFloat(const Op& op) {
  if (!op.Arity(1, 1)) return nullptr;
  const Tensor& x = op.in[0];
  if (ReadBlocked(op, "layout")) return GlobalAveragePoolInBlocks(op);
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
      const int64_t block = RowBlock(planes, pixels, kPlain);
      ParallelBlocks(planes, block, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) {
          const T* row = a.Input<T>(0) + p * pixels;
          y[p] =
              ReduceRow<SumOf, T>(pixels, [row](int64_t i) { return row[i]; }) /
              static_cast<T>(pixels);
        }
      });
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

WEFT_CPU_END
