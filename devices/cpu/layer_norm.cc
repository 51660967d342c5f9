// Layer normalisation over the dimensions from `axis` on, and its gradient.
#include "devices/cpu/factories.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/reduction.h"
#include "devices/cpu/via_float.h"

WEFT_CPU_BEGIN
namespace {

struct Rows {
  int64_t rows = 1;
  int64_t size = 1;
};

bool ReadRows(const Op& op, const Tensor& x, Rows* s) {
  for (const Tensor& t : op.in) {
    op.Check(!t.present() || t.dtype == x.dtype, "the types differ");
  }
  for (const Tensor& t : op.out) {
    op.Check(!t.present() || t.dtype == x.dtype, "the types differ");
  }
  int axis = op.Axis(op.Int("axis", -1), x.rank);
  if (axis < 0) return false;
  s->rows = Product(x.dims, 0, axis);
  s->size = Product(x.dims, axis, x.rank);
  return op.ok();
}

bool CheckCount(const Op& op, const Tensor& t, int64_t count) {
  return op.Check(!t.present() || t.count == count,
                  "an operand that does not fit the normalised dimensions");
}

std::unique_ptr<Kernel> NormalizationFloat(const Op& op) {
  Rows s;
  if (!op.Arity(2, 3, 1, 3) || !ReadRows(op, op.in[0], &s) ||
      !op.Check(op.out[0].SameDims(op.in[0]), "shapes differ")) {
    return nullptr;
  }
  for (size_t i = 1; i < op.in.size(); ++i) CheckCount(op, op.in[i], s.size);
  for (size_t i = 1; i < op.out.size(); ++i) CheckCount(op, op.out[i], s.rows);
  if (!op.ok()) return nullptr;
  const double epsilon = op.Float("epsilon", 1e-5);
  const bool has_bias = op.HasInput(2);
  const bool has_mean = op.HasOutput(1), has_inv = op.HasOutput(2);
  return WithF32F64(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([=](const Args& a) {
      const T count = static_cast<T>(s.size);
      const T* scale = a.Input<T>(1);
      auto run = [&](int64_t r) {
        const T* x = a.Input<T>(0) + r * s.size;
        T* y = a.Output<T>(0) + r * s.size;
        const T mean =
            ReduceRow<SumOf, T>(s.size, [x](int64_t i) { return x[i]; }) /
            count;
        const T variance = ReduceRow<SumOf, T>(s.size,
                                               [x, mean](int64_t i) {
                                                 const T d = x[i] - mean;
                                                 return d * d;
                                               }) /
                           count;
        const T inv = T(1) / std::sqrt(variance + static_cast<T>(epsilon));
        if (has_mean) a.Output<T>(1)[r] = mean;
        if (has_inv) a.Output<T>(2)[r] = inv;
        if (has_bias) {
          const T* bias = a.Input<T>(2);
          for (int64_t i = 0; i < s.size; ++i) {
            y[i] = (x[i] - mean) * inv * scale[i] + bias[i];
          }
        } else {
          for (int64_t i = 0; i < s.size; ++i) {
            y[i] = (x[i] - mean) * inv * scale[i];
          }
        }
      };
      const int64_t block = RowBlock(s.rows, s.size, kPlain);
      ParallelBlocks(s.rows, block, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) run(r);
      });
    });
  });
}

// With x^ = (x - mean) * inv and g = dy * scale, over rows of D:
// dx = inv * (g - mean(g) - x^ mean(g x^)); dscale = sum dy x^ and
// dbias = sum dy over the rows.
template <class T>
void RunGrad(const Rows& s, const Args& a) {
  const T *dy = a.Input<T>(0), *x = a.Input<T>(1), *scale = a.Input<T>(2);
  const T *mean = a.Input<T>(3), *inv = a.Input<T>(4);
  T* dx = a.Output<T>(0);
  const T count = static_cast<T>(s.size);
  auto run = [&](int64_t r) {
    const int64_t at = r * s.size;
    const T m = mean[r], k = inv[r];
    auto g = [=](int64_t i) { return dy[at + i] * scale[i]; };
    auto hat = [=](int64_t i) { return (x[at + i] - m) * k; };
    const T mean_g = ReduceRow<SumOf, T>(s.size, g) / count;
    const T mean_gx =
        ReduceRow<SumOf, T>(s.size, [=](int64_t i) { return g(i) * hat(i); }) /
        count;
    for (int64_t i = 0; i < s.size; ++i) {
      dx[at + i] = k * (g(i) - mean_g - hat(i) * mean_gx);
    }
  };
  const int64_t block = RowBlock(s.rows, s.size, kPlain);
  ParallelBlocks(s.rows, block, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) run(r);
  });
  T *dscale = a.Output<T>(1), *dbias = a.Output<T>(2);
  ReduceColumns<SumOf, T>(
      s.rows, s.size,
      [=](int64_t r, int64_t j) {
        return dy[r * s.size + j] * ((x[r * s.size + j] - mean[r]) * inv[r]);
      },
      [=](int64_t j, T value) { dscale[j] = value; });
  ReduceColumns<SumOf, T>(
      s.rows, s.size, [=](int64_t r, int64_t j) { return dy[r * s.size + j]; },
      [=](int64_t j, T value) { dbias[j] = value; });
}

std::unique_ptr<Kernel> GradFloat(const Op& op) {
  Rows s;
  if (!op.Arity(5, 3) || !ReadRows(op, op.in[1], &s) ||
      !op.Check(op.in[0].SameDims(op.in[1]) && op.out[0].SameDims(op.in[1]),
                "shapes differ")) {
    return nullptr;
  }
  CheckCount(op, op.in[2], s.size);
  for (int i = 3; i < 5; ++i) CheckCount(op, op.in[i], s.rows);
  for (int i = 1; i < 3; ++i) CheckCount(op, op.out[i], s.size);
  if (!op.ok()) return nullptr;
  return WithF32F64(op.out[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    return MakeKernel([s](const Args& a) { RunGrad<T>(s, a); });
  });
}

}  // namespace

std::unique_ptr<Kernel> MakeLayerNormalization(const Op& op) {
  return ViaFloat(op, NormalizationFloat);
}
std::unique_ptr<Kernel> MakeLayerNormGrad(const Op& op) {
  return ViaFloat(op, GradFloat);
}

WEFT_CPU_END
