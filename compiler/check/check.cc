#include "compiler/check/check.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/check/greedy_run.h"
#include "compiler/check/happens_before.h"
#include "compiler/check/liveness.h"
#include "compiler/check/memory_proof.h"
#include "compiler/check/port_events.h"
#include "core/actor/kinds.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/plan/actor_spec.h"
#include "core/plan/plan.h"

namespace weft::check {

namespace {

using plan::Operand;
using plan::PlanView;
using plan::Use;

template <typename... Args>
absl::Status Refuted(const Args&... args) {
  return MakeError(ErrorCode::kPlanRefuted, absl::StrCat(args...));
}

uint32_t TimesAPeriod(const plan::Task& task, const plan::Pattern& pattern,
                      uint8_t bit) {
  return Events(pattern.acts(), bit).Count(task.acts_per_period());
}

// What register `r` gives in a period is what each reader takes.
absl::Status ProveRate(const PlanView& view, uint32_t r) {
  const Use owner = view.producer(r);
  const plan::Task& task = view.task(owner.task);
  const uint32_t gives =
      TimesAPeriod(task, task.outputs(owner.port).pattern(), actor::kGive);
  if (gives == 0) {
    return Refuted(view.TaskName(owner.task), " never gives ",
                   view.RegisterName(r));
  }
  for (Use reader : view.readers(r)) {
    const plan::Task& to = view.task(reader.task);
    const uint32_t takes =
        TimesAPeriod(to, to.inputs(reader.port).pattern(), actor::kTake);
    if (gives == takes) continue;
    return Refuted("rates differ: ", view.TaskName(owner.task), " gives ",
                   view.RegisterName(r), " ", gives, " times a period, ",
                   view.TaskName(reader.task), " takes it ", takes, " times");
  }
  return absl::OkStatus();
}

// An alias is given once for each of its slices in a copy of its parent.
absl::Status ProveAliasRate(const PlanView& view, uint32_t r) {
  const plan::Register& reg = view.reg(r);
  if (reg.alias_of() == 0) return absl::OkStatus();
  const uint32_t parent = reg.alias_of() - 1;
  const Use owner = view.producer(r);
  const plan::Task& task = view.task(owner.task);
  const uint32_t gives =
      TimesAPeriod(task, task.outputs(owner.port).pattern(), actor::kGive);
  const uint32_t slices = reg.copies() / view.reg(parent).copies();
  uint32_t takes = 0;
  for (const plan::InputPort& in : task.inputs()) {
    if (in.register_() == parent) {
      takes = TimesAPeriod(task, in.pattern(), actor::kTake);
    }
  }
  if (gives != takes * slices) {
    return Refuted("rates differ: ", view.TaskName(owner.task), " takes ",
                   view.RegisterName(parent), " ", takes,
                   " times a period, in ", slices, " slices, and gives ",
                   view.RegisterName(r), " ", gives, " times");
  }
  return absl::OkStatus();
}

absl::Status ProveAcks(const PlanView& view, uint32_t r) {
  const plan::Register& reg = view.reg(r);
  if (reg.alias_of() != 0) {
    // Its reader acks for the aliasing task, which does not.
    if (!view.readers(r).empty()) return absl::OkStatus();
    return Refuted(view.RegisterName(r), " is an alias that nobody reads, so ",
                   view.RegisterName(view.root(r)), " is never acked for it");
  }
  if (reg.acks_per_copy() == view.expected_acks(r)) return absl::OkStatus();
  return Refuted(view.RegisterName(r), " waits for ", reg.acks_per_copy(),
                 " acks a copy, its final readers send ",
                 view.expected_acks(r));
}

// Every task is held back by something in each period, or it would run past
// the end of the lease.
absl::Status ProveLeased(const PlanView& view, uint32_t t) {
  const plan::Task& task = view.task(t);
  if (actor::RowOf(static_cast<actor::ActorKind>(task.kind()))
          .may_lack_inputs) {
    return absl::OkStatus();
  }
  for (const plan::InputPort& in : task.inputs()) {
    if (Events(in.pattern().acts(), actor::kTake).At(0)) {
      return absl::OkStatus();
    }
  }
  return Refuted(view.TaskName(t),
                 " takes nothing at the first act of a period, so nothing "
                 "stops it there: it needs an order edge from a source");
}

absl::Status ProveRates(const PlanView& view) {
  for (uint32_t r = 0; r < view.num_registers(); ++r) {
    WEFT_RETURN_IF_ERROR(ProveRate(view, r));
    WEFT_RETURN_IF_ERROR(ProveAliasRate(view, r));
    WEFT_RETURN_IF_ERROR(ProveAcks(view, r));
  }
  for (uint32_t t = 0; t < view.num_tasks(); ++t) {
    WEFT_RETURN_IF_ERROR(ProveLeased(view, t));
  }
  return absl::OkStatus();
}

// A kernel reaches the memory of its own device, and the host's at the operands
// that it looks at there.
absl::Status ProveOperandDevice(const PlanView& view, uint32_t t,
                                const plan::Op& op, const Operand& at,
                                bool on_host) {
  if (at.where() != Operand::INPUT && at.where() != Operand::OUTPUT) {
    return absl::OkStatus();
  }
  const plan::Task& task = view.task(t);
  const uint32_t r = at.where() == Operand::INPUT
                         ? task.inputs(at.index()).register_()
                         : task.outputs(at.index()).register_();
  if (view.reg(r).bytes() == 0) return absl::OkStatus();
  const uint32_t memory = view.memory_device(r);
  const plan::Device& device = view.proto().devices(memory);
  if (memory == view.device_of(t)) return absl::OkStatus();
  if (on_host && (memory == 0 || device.host_mapped())) {
    return absl::OkStatus();
  }
  return Refuted("'", op.node(), "' in ", view.TaskName(t), " on device '",
                 view.proto().devices(view.device_of(t)).name(), "' touches ",
                 view.RegisterName(r), ", which lies on device '",
                 device.name(), "'");
}

absl::Status ProveDevices(const PlanView& view) {
  for (uint32_t t = 0; t < view.num_tasks(); ++t) {
    for (const plan::Op& op : view.task(t).ops()) {
      const plan::Kernel& kernel = view.proto().kernels(op.kernel());
      for (int k = 0; k < op.inputs_size(); ++k) {
        const bool host = k < 32 && (kernel.host_in() >> k & 1);
        WEFT_RETURN_IF_ERROR(
            ProveOperandDevice(view, t, op, op.inputs(k), host));
      }
      for (int k = 0; k < op.outputs_size(); ++k) {
        const bool host = k < 32 && (kernel.host_out() >> k & 1);
        WEFT_RETURN_IF_ERROR(
            ProveOperandDevice(view, t, op, op.outputs(k), host));
      }
    }
  }
  return absl::OkStatus();
}

// What lies in each arena, and how far it reaches.
class ArenaProof {
 public:
  explicit ArenaProof(const PlanView& view)
      : view_(view), peak_(view.proto().arenas_size(), 0) {}

