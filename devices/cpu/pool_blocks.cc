// Pools over images in blocks of channels: a window is computed for 16 channels
// at once. Sums go over a window's rows from the first to the last pixel, as
// over [N,C,H,W], and give the same bits; only GlobalAveragePool adds
// otherwise.
#include "devices/cpu/channel_blocks.h"
#include "devices/cpu/numeric.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/pool.h"
#include "devices/cpu/reduction.h"

WEFT_CPU_BEGIN
namespace {

// f(plane) for every plane, whose larger side has `pixels`; planes are shared
// out over the threads.
template <class F>
void ForEachPlane(int64_t planes, int64_t pixels, F f) {
  const int64_t block = RowBlock(planes, pixels * kChannelBlock, kPlain);
  ParallelBlocks(planes, block, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) f(plane);
  });
}

// The windows of a plane, where they meet the image.
struct Plan {
  explicit Plan(const Window& w)
      : planes(w.batch * w.channels / kChannelBlock),
        columns(w.image[1]),
        image(w.image_size()),
        out(w.out_size()),
        side_by_side(w.stride[0] >= w.kernel[0] && w.stride[1] >= w.kernel[1]),
        tiles(TilesByTwo(w)),
        covered(tiles && w.image[0] % 2 == 0 && w.image[1] % 2 == 0) {
    for (int64_t oh = 0; oh < w.out[0]; ++oh) {
      for (int64_t ow = 0; ow < w.out[1]; ++ow) {
        cuts.push_back(CutWindow(w, oh, ow));
      }
    }
  }

  int64_t planes;
  int64_t columns, image, out;
  bool side_by_side;  // no pixel lies in two windows
  bool tiles;         // windows of 2 x 2
  bool covered;       // and every pixel lies in one
  std::vector<Cut> cuts;
};

// f(plane) as above.
template <class F>
void ForEachPlane(const Plan& p, F f) {
  ForEachPlane(p.planes, std::max(p.image, p.out), f);
}

// f(pixel of the image) for every pixel of a window, row by row.
template <class F>
void ForEachPixel(const Plan& p, const Cut& cut, F f) {
  for (int64_t h = cut.begin[0]; h < cut.end[0]; ++h) {
    const int64_t row = h * p.columns;
    for (int64_t x = cut.begin[1]; x < cut.end[1]; ++x) f(row + x);
  }
}

template <class T>
void ClearPlane(T* plane, int64_t pixels) {
  std::fill_n(plane, pixels * kChannelBlock, T(0));
}

template <class T>
Pixel<T> MaxOfWindow(const Plan& p, const Cut& cut, const T* x) {
  Pixel<T> best = Pixel<T>::Splat(MaxOf::Identity<T>());
  bool first = true;
  ForEachPixel(p, cut, [&](int64_t i) {
    const Pixel<T> v = LoadPixel(x, i);
    best = first ? v : MapPixels(best, v, [](auto a, auto b) {
      return FirstMax(a, b);
    });
    first = false;
  });
  return best;
}

// The gradient goes to the first pixel that is the maximum; with `add` on top
// of what is there.
template <class T>
void GradOfWindow(const Plan& p, const Cut& cut, const T* x, const Pixel<T>& dy,
                  bool add, T* dx) {
  const Pixel<T> best = MaxOfWindow(p, cut, x);
  Pixel<T> left = dy;  // nothing where it was given away
  Pixel<T> open = Pixel<T>::Splat(T(1));
  ForEachPixel(p, cut, [&](int64_t i) {
    const Pixel<T> v = LoadPixel(x, i);
    Pixel<T> to;
    for (int k = 0; k < Pixel<T>::kVectors; ++k) {
      const auto zero = typename Pixel<T>::Vector{};
      const auto hit =
          (open.v[k] != zero) & ((v.v[k] == best.v[k]) | (v.v[k] != v.v[k]));
      to.v[k] = hit ? left.v[k] : zero;
      open.v[k] = hit ? zero : open.v[k];
    }
    StorePixel(add ? LoadPixel(dx, i) + to : to, dx, i);
  });
}

// Of windows of 2 x 2 the four gradients at once.
template <class T>
void GradOfTile(const Plan& p, const Cut& cut, const T* x, const Pixel<T>& dy,
                T* dx) {
  const int64_t top = cut.begin[0] * p.columns + cut.begin[1];
  const int64_t bottom = top + p.columns;
  Pixel<T> a = LoadPixel(x, top), b = LoadPixel(x, top + 1);
  Pixel<T> c = LoadPixel(x, bottom), d = LoadPixel(x, bottom + 1);
  for (int k = 0; k < Pixel<T>::kVectors; ++k) {
    Share(dy.v[k], &a.v[k], &b.v[k], &c.v[k], &d.v[k]);
  }
  StorePixel(a, dx, top);
  StorePixel(b, dx, top + 1);
  StorePixel(c, dx, bottom);
  StorePixel(d, dx, bottom + 1);
}

}  // namespace

