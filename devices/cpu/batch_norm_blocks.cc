// Batch normalisation over images in blocks of channels: 16 channels at once,
// one block after the other, so that the second look at a block finds it in a
// cache. Mean and variance of short runs of pixels are taken exactly (mean
// first) and merged in a balanced tree over all runs, image by image.
#include "devices/cpu/batch_norm.h"
#include "devices/cpu/channel_blocks.h"
#include "devices/cpu/numeric.h"
#include "devices/cpu/parallel.h"

WEFT_CPU_BEGIN
namespace {

// f(block) for each block of channels, which no other one touches.
template <class F>
void ForEachBlock(const Channels& s, F f) {
  const int64_t blocks = s.channels / kChannelBlock;
  const int64_t step =
      RowBlock(blocks, s.per_channel() * kChannelBlock, kPlain);
  ParallelBlocks(blocks, step, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) f(block);
  });
}

// f(offset) of a block's planes, in elements, from the first to the last image.
template <class F>
void ForEachPlane(const Channels& s, int64_t block, F f) {
  const int64_t blocks = s.channels / kChannelBlock;
  for (int64_t n = 0; n < s.batch; ++n) {
    f((n * blocks + block) * s.pixels * kChannelBlock);
  }
}

// Of some pixels: how many, their mean and the sum of squares around it.
template <class T>
struct Moments {
  int64_t count;
  Pixel<T> mean, squares;
};

template <class T>
Moments<T> MomentsOfRun(const T* x, int64_t begin, int64_t end) {
  const T count = static_cast<T>(end - begin);
  Moments<T> m;
  m.count = end - begin;
  m.mean =
      SumOfPixels<T>(begin, end, [x](int64_t i) { return LoadPixel(x, i); }) /
      count;
  m.squares = SumOfPixels<T>(begin, end, [x, &m](int64_t i) {
    const Pixel<T> d = LoadPixel(x, i) - m.mean;
    return d * d;
  });
  return m;
}

template <class T>
Moments<T> Merge(const Moments<T>& a, const Moments<T>& b) {
  const T na = static_cast<T>(a.count), nb = static_cast<T>(b.count);
  const Pixel<T> d = b.mean - a.mean;
  return {a.count + b.count, a.mean + d * (nb / (na + nb)),
          a.squares + b.squares + d * d * (na * (nb / (na + nb)))};
}

// The mean and the biased variance of a block; NaN where there are no pixels.
template <class T>
void MomentsOfBlock(const Channels& s, int64_t block, const T* x,
                    Pixel<T>* mean, Pixel<T>* variance) {
  if (s.per_channel() == 0) {
    *mean = *variance = Pixel<T>::Splat(std::numeric_limits<T>::quiet_NaN());
    return;
  }
  RunTree<Moments<T>, decltype(&Merge<T>)> tree(&Merge<T>);
  ForEachPlane(s, block, [&](int64_t plane) {
    ForEachRun(s.pixels, [&](int64_t begin, int64_t end) {
      tree.Add(MomentsOfRun(x + plane, begin, end));
    });
  });
  const Moments<T> m = tree.Result();
  *mean = m.mean;
  *variance = m.squares / static_cast<T>(s.per_channel());
}

// 1 / sqrt(variance + epsilon)
template <class T>
Pixel<T> InverseStd(const Pixel<T>& variance, T epsilon) {
  T values[kChannelBlock];
  StorePixel(variance, values, 0);
  for (T& v : values) v = T(1) / std::sqrt(v + epsilon);
  return LoadPixel(values, 0);
}

// y = (x - mean) * inv * scale + bias, and the epilogue with residual r.
template <class T>
void Normalize(const Channels& s, int64_t block, const T* x,
               const Pixel<T>& mean, const Pixel<T>& variance, const T* scale,
               const T* bias, T epsilon, const Epilogue& e, const T* r, T* y) {
  const Pixel<T> factor =
      LoadPixel(scale, block) * InverseStd(variance, epsilon);
  const Pixel<T> shift = LoadPixel(bias, block);
  WithEpilogue(e, [&](auto residual, auto relu) {
    ForEachPlane(s, block, [&](int64_t plane) {
      for (int64_t i = 0; i < s.pixels; ++i) {
        Pixel<T> value = (LoadPixel(x + plane, i) - mean) * factor + shift;
        if constexpr (residual) value = value + LoadPixel(r + plane, i);
        if constexpr (relu) value = Relu(value);
        StorePixel(value, y + plane, i);
      }
    });
  });
}

// Sums of dy and of dy * x^ over a block.
template <class T>
struct GradSums {
  Pixel<T> dy, dy_x;
};

template <class T>
GradSums<T> Add(const GradSums<T>& a, const GradSums<T>& b) {
  return {a.dy + b.dy, a.dy_x + b.dy_x};
}