  absl::Status Run() {
    for (uint32_t r = 0; r < view_.num_registers(); ++r) {
      WEFT_RETURN_IF_ERROR(AddRegister(r));
    }
    for (uint32_t t = 0; t < view_.num_tasks(); ++t) {
      WEFT_RETURN_IF_ERROR(AddTask(t));
    }
    for (int a = 0; a < view_.proto().arenas_size(); ++a) {
      const plan::Arena& arena = view_.proto().arenas(a);
      // State is laid out for all programs of a session together.
      if (arena.kind() == plan::Arena::STATE) continue;
      const uint64_t alignment = Alignment(arena);
      const uint64_t padded = (peak_[a] + alignment - 1) & ~(alignment - 1);
      if (arena.bytes() == peak_[a] || arena.bytes() == padded) continue;
      return Refuted("arena ", a, " has ", arena.bytes(),
                     " bytes, its contents need ", peak_[a]);
    }
    return absl::OkStatus();
  }

 private:
  uint64_t Alignment(const plan::Arena& arena) const {
    return view_.proto().devices(arena.device()).alignment();
  }

  absl::Status Aligned(int a, uint64_t offset, const std::string& what) const {
    const uint64_t alignment = Alignment(view_.proto().arenas(a));
    if (offset % alignment == 0) return absl::OkStatus();
    return Refuted(what, " lies at byte ", offset, " of arena ", a,
                   ", whose device wants a multiple of ", alignment);
  }

  absl::Status AddRegister(uint32_t r) {
    const plan::Register& reg = view_.reg(r);
    if (reg.bytes() == 0) return absl::OkStatus();
    const int a = static_cast<int>(view_.reg(view_.root(r)).arena());
    const uint32_t last = reg.copies() - 1;
    for (const plan::TensorDesc& tensor : reg.tensors()) {
      for (uint32_t copy : {0u, last}) {
        WEFT_RETURN_IF_ERROR(Aligned(a, view_.offset(r, copy) + tensor.offset(),
                                     view_.RegisterName(r)));
      }
    }
    if (reg.alias_of() != 0) return absl::OkStatus();
    const plan::Arena& arena = view_.proto().arenas(a);
    const plan::Task::Kind by = view_.task(view_.producer(r).task).kind();
    const bool variable = by == plan::Task::VARIABLE;
    if (arena.kind() == plan::Arena::PEER && by == plan::Task::RECV) {
      return absl::OkStatus();  // its owner's plan has the bytes
    }
    if (arena.kind() !=
            (variable ? plan::Arena::STATE : plan::Arena::ACTIVATIONS) &&
        (variable || arena.kind() != plan::Arena::SHARED)) {
      return Refuted(view_.RegisterName(r), " lies in arena ", a,
                     ", which is not for ",
                     variable ? "variables" : "registers");
    }
    peak_[a] = std::max(peak_[a], reg.offset() + reg.copies() * reg.bytes());
    return absl::OkStatus();
  }

