#include "compiler/emit/ops.h"

#include <algorithm>

#include "compiler/memory/scratch.h"
#include "core/base/align.h"
#include "core/plan/plan.h"

namespace weft {
namespace {

using Kind = Work::Kind;

class OpEmitter {
 public:
  explicit OpEmitter(EmitDraft* draft) : d_(*draft) {}

  void AddOps(size_t t) {
    const TaskDraft& draft = d_.schedule.tasks[t];
    const Work& first = d_.First(draft);
    if (first.kernel < 0) return;
    const uint32_t device = d_.DeviceOf(draft);
    ChainScratch scratch =
        PlaceScratch(d_.parts, draft, d_.inner, d_.Alignment(device));
    plan::Operand at = ScratchPlace(draft, scratch.bytes);
    if (first.kind == Kind::kAccumulate) AddBuffers(t, first);
    for (size_t i = 0; i < draft.works.size(); ++i) {
      const Work& work = d_.parts.works[draft.works[i]];
      plan::Op* op = d_.TaskAt(t)->add_ops();
      op->set_kernel(work.kernel);
      op->set_node(work.name);
      if (d_.parts.kernels[work.kernel].workspace_bytes() > 0) {
        *op->mutable_workspace() = Shifted(at, scratch.workspaces[i]);
      }
      // The tree sum picks its operands itself.
      if (work.kind == Kind::kAccumulate) continue;
      for (const WorkOperand& o : work.operands) {
        *op->add_inputs() = OperandOf(t, o, scratch, at);
      }
      for (size_t r = 0; r < work.results.size(); ++r) {
        WorkOperand result = work.results[r] == Work::kInPlace
                                 ? work.operands[r]
                                 : WorkOperand{work.results[r], -1};
        *op->add_outputs() = OperandOf(t, result, scratch, at);
      }
    }
  }

 private:
  // Where the scratch of a task begins: on ordered streams all tasks use the
  // same bytes, others have their own.
  plan::Operand ScratchPlace(const TaskDraft& draft, uint64_t bytes) {
    plan::Operand at;
    if (bytes == 0) return at;
    const uint32_t device = d_.DeviceOf(draft);
    if (d_.parts.streams[draft.stream].ordered) {
      at.set_where(plan::Operand::SCRATCH);
      plan::Arena* arena = d_.plan.mutable_arenas(static_cast<int>(
          d_.ArenaOf(device, plan::Arena::SCRATCH, draft.stream)));
      arena->set_bytes(std::max(arena->bytes(), bytes));
    } else {
      at.set_where(plan::Operand::PRIVATE);
      at.set_offset(d_.TakePrivate(device, bytes));
    }
    return at;
  }

  static plan::Operand Shifted(plan::Operand at, uint64_t by) {
    at.set_offset(at.offset() + by);
    return at;
  }

  void AddBuffers(size_t t, const Work& work) {
    const uint32_t device = d_.parts.streams[work.stream].device;
    const uint64_t one =
        AlignUp(static_cast<uint64_t>(
                    d_.parts.buffers[work.results[0]].type.num_bytes()),
                d_.Alignment(device));
    const uint64_t levels = plan::NumAccumulators(work.acts);
    d_.TaskAt(t)->set_private_bytes(levels * one);
    d_.TaskAt(t)->set_private_offset(d_.TakePrivate(device, levels * one));
  }

  plan::Operand OperandOf(size_t t, const WorkOperand& o,
                          const ChainScratch& scratch,
                          const plan::Operand& at) const {
    plan::Operand out;
    if (o.constant >= 0) {
      out.set_where(plan::Operand::CONSTANT);
      out.set_index(o.constant);
      return out;
    }
    if (o.buffer < 0) return out;  // absent
    auto offset = scratch.offsets.find(o.buffer);
    if (offset != scratch.offsets.end()) return Shifted(at, offset->second);
    auto [reg, tensor] = d_.place.at(o.buffer);
    out.set_tensor(tensor);
    auto in = d_.input_port.find({t, reg});
    if (in != d_.input_port.end()) {
      out.set_where(plan::Operand::INPUT);
      out.set_index(in->second);
    } else {
      out.set_where(plan::Operand::OUTPUT);
      out.set_index(d_.output_port.at(reg));
    }
    return out;
  }

  EmitDraft& d_;
};

}  // namespace

void EmitOps(EmitDraft* draft, size_t t) { OpEmitter(draft).AddOps(t); }

}  // namespace weft