template <class T>
GradSums<T> SumGrads(const Channels& s, int64_t block, const T* dy, const T* x,
                     const Pixel<T>& mean, const Pixel<T>& inv) {
  if (s.per_channel() == 0) {
    return {Pixel<T>::Splat(T(0)), Pixel<T>::Splat(T(0))};
  }
  RunTree<GradSums<T>, decltype(&Add<T>)> tree(&Add<T>);
  ForEachPlane(s, block, [&](int64_t plane) {
    ForEachRun(s.pixels, [&](int64_t begin, int64_t end) {
      GradSums<T> run;
      run.dy = SumOfPixels<T>(
          begin, end, [&](int64_t i) { return LoadPixel(dy + plane, i); });
      run.dy_x = SumOfPixels<T>(begin, end, [&](int64_t i) {
        return LoadPixel(dy + plane, i) *
               ((LoadPixel(x + plane, i) - mean) * inv);
      });
      tree.Add(run);
    });
  });
  return tree.Result();
}

}  // namespace

std::unique_ptr<Kernel> NormalizationInBlocks(const Op& op, const Channels& s) {
  const double epsilon = op.Float("epsilon", 1e-5);
  const double momentum = op.Float("momentum", 0.9);
  const bool training = op.Int("training_mode", 0) != 0;
  const bool running[2] = {op.HasOutput(1), op.HasOutput(2)};
  return WithF32F64(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([=](const Args& a) {
      ForEachBlock(s, [&](int64_t block) {
        const Pixel<T> before[2] = {LoadPixel(a.Input<T>(3), block),
                                    LoadPixel(a.Input<T>(4), block)};
        Pixel<T> now[2] = {before[0], before[1]};
        if (training) {
          MomentsOfBlock(s, block, a.Input<T>(0), &now[0], &now[1]);
        }
        Normalize<T>(s, block, a.Input<T>(0), now[0], now[1], a.Input<T>(1),
                     a.Input<T>(2), static_cast<T>(epsilon), {}, nullptr,
                     a.Output<T>(0));
        for (int k = 0; k < 2; ++k) {
          if (!running[k]) continue;
          StorePixel(before[k] * static_cast<T>(momentum) +
                         now[k] * static_cast<T>(1 - momentum),
                     a.Output<T>(1 + k), block);
        }
      });
    });
  });
}

std::unique_ptr<Kernel> NormTrainingInBlocks(const Op& op, const Channels& s,
                                             const Epilogue& e) {
  const double epsilon = op.Float("epsilon", 1e-5);
  return WithF32F64(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([=](const Args& a) {
      ForEachBlock(s, [&](int64_t block) {
        Pixel<T> mean, variance;
        MomentsOfBlock(s, block, a.Input<T>(0), &mean, &variance);
        StorePixel(mean, a.Output<T>(1), block);
        StorePixel(variance, a.Output<T>(2), block);
        Normalize(s, block, a.Input<T>(0), mean, variance, a.Input<T>(1),
                  a.Input<T>(2), static_cast<T>(epsilon), e,
                  e.residual ? a.Input<T>(3) : nullptr, a.Output<T>(0));
      });
    });
  });
}

// The formulas are those of batch_norm.cc.
std::unique_ptr<Kernel> NormGradInBlocks(const Op& op, const Channels& s) {
  const double epsilon = op.Float("epsilon", 1e-5);
  return WithF32F64(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([=](const Args& a) {
      const T *dy = a.Input<T>(0), *x = a.Input<T>(1);
      T* dx = a.Output<T>(0);
      const T count = static_cast<T>(s.per_channel());
      ForEachBlock(s, [&](int64_t block) {
        const Pixel<T> mean = LoadPixel(a.Input<T>(3), block);
        const Pixel<T> inv = InverseStd(LoadPixel(a.Input<T>(4), block),
                                        static_cast<T>(epsilon));
        const GradSums<T> sums = SumGrads(s, block, dy, x, mean, inv);
        StorePixel(sums.dy_x, a.Output<T>(1), block);
        StorePixel(sums.dy, a.Output<T>(2), block);
        const Pixel<T> factor = LoadPixel(a.Input<T>(2), block) * inv;
        const Pixel<T> mean_dy = sums.dy / count;
        const Pixel<T> slope = inv * (sums.dy_x / count);
        ForEachPlane(s, block, [&](int64_t plane) {
          for (int64_t i = 0; i < s.pixels; ++i) {
            const Pixel<T> centred = LoadPixel(x + plane, i) - mean;
            StorePixel(
                factor * (LoadPixel(dy + plane, i) - mean_dy - centred * slope),
                dx + plane, i);
          }
        });
      });
    });
  });
}

WEFT_CPU_END
