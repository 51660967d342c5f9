// Reductions in an order that depends on the count alone, never on addresses or
// threads:
//
//   row       16 lanes (element i goes to lane i % 16), then a fixed tree over
//             the lanes; rows above 65536 elements in blocks of that size,
//             whose results meet in a balanced tree
//   columns   256 rows in sequence, then a balanced tree over such blocks
//
//   float sum = ReduceRow<SumOf, float>(n, [&](int64_t i) { return x[i]; });
//
// Columns are shared out over the host's threads, never the rows of one.
//
// Threading: free functions; scratch is on the stack.
#ifndef WEFT_DEVICES_CPU_REDUCTION_H_
#define WEFT_DEVICES_CPU_REDUCTION_H_

#include "devices/cpu/parallel.h"
#include "devices/cpu/scalar_ops.h"
#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

// Monoids: Apply and its neutral element.
struct SumOf : AddOp {
  template <class C>
  static C Identity() {
    return C(0);
  }
};
struct ProdOf : MulOp {
  template <class C>
  static C Identity() {
    return C(1);
  }
};
struct MaxOf : MaxOp {
  template <class C>
  static C Identity() {
    using L = std::numeric_limits<C>;
    return L::has_infinity ? -L::infinity() : L::lowest();
  }
};
struct MinOf : MinOp {
  template <class C>
  static C Identity() {
    using L = std::numeric_limits<C>;
    return L::has_infinity ? L::infinity() : L::max();
  }
};

inline constexpr int kLanes = 16;
inline constexpr int64_t kRowBlock = 65536;
inline constexpr int64_t kColumnBlock = 256;
inline constexpr int kColumns = 64;  // reduced together
inline constexpr int kTreeDepth = 48;

// A balanced tree over values that come one by one, as the bits of a binary
// counter: equal levels merge at once, what is left merges from the newest to
// the oldest.
template <class M, class C>
class TreeOf {
 public:
  void Add(C value) {
    for (uint64_t bits = count_++; bits & 1; bits >>= 1) {
      value = M::template Apply<C>(levels_[--depth_], value);
    }
    levels_[depth_++] = value;
  }
  C Result() const {
    if (depth_ == 0) return M::template Identity<C>();
    C value = levels_[depth_ - 1];
    for (int i = depth_ - 2; i >= 0; --i) {
      value = M::template Apply<C>(levels_[i], value);
    }
    return value;
  }

 private:
  uint64_t count_ = 0;
  int depth_ = 0;
  C levels_[kTreeDepth + 1];
};

// The lanes of a block of a row. Its elements come in pieces, all but the last
// of which are whole groups of lanes.
template <class M, class C>
struct LanesOf {
  LanesOf() { std::fill(lanes, lanes + kLanes, M::template Identity<C>()); }

  // f(i) for i in [begin, end).
  template <class F>
  void Add(int64_t begin, int64_t end, F f) {
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) {
        lanes[l] = M::template Apply<C>(lanes[l], f(i + l));
      }
    }
    for (int l = 0; i < end; ++i, ++l) {
      lanes[l] = M::template Apply<C>(lanes[l], f(i));
    }
  }
  C Result() {  // once
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int l = 0; l < width; ++l) {
        lanes[l] = M::template Apply<C>(lanes[l], lanes[l + width]);
      }
    }
    return lanes[0];
  }

  C lanes[kLanes];
};

template <class M, class C, class F>
C ReduceBlock(int64_t begin, int64_t end, F f) {
  LanesOf<M, C> lanes;
  lanes.Add(begin, end, f);
  return lanes.Result();
}

// f(i) is element i of a row of n.
template <class M, class C, class F>
C ReduceRow(int64_t n, F f) {
  if (n <= kRowBlock) return ReduceBlock<M, C>(0, n, f);
  TreeOf<M, C> tree;
  for (int64_t i = 0; i < n; i += kRowBlock) {
    tree.Add(ReduceBlock<M, C>(i, std::min(n, i + kRowBlock), f));
  }
  return tree.Result();
}

// Up to kColumns neighbouring columns; rows come one by one.
template <class M, class C>
class ColumnReducer {
 public:
  explicit ColumnReducer(int width) : width_(width) { Clear(); }

  // f(j) is the row's element in column j.
  template <class F>
  void AddRow(F f) {
    for (int j = 0; j < width_; ++j) {
      block_[j] = M::template Apply<C>(block_[j], f(j));
    }
    if (++rows_ == kColumnBlock) Carry();
  }

  // The results, out[0 .. width).
  void Finish(C* out) {
    if (rows_ > 0 || depth_ == 0) Carry();
    std::copy(levels_[depth_ - 1], levels_[depth_ - 1] + width_, out);
    for (int i = depth_ - 2; i >= 0; --i) {
      for (int j = 0; j < width_; ++j) {
        out[j] = M::template Apply<C>(levels_[i][j], out[j]);
      }
    }
  }

 private:
  void Clear() {
    rows_ = 0;
    std::fill(block_, block_ + width_, M::template Identity<C>());
  }
  void Carry() {
    for (uint64_t bits = count_++; bits & 1; bits >>= 1) {
      --depth_;
      for (int j = 0; j < width_; ++j) {
        block_[j] = M::template Apply<C>(levels_[depth_][j], block_[j]);
      }
    }
    std::copy(block_, block_ + width_, levels_[depth_++]);
    Clear();
  }

  int width_;
  int64_t rows_ = 0;
  uint64_t count_ = 0;
  int depth_ = 0;
  C block_[kColumns];
  C levels_[kTreeDepth + 1][kColumns];
};

// out[j] = reduction over r of f(r, j), for `columns` columns.
template <class M, class C, class F, class Out>
void ReduceColumns(int64_t rows, int64_t columns, F f, Out out) {
  auto run = [&](int64_t group) {
    const int64_t first = group * kColumns;
    int width = static_cast<int>(std::min<int64_t>(kColumns, columns - first));
    ColumnReducer<M, C> reducer(width);
    for (int64_t r = 0; r < rows; ++r) {
      reducer.AddRow([&](int j) { return f(r, first + j); });
    }
    C results[kColumns];
    reducer.Finish(results);
    for (int j = 0; j < width; ++j) out(first + j, results[j]);
  };
  const int64_t groups = (columns + kColumns - 1) / kColumns;
  const int64_t block = RowBlock(groups, rows * kColumns, kPlain);
  ParallelBlocks(groups, block, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) run(g);
  });
}

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_REDUCTION_H_
