// ReduceSum Mean Max Min Prod over any axes, and ArgMax.
#include "devices/cpu/elements.h"
#include "devices/cpu/factories.h"
#include "devices/cpu/numeric.h"
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

// The operand's elements in the wide type, a piece at a time: where they lie,
// or widened into a buffer.
template <class C>
class Source {
 public:
  static constexpr int64_t kPiece = 512;

  Source(const void* base, int64_t size, Converter load)
      : base_(static_cast<const char*>(base)), size_(size), load_(load) {}

  bool widens() const { return load_ != nullptr; }
  // n elements from the offset given; at most kPiece if widens(). They hold
  // until the next call.
  const C* At(int64_t offset, int64_t n) {
    const char* from = base_ + offset * size_;
    if (load_ == nullptr) return reinterpret_cast<const C*>(from);
    load_(from, n, buffer_);
    return buffer_;
  }
  // The same, `stride` elements apart.
  const C* At(int64_t offset, int64_t stride, int64_t n) {
    if (stride == 1) return At(offset, n);
    const char* from = base_ + offset * size_;
    Gather(from, size_, stride, n, load_ == nullptr ? buffer_ : gathered_);
    if (load_ != nullptr) load_(gathered_, n, buffer_);
    return buffer_;
  }

 private:
  const char* base_;
  int64_t size_;
  Converter load_;
  C buffer_[kPiece];
  C gathered_[kPiece];
};

// How a reduction's operand is widened and its results are narrowed.
struct Types {
  int64_t size = 0;
  Converter load = nullptr;
  Converter store = nullptr;  // null: stored in the wide type
  bool mean = false;
};

// ReduceRow() of n elements.
template <class M, class C>
C ReduceWidened(Source<C>* source, int64_t offset, int64_t n) {
  if (!source->widens()) {
    const C* row = source->At(offset, n);
    return ReduceRow<M, C>(n, [row](int64_t i) { return row[i]; });
  }
  TreeOf<M, C> tree;
  for (int64_t block = 0; block < n; block += kRowBlock) {
    const int64_t end = std::min(n, block + kRowBlock);
    LanesOf<M, C> lanes;
    for (int64_t i = block; i < end; i += Source<C>::kPiece) {
      const int64_t piece = std::min(end - i, Source<C>::kPiece);
      const C* x = source->At(offset + i, piece);
      lanes.Add(0, piece, [x](int64_t j) { return x[j]; });
    }
    tree.Add(lanes.Result());
  }
  return tree.Result();
}

// Values as results, each of `elements` elements: the mean divides.
template <class C>
void Store(C* values, int64_t n, int64_t elements, const Types& types,
           void* to) {
  for (int64_t i = 0; types.mean && i < n; ++i) {
    values[i] = static_cast<C>(values[i] / static_cast<C>(elements));
  }
  if (types.store != nullptr) {
    types.store(values, n, to);
  } else {
    std::memcpy(to, values, static_cast<size_t>(n) * sizeof(C));
  }
}

template <class M, class C>
std::unique_ptr<Kernel> Make(const ReduceShape& shape, const Types& types) {
  return MakeKernel([s = shape, types](const Args& a) {
    char* y = a.Output<char>(0);
    if (s.inner_reduced) {
      const int64_t results = s.kept.count();
      const int64_t block = RowBlock(results, s.per_result, kPlain);
      ParallelBlocks(results, block, [&](int64_t begin, int64_t end) {
        Source<C> source(a.in[0], types.size, types.load);
        for (int64_t r = begin; r < end; ++r) {
          const int64_t base = s.kept.At(r);
          TreeOf<M, C> tree;
          s.reduced.ForEach([&](int64_t at) {
            tree.Add(ReduceWidened<M, C>(&source, base + at, s.inner));
          });
          C result = tree.Result();
          Store(&result, 1, s.per_result, types, y + r * types.size);
        }
      });
      return;
    }
    auto run = [&](Source<C>* source, int64_t kept, int64_t first) {
      const int width =
          static_cast<int>(std::min<int64_t>(kColumns, s.inner - first));
      const int64_t base = s.kept.At(kept) + first;
      ColumnReducer<M, C> reducer(width);
      s.reduced.ForEach([&](int64_t at) {
        const C* row = source->At(base + at, width);
        reducer.AddRow([row](int j) { return row[j]; });
      });
      C results[kColumns];
      reducer.Finish(results);
      Store(results, width, s.per_result, types,
            y + (kept * s.inner + first) * types.size);
    };
    const int64_t groups = (s.inner + kColumns - 1) / kColumns;
    const int64_t all = s.kept.count() * groups;
    const int64_t block = RowBlock(
        all, std::min<int64_t>(s.inner, kColumns) * s.per_result, kPlain);
    ParallelBlocks(all, block, [&](int64_t begin, int64_t end) {
      Source<C> source(a.in[0], types.size, types.load);
      for (int64_t i = begin; i < end; ++i) {
        run(&source, i / groups, i % groups * kColumns);
      }
    });
  });
}

