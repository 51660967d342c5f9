// ReduceToAll: the operands, element by element, as one balanced tree by
// position, and the same result for each of them. All-reduce in place is one
// launch of it over a block that all ranks have mapped.
//
//   of 2, 3, 4, 8    one loop reads all and writes all
//   of others        tile by tile, small enough for the nearest cache:
//
//     operands    0     1     2     3     4       taken as a binary counter
//     sums        (0 + 1) ----------- + 4         counts: two of the same size
//                         (2 + 3)                 become one at once
//
// So memory is passed once, whatever the number of operands. All operands of
// an element are read before any result of it is written: result i may be the
// memory of operand i, for any of them.
//
// With `squares` a result more is the sum of squares of what comes out (f64),
// which is taken while it is near: block by block, as weft.SumOfSquares does.
//
// CopyToAll: the last operand into all results; all-gather in place.
#include "devices/cpu/each_alone.h"
#include "devices/cpu/factories.h"
#include "devices/cpu/numeric.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/scalar_ops.h"
#include "devices/cpu/squares.h"

WEFT_CPU_BEGIN
namespace {

constexpr int kMostOperands = 32;
// Sums of different sizes at once: 1, 2, 4, 8, 16 operands.
constexpr int kMostSums = 5;
constexpr int64_t kTileBytes = 4096;

// The largest power of two below n, which is 2 at least: where its tree splits.
constexpr int Left(int n) {
  int left = 1;
  while (2 * left < n) left *= 2;
  return left;
}

// In floats where T is a 16-bit one.
template <class T, class O>
T OfTwo(T x, T y) {
  using C = Compute<T>;
  return Convert<T>(O::template Apply<C>(Convert<C>(x), Convert<C>(y)));
}

template <class T, class O, int N>
T Tree(const T* const* x, int64_t i) {
  if constexpr (N == 1) {
    return x[0][i];
  } else {
    constexpr int kLeft = Left(N);
    return OfTwo<T, O>(Tree<T, O, kLeft>(x, i),
                       Tree<T, O, N - kLeft>(x + kLeft, i));
  }
}

template <class T, class O, size_t... K>
void OfFew(const Args& a, int64_t begin, int64_t end,
           std::index_sequence<K...>) {
  const T* const x[] = {a.Input<T>(K)...};
  T* const z[] = {a.Output<T>(K)...};
  WEFT_CPU_EACH_ALONE
  for (int64_t i = begin; i < end; ++i) {
    const T all = Tree<T, O, sizeof...(K)>(x, i);
    ((z[K][i] = all), ...);
  }
}

template <class T, class O>
void Combine(T* z, const T* x, const T* y, int64_t n) {
  WEFT_CPU_EACH_ALONE
  for (int64_t i = 0; i < n; ++i) z[i] = OfTwo<T, O>(x[i], y[i]);
}

// Elements [at, at + n), at most a tile of them.
template <class T, class O>
void Tile(const Args& a, int operands, int64_t at, int64_t n) {
  alignas(64) T sums[kMostSums][kTileBytes / sizeof(T)];
  const T* held[kMostSums + 1];  // held[k]: an operand, or sums[k]
  int count = 0;
  for (int i = 0; i < operands; ++i) {
    held[count] = a.Input<T>(i) + at;
    for (int bits = i + 1; bits % 2 == 0; bits /= 2) {
      --count;
      Combine<T, O>(sums[count], held[count], held[count + 1], n);
      held[count] = sums[count];
    }
    ++count;
  }
  for (; count > 1; --count) {
    T* both = sums[count - 2];
    Combine<T, O>(both, held[count - 2], held[count - 1], n);
    held[count - 2] = both;
  }
  for (int i = 0; i < operands; ++i) {
    T* to = a.Output<T>(i) + at;
    if (to != held[0]) std::memcpy(to, held[0], sizeof(T) * n);
  }
}

template <class T, class O>
void OfAny(const Args& a, int operands, int64_t begin, int64_t end) {
  constexpr int64_t kTile = kTileBytes / sizeof(T);
  for (int64_t at = begin; at < end; at += kTile) {
    Tile<T, O>(a, operands, at, std::min(kTile, end - at));
  }
}

template <class T, class O>
void Range(const Args& a, int operands, int64_t begin, int64_t end) {
  switch (operands) {
    case 2:
      return OfFew<T, O>(a, begin, end, std::make_index_sequence<2>());
    case 3:
      return OfFew<T, O>(a, begin, end, std::make_index_sequence<3>());
    case 4:
      return OfFew<T, O>(a, begin, end, std::make_index_sequence<4>());
    case 8:
      return OfFew<T, O>(a, begin, end, std::make_index_sequence<8>());
    default:
      return OfAny<T, O>(a, operands, begin, end);
  }
}

template <class T, class O>
std::unique_ptr<Kernel> MakeWithSquares(const Op& op) {
  const int operands = static_cast<int>(op.in.size());
  const int64_t count = op.in[0].count, blocks = SquareBlocks(count);
  const int64_t group =
      RowBlock(blocks, kSquareBlock, std::max(operands / 2, 1) * kPlain);
  return MakeKernel(
      [=](const Args& a) {
        double* const sums = static_cast<double*>(a.workspace);
        ParallelBlocks(blocks, group, [=, &a](int64_t begin, int64_t end) {
          for (int64_t b = begin; b < end; ++b) {
            Range<T, O>(a, operands, b * kSquareBlock,
                        std::min(count, (b + 1) * kSquareBlock));
            sums[b] = SquaresOfBlock(a.Output<T>(0), count, b);
          }
        });
        a.Output<double>(operands)[0] = TreeOfSums(sums, blocks);
      },
      1u, static_cast<uint64_t>(blocks) * sizeof(double));
}

template <class T, class O>
std::unique_ptr<Kernel> MakeFor(const Op& op) {
  const int operands = static_cast<int>(op.in.size());
  if constexpr (std::is_floating_point_v<Compute<T>>) {
    if (op.out.size() > op.in.size()) return MakeWithSquares<T, O>(op);
  }
  const int64_t cost = std::max(operands / 2, 1) * kPlain;
  return MakeKernel(
      [operands, cost, count = op.in[0].count](const Args& a) {
        ParallelElements(count, cost, [&](int64_t begin, int64_t end) {
          Range<T, O>(a, operands, begin, end);
        });
      },
      1u);
}

template <class T>
std::unique_ptr<Kernel> MakeOf(const Op& op) {
  const std::string reduction = op.String("reduction", "sum");
  if (reduction == "max") return MakeFor<T, MaxOp>(op);
  if (reduction == "min") return MakeFor<T, MinOp>(op);
  // Sums of 16-bit floats are made of f32 and rounded once.
  if constexpr (std::is_same_v<Compute<T>, T>) {
    if (reduction == "sum") return MakeFor<T, AddOp>(op);
    if (reduction == "prod") return MakeFor<T, MulOp>(op);
  } else if (reduction == "sum" || reduction == "prod") {
    return op.Unsupported("sums and products of 16-bit floats");
  }
  return op.Unsupported("a reduction that is not sum, prod, max or min");
}

// Of all operands and the first `results` results.
bool CheckOneType(const Op& op, size_t results) {
  const Tensor& first = op.in[0];
  const auto is_like_it = [&first](const Tensor& t) {
    return t.dtype == first.dtype && t.SameDims(first);
  };
  return op.Check(
      std::all_of(op.in.begin(), op.in.end(), is_like_it) &&
          std::all_of(op.out.begin(), op.out.begin() + results, is_like_it),
      "operands and results of different types");
}

}  // namespace

