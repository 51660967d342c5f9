// Batch normalisation over [N,C,...]: inference, training and gradient. The sum
// of a channel is a balanced tree over the images of the sums of their planes.
#include "devices/cpu/batch_norm.h"

#include "devices/cpu/factories.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/reduction.h"
#include "devices/cpu/via_float.h"
#include "devices/cpu/window.h"

WEFT_CPU_BEGIN
namespace {

bool ReadChannels(const Op& op, const Tensor& x, Channels* s) {
  for (const Tensor& t : op.in) {
    op.Check(t.dtype == x.dtype, "the types differ");
  }
  for (const Tensor& t : op.out) {
    op.Check(!t.present() || t.dtype == x.dtype, "the types differ");
  }
  if (!op.Check(x.rank >= 2, "not [N,C,...]")) return false;
  s->blocked = ReadBlocked(op, "layout");
  const Tensor image = AsNchw(op, x, s->blocked);
  s->batch = image.dims[0];
  s->channels = image.dims[1];
  s->pixels = Product(image.dims, 2, image.rank);
  return op.ok();
}

// `t` is absent or has one value for each channel.
bool CheckPerChannel(const Op& op, const Tensor& t, const Channels& s) {
  return op.Check(!t.present() || (t.rank == 1 && t.dims[0] == s.channels),
                  "a statistic or parameter that is not [C]");
}

// Sum of f(i) over the elements i of channel c.
template <class T, class F>
T SumOfChannel(const Channels& s, int64_t c, F f) {
  if (s.pixels == 1) {
    return ReduceRow<SumOf, T>(
        s.batch, [&](int64_t n) { return f(n * s.channels + c); });
  }
  TreeOf<SumOf, T> tree;
  for (int64_t n = 0; n < s.batch; ++n) {
    const int64_t plane = (n * s.channels + c) * s.pixels;
    tree.Add(
        ReduceRow<SumOf, T>(s.pixels, [&](int64_t i) { return f(plane + i); }));
  }
  return tree.Result();
}

// f(c) for each channel, which no other one touches.
template <class F>
void ForEachChannel(const Channels& s, F f) {
  const int64_t block = RowBlock(s.channels, s.per_channel(), kPlain);
  ParallelBlocks(s.channels, block, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) f(c);
  });
}

template <class F>
void ForEachOfChannel(const Channels& s, int64_t c, F f) {
  for (int64_t n = 0; n < s.batch; ++n) {
    const int64_t plane = (n * s.channels + c) * s.pixels;
    for (int64_t i = 0; i < s.pixels; ++i) f(plane + i);
  }
}

// The mean and the biased variance, in two passes.
template <class T>
void Moments(const Channels& s, const T* x, int64_t c, T* mean, T* variance) {
  const T count = static_cast<T>(s.per_channel());
  const T m = SumOfChannel<T>(s, c, [x](int64_t i) { return x[i]; }) / count;
  *mean = m;
  *variance = SumOfChannel<T>(s, c,
                              [x, m](int64_t i) {
                                const T d = x[i] - m;
                                return d * d;
                              }) /
              count;
}

// y = (x - mean) * inv * scale + bias, and the epilogue with residual r.
template <class T>
void Normalize(const Channels& s, int64_t c, const T* x, T mean, T variance,
               T scale, T bias, T epsilon, const Epilogue& e, const T* r,
               T* y) {
  const T factor = scale * (T(1) / std::sqrt(variance + epsilon));
  WithEpilogue(e, [&](auto residual, auto relu) {
    ForEachOfChannel(s, c, [=](int64_t i) {
      T value = (x[i] - mean) * factor + bias;
      if constexpr (residual) value = value + r[i];
      if constexpr (relu) value = ReluOp::Apply(value);
      y[i] = value;
    });
  });
}

std::unique_ptr<Kernel> NormalizationFloat(const Op& op) {
  Channels s;
  if (!op.Arity(5, 5, 1, 3) || !ReadChannels(op, op.in[0], &s) ||
      !op.Check(op.out[0].SameDims(op.in[0]), "shapes differ")) {
    return nullptr;
  }
  for (int i = 1; i < 5; ++i) CheckPerChannel(op, op.in[i], s);
  for (size_t i = 1; i < op.out.size(); ++i) CheckPerChannel(op, op.out[i], s);
  if (!op.ok()) return nullptr;
  if (s.blocked) return NormalizationInBlocks(op, s);
  const double epsilon = op.Float("epsilon", 1e-5);
  const double momentum = op.Float("momentum", 0.9);
  const bool training = op.Int("training_mode", 0) != 0;
  const bool running[2] = {op.HasOutput(1), op.HasOutput(2)};
  return WithF32F64(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([=](const Args& a) {
      const T* x = a.Input<T>(0);
      ForEachChannel(s, [&](int64_t c) {
        T now[2] = {a.Input<T>(3)[c], a.Input<T>(4)[c]};
        const T before[2] = {now[0], now[1]};
        if (training) Moments(s, x, c, &now[0], &now[1]);
        Normalize<T>(s, c, x, now[0], now[1], a.Input<T>(1)[c],
                     a.Input<T>(2)[c], static_cast<T>(epsilon), {}, nullptr,
                     a.Output<T>(0));
        for (int k = 0; k < 2; ++k) {
          if (!running[k]) continue;
          a.Output<T>(1 + k)[c] = before[k] * static_cast<T>(momentum) +
                                  now[k] * static_cast<T>(1 - momentum);
        }
      });
    });
  });
}