// f(Tag<C>()) with the wide type of a float or integer dtype; null for others.
template <class F>
std::unique_ptr<Kernel> WithWide(uint32_t dtype, F f) {
  if (dtype == WEFT_BOOL) return nullptr;
  switch (WideOf(dtype)) {
    case Wide::kFloat:
      return f(Tag<float>());
    case Wide::kDouble:
      return f(Tag<double>());
    default:
      return f(Tag<int64_t>());
  }
}

// The first of equal values; a NaN is above all.
template <class C>
int64_t ArgMaxOf(Source<C>* source, int64_t offset, int64_t stride, int64_t n) {
  int64_t best = 0;
  C top = 0;
  for (int64_t i = 0; i < n; i += Source<C>::kPiece) {
    const int64_t piece = std::min(n - i, Source<C>::kPiece);
    const C* x = source->At(offset + i * stride, stride, piece);
    if (i == 0) top = x[0];
    for (int64_t j = 0; j < piece; ++j) {
      if (x[j] > top || (x[j] != x[j] && top == top)) {
        top = x[j];
        best = i + j;
      }
    }
  }
  return best;
}

}  // namespace

std::unique_ptr<Kernel> MakeReduce(const Op& op) {
  if (!op.Arity(1, 1)) return nullptr;
  const uint32_t dtype = op.in[0].dtype;
  ReduceShape s;
  if (!op.Check(dtype == op.out[0].dtype, "the types differ") ||
      !ReadShape(op, &s)) {
    return nullptr;
  }
  Types types;
  types.mean = op.id == WEFT_OP_REDUCE_MEAN;
  if (types.mean && !IsFloatType(dtype)) return nullptr;
  const bool sum = types.mean || op.id == WEFT_OP_REDUCE_SUM;
  bool found = false;
  types.size = SizeOf(dtype);
  types.load = FindLoad(dtype, WideOf(dtype), &found);
  const bool wraps = sum || op.id == WEFT_OP_REDUCE_PROD;
  types.store =
      FindStore(WideOf(dtype), dtype,
                wraps ? Narrowing::kWrap : Narrowing::kSaturate, &found);
  return WithWide(dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using C = typename decltype(tag)::Storage;
    if (sum) return Make<SumOf, C>(s, types);
    switch (op.id) {
      case WEFT_OP_REDUCE_MAX:
        return Make<MaxOf, C>(s, types);
      case WEFT_OP_REDUCE_MIN:
        return Make<MinOf, C>(s, types);
      case WEFT_OP_REDUCE_PROD:
        return Make<ProdOf, C>(s, types);
      default:
        return nullptr;
    }
  });
}

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
  const int64_t size = SizeOf(in.dtype);
  bool found = false;
  const Converter load = FindLoad(in.dtype, WideOf(in.dtype), &found);
  return WithWide(in.dtype, [&](auto tag) -> std::unique_ptr<Kernel> {
    using C = typename decltype(tag)::Storage;
    return MakeKernel([outer, dim, inner, size, load](const Args& a) {
      int64_t* y = a.Output<int64_t>(0);
      Source<C> source(a.in[0], size, load);
      for (int64_t o = 0; o < outer; ++o) {
        for (int64_t k = 0; k < inner; ++k) {
          *y++ = ArgMaxOf<C>(&source, o * dim * inner + k, inner, dim);
        }
      }
    });
  });
}

WEFT_CPU_END
