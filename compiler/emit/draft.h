// EmitDraft: a plan while it is emitted, with what its parts must know of one
// another: which register and tensor a buffer became, which port reads it. The
// functions of ops.h fill in kernels once all ports are there.
//
// Threading: thread-compatible. Ownership: borrows the arguments of EmitPlan.
#ifndef WEFT_COMPILER_EMIT_DRAFT_H_
#define WEFT_COMPILER_EMIT_DRAFT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/emit/emit.h"
#include "compiler/order/order.h"
#include "compiler/partition/partition.h"

namespace weft {

struct EmitDraft {
  const Partition& parts;
  const Schedule& schedule;
  const StateLayout& state;
  const EmitOptions& options;
  plan::Plan plan;

  // By buffer: it lives in one chain only, in scratch.
  std::vector<bool> inner;
  std::map<int, std::pair<int, int>> place;  // buffer -> register, tensor
  std::map<int, int> output_port;            // by register
  std::map<std::pair<size_t, int>, int> input_port;  // (task, register)
  std::map<std::tuple<uint32_t, int, uint32_t>, uint32_t> arenas;

  uint64_t Alignment(uint32_t device) const;
  uint32_t DeviceOf(const TaskDraft& task) const {
    return parts.streams[task.stream].device;
  }
  const Work& First(const TaskDraft& task) const {
    return parts.works[task.works[0]];
  }
  plan::Task* TaskAt(size_t t) {
    return plan.mutable_tasks(static_cast<int>(t));
  }

  // The arena of this kind, made where it is new.
  uint32_t ArenaOf(uint32_t device, plan::Arena::Kind kind,
                   uint32_t stream = 0);
  // The place of bytes that one task keeps for itself.
  uint64_t TakePrivate(uint32_t device, uint64_t bytes);
};

}  // namespace weft

#endif  // WEFT_COMPILER_EMIT_DRAFT_H_
