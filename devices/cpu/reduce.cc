// ReduceSum Mean Max Min Prod over any axes, and ArgMax.
#include "devices/cpu/factories.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/reduction.h"

WEFT_CPU_BEGIN
namespace {

// Positions of a box in row-major order, as offsets.
struct Odometer {
  int rank = 0;
  int64_t dims[WEFT_MAX_RANK];
  int64_t strides[WEFT_MAX_RANK];

  int64_t count() const { return Product(dims, 0, rank); }
  void Push(int64_t dim, int64_t stride) {
    dims[rank] = dim;
    strides[rank++] = stride;
  }
  // The offset of position `i`.
  int64_t At(int64_t i) const {
    int64_t at = 0;
    for (int d = rank - 1; d >= 0; --d) {
      at += i % dims[d] * strides[d];
      i /= dims[d];
    }
    return at;
  }
  // f(offset) for each position.
  template <class F>
  void ForEach(F f) const {
    int64_t index[WEFT_MAX_RANK] = {0};
    int64_t at = 0;
    if (count() == 0) return;
    while (true) {
      f(at);
      int d = rank - 1;
      for (; d >= 0; --d) {
        at += strides[d];
        if (++index[d] < dims[d]) break;
        at -= strides[d] * dims[d];
        index[d] = 0;
      }
      if (d < 0) return;
    }
  }
};

// A dense operand as (kept, reduced) dimensions and the innermost one apart.
struct ReduceShape {
  Odometer kept;
  Odometer reduced;
  int64_t inner = 1;
  bool inner_reduced = true;
  int64_t per_result = 1;  // elements behind each result
};

bool ReadShape(const Op& op, ReduceShape* s) {
  const Tensor& in = op.in[0];
  uint32_t mask = 0;
  std::vector<int64_t> axes = op.Ints("axes");
  for (int64_t axis : axes) {
    int a = op.Axis(axis, in.rank);
    if (a < 0) return false;
    mask |= 1u << a;
  }
  if (axes.empty()) mask = (1u << in.rank) - 1;
  int64_t keepdims = op.Int("keepdims", 1);
  std::vector<int64_t> want;
  int64_t dims[WEFT_MAX_RANK], strides[WEFT_MAX_RANK];
  bool flags[WEFT_MAX_RANK];
  int n = 0;
  int64_t stride = in.count;
  for (int i = 0; i < in.rank; ++i) {
    bool reduced = (mask >> i & 1) != 0;
    if (!reduced) want.push_back(in.dims[i]);
    if (reduced && keepdims != 0) want.push_back(1);
    if (reduced) s->per_result *= in.dims[i];
    if (in.count > 0) stride /= in.dims[i];
    if (in.dims[i] == 1) continue;
    if (n > 0 && flags[n - 1] == reduced) {
      dims[n - 1] *= in.dims[i];
    } else {
      flags[n] = reduced;
      dims[n++] = in.dims[i];
    }
    strides[n - 1] = stride;
  }
  bool fits = static_cast<int>(want.size()) == op.out[0].rank;
  for (int i = 0; fits && i < op.out[0].rank; ++i) {
    fits = want[i] == op.out[0].dims[i];
  }
  if (!op.Check(fits, "the result is not the reduced shape")) return false;
  for (int i = 0; i + 1 < n; ++i) {
    (flags[i] ? s->reduced : s->kept).Push(dims[i], strides[i]);
  }
  if (n > 0) {
    s->inner = dims[n - 1];
    s->inner_reduced = flags[n - 1];
  }
  return true;
}

// The value that is stored: the mean divides.
template <class T, class C>
T Result(C value, bool mean, int64_t per_result) {
  if (mean) value = static_cast<C>(value / static_cast<C>(per_result));
  return static_cast<T>(value);
}

template <class T, class M>
std::unique_ptr<Kernel> Make(const ReduceShape& shape, bool mean) {
  using C = Compute<T>;
  return MakeKernel([s = shape, mean](const Args& a) {
    const T* x = a.Input<T>(0);
    T* y = a.Output<T>(0);
    if (s.inner_reduced) {
      const int64_t results = s.kept.count();
      const int64_t block = RowBlock(results, s.per_result, kPlain);
      ParallelBlocks(results, block, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const T* base = x + s.kept.At(r);
          TreeOf<M, C> tree;
          s.reduced.ForEach([&](int64_t at) {
            const T* row = base + at;
            tree.Add(ReduceRow<M, C>(
                s.inner, [row](int64_t i) { return static_cast<C>(row[i]); }));
          });
          y[r] = Result<T>(tree.Result(), mean, s.per_result);
        }
      });
      return;
    }
    auto run = [&](int64_t kept, int64_t first) {
      const int width =
          static_cast<int>(std::min<int64_t>(kColumns, s.inner - first));
      const T* base = x + s.kept.At(kept) + first;
      ColumnReducer<M, C> reducer(width);
      s.reduced.ForEach([&](int64_t at) {
        const T* row = base + at;
        reducer.AddRow([row](int j) { return static_cast<C>(row[j]); });
      });
      C results[kColumns];
      reducer.Finish(results);
      T* to = y + kept * s.inner + first;
      for (int j = 0; j < width; ++j) {
        to[j] = Result<T>(results[j], mean, s.per_result);
      }
    };
    const int64_t groups = (s.inner + kColumns - 1) / kColumns;
    const int64_t all = s.kept.count() * groups;
    const int64_t block = RowBlock(
        all, std::min<int64_t>(s.inner, kColumns) * s.per_result, kPlain);
    ParallelBlocks(all, block, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        run(i / groups, i % groups * kColumns);
      }
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> MakeReduce(const Op& op) {
  if (!op.Arity(1, 1)) return nullptr;
  ReduceShape s;
  if (!op.Check(op.in[0].dtype == op.out[0].dtype, "the types differ") ||
      !ReadShape(op, &s)) {
    return nullptr;
  }
  if (op.id == WEFT_OP_REDUCE_MEAN) {
    return WithFloat(op.in[0].dtype, [&](auto tag) {
      return Make<typename decltype(tag)::Storage, SumOf>(s, true);
    });
  }
  return WithNumber(op.in[0].dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    switch (op.id) {
      case WEFT_OP_REDUCE_SUM:
        return Make<T, SumOf>(s, false);
      case WEFT_OP_REDUCE_MAX:
        return Make<T, MaxOf>(s, false);
      case WEFT_OP_REDUCE_MIN:
        return Make<T, MinOf>(s, false);
      case WEFT_OP_REDUCE_PROD:
        return Make<T, ProdOf>(s, false);
      default:
        return nullptr;
    }
  });
}

// The first of equal values; a NaN is above all.
std::unique_ptr<Kernel> MakeArgMax(const Op& op) {
  if (!op.Arity(1, 1)) return nullptr;
  const Tensor& in = op.in[0];
  int axis = op.Axis(op.Int("axis", 0), in.rank);
  if (axis < 0) return nullptr;
  int64_t outer = Product(in.dims, 0, axis), dim = in.dims[axis];
  int64_t inner = Product(in.dims, axis + 1, in.rank);
  if (!op.Check(op.out[0].dtype == WEFT_I64, "the result is not i64") ||
      !op.Check(op.out[0].count == outer * inner, "shapes do not fit") ||
      !op.Check(dim > 0 || outer * inner == 0, "an empty axis")) {
    return nullptr;
  }
  return WithNumber(in.dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::Storage;
    using C = Compute<T>;
    return MakeKernel([outer, dim, inner](const Args& a) {
      int64_t* y = a.Output<int64_t>(0);
      for (int64_t o = 0; o < outer; ++o) {
        for (int64_t k = 0; k < inner; ++k) {
          const T* x = a.Input<T>(0) + o * dim * inner + k;
          int64_t best = 0;
          C top = static_cast<C>(x[0]);
          for (int64_t i = 1; i < dim; ++i) {
            C v = static_cast<C>(x[i * inner]);
            if (v > top || (v != v && top == top)) {
              top = v;
              best = i;
            }
          }
          *y++ = best;
        }
      }
    });
  });
}

WEFT_CPU_END