std::unique_ptr<Kernel> MakeReduceToAll(const Op& op) {
  const size_t n = op.in.size();
  if (n > kMostOperands) return op.Unsupported("more than 32 operands");
  const bool squares = op.Int("squares", 0) != 0;
  if (!op.Arity(std::max<size_t>(n, 1), n + (squares ? 1 : 0)) ||
      !CheckOneType(op, n) ||
      !op.Check(
          !squares || (IsFloatType(op.in[0].dtype) && op.out[n].count == 1 &&
                       op.out[n].dtype == WEFT_F64),
          "a sum of squares that is not f64, or not of floats")) {
    return nullptr;
  }
  if (op.in[0].dtype == WEFT_I32) return MakeOf<int32_t>(op);
  if (op.in[0].dtype == WEFT_I64) return MakeOf<int64_t>(op);
  return WithFloat(op.in[0].dtype, [&](auto tag) {
    return MakeOf<typename decltype(tag)::Storage>(op);
  });
}

// Tile by tile: the operand comes from memory once.
std::unique_ptr<Kernel> MakeCopyToAll(const Op& op) {
  const size_t n = op.out.size();
  if (!op.Arity(n + 1, std::max<size_t>(n, 1)) || !CheckOneType(op, n)) {
    return nullptr;
  }
  const int results = static_cast<int>(n);
  const int64_t bytes = op.out[0].count * SizeOf(op.out[0].dtype);
  const int64_t tiles = (bytes + kTileBytes - 1) / kTileBytes;
  const int64_t group = RowBlock(tiles, kTileBytes / 4 * results, kPlain);
  return MakeKernel([results, bytes, tiles, group](const Args& a) {
    const char* const x = a.Input<char>(results);
    ParallelBlocks(tiles, group, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin * kTileBytes; begin < end; ++begin) {
        const int64_t length = std::min(kTileBytes, bytes - at);
        for (int i = 0; i < results; ++i) {
          std::memcpy(a.Output<char>(i) + at, x + at, length);
        }
        at += kTileBytes;
      }
    });
  });
}

WEFT_CPU_END
