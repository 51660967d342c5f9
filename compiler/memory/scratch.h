// Scratch of a chain: places for values that live only inside one task, and for
// the workspace of its kernels.
//
//   ChainScratch scratch = PlaceScratch(parts, task, inner, alignment);
//   scratch.offsets.at(buffer);      // within the stream's scratch
//   scratch.workspaces[position];    // of the kernel at that position
//
// A value is live from the kernel that writes it to the last that reads it,
// both included, so a kernel's results never overlap its operands. Only where
// the kernel said so, result 0 takes the place of an operand of the same size
// that dies there.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_MEMORY_SCRATCH_H_
#define WEFT_COMPILER_MEMORY_SCRATCH_H_

#include <cstdint>
#include <map>
#include <vector>

#include "compiler/memory/packing.h"
#include "compiler/order/order.h"
#include "compiler/partition/partition.h"

namespace weft {

struct ChainScratch {
  std::map<int, uint64_t> offsets;   // by inner buffer
  std::vector<uint64_t> workspaces;  // by position; 0 where there is none
  uint64_t bytes = 0;
};

// What PlaceScratch packs; for tests and statistics. Buffers that share a place
// are one block.
struct ScratchBlocks {
  std::vector<Block> blocks;
  std::map<int, int> block_of;  // by inner buffer
  std::vector<int> workspace;   // by position; -1 where there is none
};

// `inner[b]`: whether buffer b lives inside its task only.
ScratchBlocks FindScratchBlocks(const Partition& parts, const TaskDraft& task,
                                const std::vector<bool>& inner);

ChainScratch PlaceScratch(const Partition& parts, const TaskDraft& task,
                          const std::vector<bool>& inner, uint64_t alignment);

}  // namespace weft

#endif  // WEFT_COMPILER_MEMORY_SCRATCH_H_