  int FindArena(plan::Arena::Kind kind, uint32_t where) const {
    for (int a = 0; a < view_.proto().arenas_size(); ++a) {
      const plan::Arena& arena = view_.proto().arenas(a);
      if (arena.kind() == kind &&
          (kind == plan::Arena::SCRATCH ? arena.stream() : arena.device()) ==
              where) {
        return a;
      }
    }
    return -1;
  }

  absl::Status AddTask(uint32_t t) {
    const plan::Task& task = view_.task(t);
    const int kept = FindArena(plan::Arena::PRIVATE, view_.device_of(t));
    if (task.private_bytes() != 0) {
      WEFT_RETURN_IF_ERROR(
          Aligned(kept, task.private_offset(), view_.TaskName(t)));
      peak_[kept] =
          std::max(peak_[kept], task.private_offset() + task.private_bytes());
    }
    if (task.kind() == plan::Task::ACCUMULATE) return absl::OkStatus();
    for (const plan::Op& op : task.ops()) {
      const plan::Kernel& kernel = view_.proto().kernels(op.kernel());
      for (int k = 0; k < op.inputs_size(); ++k) {
        WEFT_RETURN_IF_ERROR(
            AddPlace(t, op, op.inputs(k), plan::TensorBytes(kernel.inputs(k))));
      }
      for (int k = 0; k < op.outputs_size(); ++k) {
        WEFT_RETURN_IF_ERROR(AddPlace(t, op, op.outputs(k),
                                      plan::TensorBytes(kernel.outputs(k))));
      }
      WEFT_RETURN_IF_ERROR(
          AddPlace(t, op, op.workspace(), kernel.workspace_bytes()));
    }
    return absl::OkStatus();
  }

  absl::Status AddPlace(uint32_t t, const plan::Op& op, const Operand& at,
                        uint64_t bytes) {
    int a = -1;
    if (at.where() == Operand::SCRATCH) {
      a = FindArena(plan::Arena::SCRATCH, view_.task(t).stream());
      WEFT_RETURN_IF_ERROR(ProveScratchOwner(t, op));
    } else if (at.where() == Operand::PRIVATE) {
      a = FindArena(plan::Arena::PRIVATE, view_.device_of(t));
    }
    if (a < 0 || bytes == 0) return absl::OkStatus();
    WEFT_RETURN_IF_ERROR(Aligned(a, at.offset(),
                                 absl::StrCat("an operand of '", op.node(),
                                              "' in ", view_.TaskName(t))));
    peak_[a] = std::max(peak_[a], at.offset() + bytes);
    return absl::OkStatus();
  }

  // Only the order of a stream keeps its tasks from using scratch together.
  absl::Status ProveScratchOwner(uint32_t t, const plan::Op& op) {
    if (view_.stream_of(t).ordered()) return absl::OkStatus();
    scratch_user_.resize(view_.proto().streams_size(), t);
    uint32_t& user = scratch_user_[view_.task(t).stream()];
    if (view_.task(user).stream() != view_.task(t).stream()) user = t;
    if (user == t) return absl::OkStatus();
    return Refuted("'", op.node(), "' in ", view_.TaskName(t), " and ",
                   view_.TaskName(user), " share scratch on stream '",
                   view_.stream_of(t).name(), "', which has no order");
  }

  const PlanView& view_;
  std::vector<uint64_t> peak_;
  std::vector<uint32_t> scratch_user_;  // by stream without an order
};

}  // namespace

absl::Status CheckPlan(const plan::Plan& plan) {
  if (plan.program().empty() || plan.micro_batches() == 0) {
    return MakeError(ErrorCode::kBadPlan,
                     absl::StrCat("the plan is of program '", plan.program(),
                                  "' with ", plan.micro_batches(),
                                  " micro-batches; it needs a name and at "
                                  "least 1"));
  }
  WEFT_ASSIGN_OR_RETURN(PlanView view, PlanView::Create(&plan));
  WEFT_RETURN_IF_ERROR(ProveRates(view));
  WEFT_ASSIGN_OR_RETURN(actor::TableSpec spec, plan::PlanToActorSpec(view));
  const uint32_t periods = HappensBefore::PeriodsFor(spec);
  WEFT_ASSIGN_OR_RETURN(GreedyRun run, RunGreedily(spec, periods));
  WEFT_RETURN_IF_ERROR(ProveLiveness(view, spec, periods, run));
  WEFT_RETURN_IF_ERROR(ProveDevices(view));
  WEFT_ASSIGN_OR_RETURN(HappensBefore hb,
                        HappensBefore::Create(spec, periods, run));
  WEFT_RETURN_IF_ERROR(ProveAliases(view, hb));
  const LiveRanges live(spec, hb);
  WEFT_RETURN_IF_ERROR(ProveMemory(view, hb, live));
  WEFT_RETURN_IF_ERROR(ProveMapped(view, hb, live));
  return ArenaProof(view).Run();
}

}  // namespace weft::check