std::unique_ptr<Kernel> MaxPoolInBlocks(const Op& op, const PoolWindow& w) {
  return WithF32F64(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([p = Plan(w)](const Args& a) {
      ForEachPlane(p, [&](int64_t plane) {
        const T* x = a.Input<T>(0) + plane * p.image * kChannelBlock;
        T* y = a.Output<T>(0) + plane * p.out * kChannelBlock;
        for (int64_t o = 0; o < p.out; ++o) {
          StorePixel(MaxOfWindow(p, p.cuts[o], x), y, o);
        }
      });
    });
  });
}

std::unique_ptr<Kernel> MaxPoolGradInBlocks(const Op& op, const PoolWindow& w) {
  return WithF32F64(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([p = Plan(w)](const Args& a) {
      ForEachPlane(p, [&](int64_t plane) {
        const T* dy = a.Input<T>(0) + plane * p.out * kChannelBlock;
        const T* x = a.Input<T>(1) + plane * p.image * kChannelBlock;
        T* dx = a.Output<T>(0) + plane * p.image * kChannelBlock;
        if (!p.covered) ClearPlane(dx, p.image);
        for (int64_t o = 0; o < p.out; ++o) {
          const Pixel<T> g = LoadPixel(dy, o);
          if (p.tiles) {
            GradOfTile(p, p.cuts[o], x, g, dx);
          } else {
            GradOfWindow(p, p.cuts[o], x, g, !p.side_by_side, dx);
          }
        }
      });
    });
  });
}

std::unique_ptr<Kernel> AveragePoolInBlocks(const Op& op, const PoolWindow& w) {
  const bool include_pad = op.Int("count_include_pad", 0) != 0;
  return WithF32F64(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([p = Plan(w), include_pad](const Args& a) {
      ForEachPlane(p, [&](int64_t plane) {
        const T* x = a.Input<T>(0) + plane * p.image * kChannelBlock;
        T* y = a.Output<T>(0) + plane * p.out * kChannelBlock;
        for (int64_t o = 0; o < p.out; ++o) {
          Pixel<T> sum = Pixel<T>::Splat(T(0));
          ForEachPixel(p, p.cuts[o],
                       [&](int64_t i) { sum = sum + LoadPixel(x, i); });
          StorePixel(sum / Divisor<T>(p.cuts[o], include_pad), y, o);
        }
      });
    });
  });
}

std::unique_ptr<Kernel> AveragePoolGradInBlocks(const Op& op,
                                                const PoolWindow& w) {
  const bool include_pad = op.Int("count_include_pad", 0) != 0;
  return WithF32F64(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([p = Plan(w), include_pad](const Args& a) {
      ForEachPlane(p, [&](int64_t plane) {
        const T* dy = a.Input<T>(0) + plane * p.out * kChannelBlock;
        T* dx = a.Output<T>(0) + plane * p.image * kChannelBlock;
        ClearPlane(dx, p.image);
        for (int64_t o = 0; o < p.out; ++o) {
          const Pixel<T> share =
              LoadPixel(dy, o) / Divisor<T>(p.cuts[o], include_pad);
          ForEachPixel(p, p.cuts[o], [&](int64_t i) {
            StorePixel(LoadPixel(dx, i) + share, dx, i);
          });
        }
      });
    });
  });
}

std::unique_ptr<Kernel> GlobalAveragePoolInBlocks(const Op& op) {
  const Tensor x = AsNchw(op, op.in[0], true);
  if (!op.ok() || !op.Check(x.dtype == op.out[0].dtype, "the types differ") ||
      !op.Check(op.out[0].count == x.dims[0] * x.dims[1],
                "not [N,C/16,H,W,16] to [N,C/16,1,1,16]")) {
    return nullptr;
  }
  const int64_t planes = x.dims[0] * x.dims[1] / kChannelBlock;
  const int64_t pixels = x.dims[2] * x.dims[3];
  return WithF32F64(x.dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([planes, pixels](const Args& a) {
      ForEachPlane(planes, pixels, [&](int64_t plane) {
        const T* x = a.Input<T>(0) + plane * pixels * kChannelBlock;
        Pixel<T> sum = Pixel<T>::Splat(T(0));
        auto add = [](const Pixel<T>& a, const Pixel<T>& b) { return a + b; };
        RunTree<Pixel<T>, decltype(add)> tree(add);
        ForEachRun(pixels, [&](int64_t begin, int64_t end) {
          tree.Add(SumOfPixels<T>(begin, end,
                                  [x](int64_t i) { return LoadPixel(x, i); }));
        });
        if (pixels > 0) sum = tree.Result();
        StorePixel(sum / static_cast<T>(pixels), a.Output<T>(0), plane);
      });
    });
  });
}

WEFT_CPU_END
