#include "compiler/memory/scratch.h"

#include <algorithm>

namespace weft {
namespace {

// The position of the last kernel of `task` that reads `buffer`.
int LastRead(const Partition& parts, const TaskDraft& task, int buffer,
             int otherwise) {
  for (int i = static_cast<int>(task.works.size()) - 1; i > otherwise; --i) {
    for (const WorkOperand& o : parts.works[task.works[i]].operands) {
      if (o.buffer == buffer) return i;
    }
  }
  return otherwise;
}

// The inner operand whose bytes result 0 of `work` may take: it dies here, is
// read through operands that all allow it, and has the same size.
int ReusableOperand(const Partition& parts, const Work& work, int position,
                    const ScratchBlocks& found) {
  const Buffer& result = parts.buffers[work.results[0]];
  for (size_t i = 0; i < work.operands.size() && i < 32; ++i) {
    const int b = work.operands[i].buffer;
    auto block = found.block_of.find(b);
    if (block == found.block_of.end()) continue;
    if (found.blocks[block->second].last != position) continue;
    if (parts.buffers[b].type.num_bytes() != result.type.num_bytes()) continue;
    bool allowed = true;
    for (size_t j = 0; j < work.operands.size(); ++j) {
      if (work.operands[j].buffer != b) continue;
      allowed = allowed && j < 32 && ((work.in_place >> j) & 1) != 0;
    }
    if (allowed) return block->second;
  }
  return -1;
}

}  // namespace

ScratchBlocks FindScratchBlocks(const Partition& parts, const TaskDraft& task,
                                const std::vector<bool>& inner) {
  ScratchBlocks out;
  for (int i = 0; i < static_cast<int>(task.works.size()); ++i) {
    const Work& work = parts.works[task.works[i]];
    for (size_t r = 0; r < work.results.size(); ++r) {
      const int b = work.results[r];
      if (b < 0 || !inner[b]) continue;
      const int last = LastRead(parts, task, b, i);
      int block = r == 0 ? ReusableOperand(parts, work, i, out) : -1;
      if (block >= 0) {
        out.blocks[block].last = last;
      } else {
        block = static_cast<int>(out.blocks.size());
        out.blocks.push_back(
            {static_cast<uint64_t>(parts.buffers[b].type.num_bytes()), i,
             last});
      }
      out.block_of[b] = block;
    }
    out.workspace.push_back(-1);
    if (work.kernel < 0) continue;
    const uint64_t bytes = parts.kernels[work.kernel].workspace_bytes();
    if (bytes == 0) continue;
    out.workspace.back() = static_cast<int>(out.blocks.size());
    out.blocks.push_back({bytes, i, i});
  }
  return out;
}

ChainScratch PlaceScratch(const Partition& parts, const TaskDraft& task,
                          const std::vector<bool>& inner, uint64_t alignment) {
  ScratchBlocks found = FindScratchBlocks(parts, task, inner);
  Packing packing = PackBlocks(found.blocks, alignment);
  ChainScratch out;
  out.bytes = packing.bytes;
  for (auto [buffer, block] : found.block_of) {
    out.offsets[buffer] = packing.offsets[block];
  }
  for (int block : found.workspace) {
    out.workspaces.push_back(block < 0 ? 0 : packing.offsets[block]);
  }
  return out;
}

}  // namespace weft
