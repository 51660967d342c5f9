// Loops over blocks of a kernel's work, on the threads that the host lends
// (host service parallel_for). One rule keeps the bits the same for any number
// of threads: the blocks follow from shapes alone, each computes what no other
// does, and what several contribute to is combined afterwards in the order of
// the blocks.
//
//   ParallelBlocks(rows, RowBlock(rows, columns, kPlain), [&](int64_t begin,
//   int64_t end) {
//     for (int64_t r = begin; r < end; ++r) ...
//   });
//   ParallelElements(n, kPlain, [&](int64_t begin, int64_t end) { ... });
//
// Waking a thread costs 5 to 10 us, so work that is smaller than a few times
// that is one block and stays in the calling thread.
//
// Threading: a function may run in several threads at once, on blocks that
// don't overlap. What it throws is thrown again here, once.
#ifndef WEFT_DEVICES_CPU_PARALLEL_H_
#define WEFT_DEVICES_CPU_PARALLEL_H_

#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

// Cost of one element: a few arithmetic operations, or a call of exp's kind.
inline constexpr int64_t kPlain = 1;
inline constexpr int64_t kCostly = 8;

// Elements of cost 1 in a block, and up to which work is one block.
inline constexpr int64_t kElementBlock = 16384;
inline constexpr int64_t kSerialElements = 65536;

template <class F>
void ParallelBlocks(int64_t n, int64_t block, F&& f) {
  if (n <= block) {
    if (n > 0) f(int64_t{0}, n);
    return;
  }
  using Function = std::remove_reference_t<F>;
  RunBlocks(
      n, block,
      [](void* arg, int64_t begin, int64_t end) {
        (*static_cast<Function*>(arg))(begin, end);
      },
      const_cast<std::remove_const_t<Function>*>(&f));
}

// For elements that do not depend on each other.
template <class F>
void ParallelElements(int64_t n, int64_t cost, F&& f) {
  ParallelBlocks(n, n <= kSerialElements / cost ? n : kElementBlock / cost, f);
}

// The block of rows, each of `elements` of `cost`, that ParallelElements would
// make; `rows` where all of them are one block.
inline int64_t RowBlock(int64_t rows, int64_t elements, int64_t cost) {
  const int64_t row = std::max<int64_t>(elements, 1) * cost;
  if (rows <= kSerialElements / row) return std::max<int64_t>(rows, 1);
  return std::max<int64_t>(kElementBlock / row, 1);
}

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_PARALLEL_H_
