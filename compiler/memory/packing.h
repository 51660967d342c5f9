// Packing: offsets for blocks of which not all are live together.
//
//   std::vector<Block> blocks = {{1024, 0, 3}, {512, 2, 5}, {1024, 4, 6}};
//   Packing packing = PackBlocks(blocks, /*alignment=*/64);
//   packing.offsets[2];   // 0: block 0 is dead by then
//   packing.bytes;        // 1536
//
// Offline: all lifetimes are known. Several orders of placing (by size, by size
// x life, by time) are tried, each block at the lowest gap that fits, then the
// best result is improved by a bounded, deterministic search; the result is
// exact where it meets the lower bound. Equal arguments give equal offsets.
//
// What it does not do: know whether sharing is allowed. That is the caller's
// proof (scratch.h: position in a chain; registers.h: happens-before).
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_MEMORY_PACKING_H_
#define WEFT_COMPILER_MEMORY_PACKING_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "compiler/memory/conflicts.h"

namespace weft {

struct Block {
  uint64_t bytes = 0;
  // First and last position at which it is live, inclusive.
  int first = 0;
  int last = 0;
};

struct Packing {
  std::vector<uint64_t> offsets;  // by block
  uint64_t bytes = 0;
};

Packing PackBlocks(absl::Span<const Block> blocks, uint64_t alignment);

// Sizes, and which may not overlap. `order` has every block once: that in which
// they are placed first, and which comes first of equals.
Packing PackConflicting(absl::Span<const uint64_t> bytes, uint64_t alignment,
                        const ConflictMatrix& conflicts,
                        absl::Span<const int> order);

// The most bytes (each block padded) that are live at one position: no packing
// is smaller.
uint64_t MostLiveBytes(absl::Span<const Block> blocks, uint64_t alignment);

}  // namespace weft

#endif  // WEFT_COMPILER_MEMORY_PACKING_H_
