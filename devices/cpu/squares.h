// Sums of squares, in double: of 4096 elements in one loop, and of all such
// blocks as a balanced tree. Bits depend on the number of elements alone.
//
//   double sums[SquareBlocks(n)];
//   SumSquares(x, n, sums);                   // each block's, on all threads
//   TreeOfSums(sums, SquareBlocks(n));
//
// Threading: free functions; blocks are shared out over the host's threads.
#ifndef WEFT_DEVICES_CPU_SQUARES_H_
#define WEFT_DEVICES_CPU_SQUARES_H_

#include "devices/cpu/numeric.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/reduction.h"

WEFT_CPU_BEGIN

inline constexpr int64_t kSquareBlock = 4096;

inline int64_t SquareBlocks(int64_t n) {
  return (n + kSquareBlock - 1) / kSquareBlock;
}

// Of block b of n elements.
template <class T>
double SquaresOfBlock(const T* x, int64_t n, int64_t b) {
  return ReduceBlock<SumOf, double>(
      b * kSquareBlock, std::min(n, (b + 1) * kSquareBlock), [x](int64_t k) {
        const double v = static_cast<double>(static_cast<Compute<T>>(x[k]));
        return v * v;
      });
}

template <class T>
void SumSquares(const T* x, int64_t n, double* sums) {
  const int64_t blocks = SquareBlocks(n);
  const int64_t group = RowBlock(blocks, kSquareBlock, kPlain);
  ParallelBlocks(blocks, group, [=](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) sums[b] = SquaresOfBlock(x, n, b);
  });
}

inline double TreeOfSums(const double* sums, int64_t n) {
  TreeOf<SumOf, double> tree;
  for (int64_t i = 0; i < n; ++i) tree.Add(sums[i]);
  return tree.Result();
}

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_SQUARES_H_