std::unique_ptr<Kernel> TrainingFloat(const Op& op) {
  Channels s;
  Epilogue e;
  if (!op.Arity(3, 4, 3, 3) || !ReadChannels(op, op.in[0], &s) ||
      !ReadEpilogue(op, &e) ||
      !op.Check(op.out[0].SameDims(op.in[0]), "shapes differ")) {
    return nullptr;
  }
  for (int i = 1; i < 3; ++i) {
    CheckPerChannel(op, op.in[i], s);
    CheckPerChannel(op, op.out[i], s);
  }
  e.residual = op.HasInput(3);
  op.Check(!e.residual || op.in[3].SameDims(op.in[0]),
           "a residual that does not fit");
  if (!op.ok()) return nullptr;
  if (s.blocked) return NormTrainingInBlocks(op, s, e);
  const double epsilon = op.Float("epsilon", 1e-5);
  return WithF32F64(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([=](const Args& a) {
      const T* x = a.Input<T>(0);
      ForEachChannel(s, [&](int64_t c) {
        T mean, variance;
        Moments(s, x, c, &mean, &variance);
        a.Output<T>(1)[c] = mean;
        a.Output<T>(2)[c] = variance;
        Normalize(s, c, x, mean, variance, a.Input<T>(1)[c], a.Input<T>(2)[c],
                  static_cast<T>(epsilon), e,
                  e.residual ? a.Input<T>(3) : nullptr, a.Output<T>(0));
      });
    });
  });
}

// With x^ = (x - mean) * inv and M elements a channel:
// dbias = sum dy, dscale = sum dy x^,
// dx = scale * inv * (dy - dbias / M - x^ dscale / M).
std::unique_ptr<Kernel> GradFloat(const Op& op) {
  Channels s;
  if (!op.Arity(5, 3) || !ReadChannels(op, op.in[1], &s) ||
      !op.Check(op.in[0].SameDims(op.in[1]) && op.out[0].SameDims(op.in[1]),
                "shapes differ")) {
    return nullptr;
  }
  for (int i = 2; i < 5; ++i) CheckPerChannel(op, op.in[i], s);
  for (int i = 1; i < 3; ++i) CheckPerChannel(op, op.out[i], s);
  if (!op.ok()) return nullptr;
  if (s.blocked) return NormGradInBlocks(op, s);
  const double epsilon = op.Float("epsilon", 1e-5);
  return WithF32F64(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([=](const Args& a) {
      const T *dy = a.Input<T>(0), *x = a.Input<T>(1);
      T* dx = a.Output<T>(0);
      const T count = static_cast<T>(s.per_channel());
      ForEachChannel(s, [&](int64_t c) {
        const T mean = a.Input<T>(3)[c];
        const T inv =
            T(1) / std::sqrt(a.Input<T>(4)[c] + static_cast<T>(epsilon));
        const T dbias =
            SumOfChannel<T>(s, c, [dy](int64_t i) { return dy[i]; });
        const T dscale = SumOfChannel<T>(
            s, c, [=](int64_t i) { return dy[i] * ((x[i] - mean) * inv); });
        a.Output<T>(1)[c] = dscale;
        a.Output<T>(2)[c] = dbias;
        const T factor = a.Input<T>(2)[c] * inv;
        const T mean_dy = dbias / count, mean_dy_x = dscale / count;
        ForEachOfChannel(s, c, [=](int64_t i) {
          dx[i] = factor * (dy[i] - mean_dy - (x[i] - mean) * inv * mean_dy_x);
        });
      });
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> MakeBatchNormalization(const Op& op) {
  return ViaFloat(op, NormalizationFloat);
}
std::unique_ptr<Kernel> MakeBatchNormTraining(const Op& op) {
  return ViaFloat(op, TrainingFloat);
}
std::unique_ptr<Kernel> MakeBatchNormGrad(const Op& op) {
  return ViaFloat(op, GradFloat);
}

WEFT_CPU_END
