// Layer normalisation over the dimensions from `axis` on, and its gradient.
#include "devices/cpu/factories.h"
#include "devices/cpu/numeric.h"
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

// sum = x + more, rounded to the storage type S: what is normalised are the
// numbers that a reader of the sum would get.
template <class T, class S>
void AddRow(const T* x, const T* more, int64_t n, T* sum) {
  for (int64_t i = 0; i < n; ++i) {
    const T exact = x[i] + more[i];
    if constexpr (std::is_same_v<S, T>) {
      sum[i] = exact;
    } else {
      sum[i] = static_cast<T>(S(exact));
    }
  }
}

// Computes in f32 or f64; S is what f32 stands for.
template <class S>
std::unique_ptr<Kernel> NormalizationFloat(const Op& op) {
  Rows s;
  if (!op.Arity(2, 4, 1, 4) || !ReadRows(op, op.in[0], &s) ||
      !op.Check(op.out[0].SameDims(op.in[0]), "shapes differ")) {
    return nullptr;
  }
  for (size_t i = 1; i < std::min<size_t>(op.in.size(), 3); ++i) {
    CheckCount(op, op.in[i], s.size);
  }
  for (size_t i = 1; i < std::min<size_t>(op.out.size(), 3); ++i) {
    CheckCount(op, op.out[i], s.rows);
  }
  const bool has_residual = op.HasInput(3), has_sum = op.HasOutput(3);
  op.Check((!has_residual || op.in[3].SameDims(op.in[0])) &&
               (!has_sum || (has_residual && op.out[3].SameDims(op.in[0]))),
           "a residual that does not fit");
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
        if (has_residual) {
          // Where nobody wants the sum, it lies where the result will be.
          T* sum = has_sum ? a.Output<T>(3) + r * s.size : y;
          const T* more = a.Input<T>(3) + r * s.size;
          using Stored = std::conditional_t<std::is_same_v<T, float>, S, T>;
          AddRow<T, Stored>(x, more, s.size, sum);
          x = sum;
        }
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
// dbias = sum dy over the rows. One pass: each block of kColumnBlock rows
// leaves its part of both sums in `parts`, [blocks][2][D], where a tree adds
// them up.
template <class T>
void RunGradRows(const Rows& s, const Args& a, int64_t begin, int64_t end,
                 T* __restrict dscale, T* __restrict dbias) {
  const T* __restrict scale = a.Input<T>(2);
  const T count = static_cast<T>(s.size);
  std::fill(dscale, dscale + s.size, T(0));
  std::fill(dbias, dbias + s.size, T(0));
  for (int64_t r = begin; r < end; ++r) {
    const T* dy = a.Input<T>(0) + r * s.size;
    const T* x = a.Input<T>(1) + r * s.size;
    T* __restrict dx = a.Output<T>(0) + r * s.size;
    const T m = a.Input<T>(3)[r], k = a.Input<T>(4)[r];
    auto g = [=](int64_t i) { return dy[i] * scale[i]; };
    const T mean_g = ReduceRow<SumOf, T>(s.size, g) / count;
    const T mean_gx =
        ReduceRow<SumOf, T>(
            s.size, [=](int64_t i) { return g(i) * ((x[i] - m) * k); }) /
        count;
    for (int64_t i = 0; i < s.size; ++i) {
      const T hat = (x[i] - m) * k;
      dx[i] = k * (dy[i] * scale[i] - mean_g - hat * mean_gx);
      dscale[i] += dy[i] * hat;
      dbias[i] += dy[i];
    }
  }
}

int64_t GradBlocks(const Rows& s) {
  return std::max<int64_t>(1, (s.rows + kColumnBlock - 1) / kColumnBlock);
}

template <class T>
void RunGrad(const Rows& s, const Args& a) {
  T* const parts = static_cast<T*>(a.workspace);
  const int64_t blocks = GradBlocks(s);
  const int64_t each = RowBlock(blocks, kColumnBlock * s.size, kPlain);
  ParallelBlocks(blocks, each, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      T* part = parts + b * 2 * s.size;
      RunGradRows(s, a, b * kColumnBlock,
                  std::min(s.rows, (b + 1) * kColumnBlock), part,
                  part + s.size);
    }
  });
  for (int64_t width = 1; width < blocks; width *= 2) {
    for (int64_t b = 0; b + width < blocks; b += 2 * width) {
      T* to = parts + b * 2 * s.size;
      const T* from = to + width * 2 * s.size;
      for (int64_t i = 0; i < 2 * s.size; ++i) to[i] += from[i];
    }
  }
  std::copy(parts, parts + s.size, a.Output<T>(1));
  std::copy(parts + s.size, parts + 2 * s.size, a.Output<T>(2));
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
    return MakeKernel(
        [s](const Args& a) { RunGrad<T>(s, a); }, 0,
        static_cast<uint64_t>(GradBlocks(s) * 2 * s.size) * sizeof(T));
  });
}

}  // namespace

std::unique_ptr<Kernel> MakeLayerNormalization(const Op& op) {
  const uint32_t dtype = op.in.empty() ? 0 : op.in[0].dtype;
  if (dtype == WEFT_F16) return ViaFloat(op, NormalizationFloat<Half>);
  if (dtype == WEFT_BF16) return ViaFloat(op, NormalizationFloat<Bfloat>);
  return NormalizationFloat<float>(op);
}
std::unique_ptr<Kernel> MakeLayerNormGrad(const Op& op) {
  return ViaFloat(op, GradFloat);
}

WEFT_CPU_END
