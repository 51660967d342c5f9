#include "core/plan/plan.h"

#include "absl/strings/str_cat.h"
#include "core/actor/actor.h"
#include "core/actor/kinds.h"
#include "core/base/status_macros.h"
#include "core/plan/actor_spec.h"
#include "core/plan/validate.h"
#include "core/types/dtype.h"

namespace weft::plan {

uint32_t NumAccumulators(uint32_t acts) {
  uint32_t n = 1;
  while (acts >>= 1) ++n;
  return n;
}

std::string ChannelName(const Channel& channel) {
  return absl::StrCat("channel '", channel.name(), "' ",
                      channel.receives() ? "from" : "to", " rank ",
                      channel.peer());
}

uint64_t CarriedBytes(const Channel& channel) {
  return channel.read() != 0 || channel.lands() ? 0
                                                : TensorBytes(channel.tensor());
}

uint64_t TensorBytes(const TensorDesc& tensor) {
  uint64_t bytes = DTypeSize(static_cast<DType>(tensor.dtype()));
  for (int64_t dim : tensor.dims()) bytes *= static_cast<uint64_t>(dim);
  return bytes;
}

absl::StatusOr<PlanView> PlanView::Create(const Plan* plan,
                                          Placement placement) {
  WEFT_RETURN_IF_ERROR(ValidateForm(*plan, placement));
  PlanView view;
  view.plan_ = plan;
  const uint32_t count = view.num_registers();
  view.producer_.resize(count);
  view.readers_.resize(count);
  view.root_.resize(count);
  view.expected_acks_.assign(count, 0);
  for (uint32_t r = 0; r < count; ++r) {
    uint32_t root = r;
    while (plan->registers(root).alias_of() != 0) {
      root = plan->registers(root).alias_of() - 1;
    }
    view.root_[r] = root;
  }
  for (uint32_t t = 0; t < view.num_tasks(); ++t) {
    const Task& task = plan->tasks(t);
    for (int k = 0; k < task.outputs_size(); ++k) {
      view.producer_[task.outputs(k).register_()] = {t,
                                                     static_cast<uint32_t>(k)};
    }
    for (int k = 0; k < task.inputs_size(); ++k) {
      const InputPort& in = task.inputs(k);
      uint32_t r = in.register_();
      view.readers_[r].push_back({t, static_cast<uint32_t>(k)});
      if (!in.aliased()) view.expected_acks_[view.root_[r]] += view.slices(r);
    }
  }
  // Patterns and orders are what the actors make of them.
  WEFT_ASSIGN_OR_RETURN(actor::TableSpec spec, PlanToActorSpec(view));
  WEFT_RETURN_IF_ERROR(actor::ActorTable::Create(spec).status());
  return view;
}

absl::Status Validate(const Plan& plan, Placement placement) {
  return PlanView::Create(&plan, placement).status();
}

uint64_t PlanView::offset(uint32_t r, uint32_t copy) const {
  uint64_t offset = 0;
  while (reg(r).alias_of() != 0) {
    const Register& me = reg(r);
    const uint32_t parent = me.alias_of() - 1;
    const uint32_t slices = me.copies() / reg(parent).copies();
    offset += me.alias_offset() + (copy % slices) * me.alias_stride();
    copy /= slices;
    r = parent;
  }
  return offset + reg(r).offset() + copy * reg(r).bytes();
}

bool PlanView::writes_input(Use input) const {
  if (task(input.task).kind() == Task::COPY &&
      task(input.task).outputs_size() == 0) {
    return input.port == 1;  // write-back into a variable
  }
  for (const Op& op : task(input.task).ops()) {
    for (const Operand& out : op.outputs()) {
      if (out.where() == Operand::INPUT && out.index() == input.port) {
        return true;
      }
    }
  }
  return false;
}

bool PlanView::writes_output(Use output) const {
  const Task& t = task(output.task);
  if (reg(t.outputs(output.port).register_()).alias_of() == 0) return true;
  if (t.kind() != Task::COMPUTE && t.kind() != Task::RECV) return true;
  for (const Op& op : t.ops()) {
    for (const Operand& out : op.outputs()) {
      if (out.where() == Operand::OUTPUT && out.index() == output.port) {
        return true;
      }
    }
  }
  return false;
}

bool PlanView::reads_on_host(Use input) const {
  const Task& t = task(input.task);
  if (actor::RowOf(static_cast<actor::ActorKind>(t.kind())).host_reader) {
    return true;
  }
  for (const Op& op : t.ops()) {
    const uint32_t mask = plan_->kernels(op.kernel()).host_in();
    for (int k = 0; k < op.inputs_size() && k < 32; ++k) {
      if ((mask >> k & 1) && op.inputs(k).where() == Operand::INPUT &&
          op.inputs(k).index() == input.port) {
        return true;
      }
    }
  }
  return false;
}

std::string PlanView::TaskName(uint32_t t) const {
  return absl::StrCat("'", task(t).name(), "' [task ", t, "]");
}

std::string PlanView::RegisterName(uint32_t r) const {
  if (reg(r).tensors_size() != 0 && !reg(r).tensors(0).value().empty()) {
    return absl::StrCat("'", reg(r).tensors(0).value(), "' [register ", r, "]");
  }
  return absl::StrCat("the ", reg(r).tensors_size() == 0 ? "order" : "result",
                      " of '", task(producer_[r].task).name(), "' [register ",
                      r, "]");
}

}  // namespace weft::plan
