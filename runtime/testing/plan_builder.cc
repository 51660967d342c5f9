#include "runtime/testing/plan_builder.h"

#include <algorithm>

#include "core/plan/plan.h"
#include "runtime/execute/accumulate.h"

namespace weft::runtime::testing {
namespace {

constexpr uint64_t kAlignment = 64;

uint64_t Padded(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

plan::Operand Make(plan::Operand::Where where, uint32_t index) {
  plan::Operand operand;
  operand.set_where(where);
  operand.set_index(index);
  return operand;
}

}  // namespace

plan::Operand In(uint32_t port) { return Make(plan::Operand::INPUT, port); }
plan::Operand Out(uint32_t port) { return Make(plan::Operand::OUTPUT, port); }
plan::Operand Const(uint32_t constant) {
  return Make(plan::Operand::CONSTANT, constant);
}

PlanBuilder::PlanBuilder(const std::string& program) {
  plan_.set_program(program);
  plan_.set_graph("test");
  plan_.set_micro_batches(1);
}

uint32_t PlanBuilder::AddDevice(const std::string& name, bool is_inline) {
  plan::Device* device = plan_.add_devices();
  device->set_name(name);
  device->set_kind(name.substr(0, name.find(':')));
  device->set_inline_(is_inline);
  device->set_host_mapped(is_inline);
  device->set_alignment(kAlignment);
  return static_cast<uint32_t>(plan_.devices_size() - 1);
}

uint32_t PlanBuilder::AddStream(const std::string& name, uint32_t device,
                                uint32_t worker, bool ordered) {
  plan::Stream* stream = plan_.add_streams();
  stream->set_name(name);
  stream->set_device(device);
  stream->set_worker(worker);
  stream->set_ordered(ordered);
  plan_.set_workers(std::max(plan_.workers(), worker + 1));
  return static_cast<uint32_t>(plan_.streams_size() - 1);
}

uint32_t PlanBuilder::ArenaOf(uint32_t device, plan::Arena::Kind kind) {
  auto [at, added] =
      arenas_.emplace(std::make_pair(device, int{kind}), plan_.arenas_size());
  if (added) {
    plan::Arena* arena = plan_.add_arenas();
    arena->set_device(device);
    arena->set_kind(kind);
  }
  return at->second;
}

void PlanBuilder::Place(plan::Register* reg, uint32_t arena) {
  plan::Arena* a = plan_.mutable_arenas(static_cast<int>(arena));
  reg->set_arena(arena);
  reg->set_offset(a->bytes());
  a->set_bytes(a->bytes() + reg->bytes() * reg->copies());
}

uint32_t PlanBuilder::AddRegister(const std::string& name, uint32_t device,
                                  const std::vector<int64_t>& dims,
                                  uint32_t copies, DType dtype) {
  plan::Register* reg = plan_.add_registers();
  reg->set_copies(copies);
  plan::TensorDesc* tensor = reg->add_tensors();
  tensor->set_dtype(static_cast<uint32_t>(dtype));
  for (int64_t dim : dims) tensor->add_dims(dim);
  tensor->set_value(name);
  reg->set_bytes(Padded(plan::TensorBytes(*tensor)));
  Place(reg, ArenaOf(device, plan::Arena::ACTIVATIONS));
  return static_cast<uint32_t>(plan_.registers_size() - 1);
}

uint32_t PlanBuilder::AddControl(const std::string& name, uint32_t copies) {
  plan_.add_registers()->set_copies(copies);
  return static_cast<uint32_t>(plan_.registers_size() - 1);
}

std::pair<uint32_t, uint32_t> PlanBuilder::AddState(
    const std::string& name, uint32_t device,
    const std::vector<int64_t>& dims) {
  uint32_t shared = static_cast<uint32_t>(plan_.registers_size());
  plan::Register* reg = plan_.add_registers();
  reg->set_copies(1);
  plan::TensorDesc* tensor = reg->add_tensors();
  tensor->set_dtype(static_cast<uint32_t>(DType::kF32));
  for (int64_t dim : dims) tensor->add_dims(dim);
  tensor->set_value(name);
  reg->set_bytes(Padded(plan::TensorBytes(*tensor)));
  reg->set_state(name);
  Place(reg, ArenaOf(device, plan::Arena::STATE));
  plan::Register exclusive = *reg;
  exclusive.set_overlay_of(shared + 1);
  *plan_.add_registers() = exclusive;
  return {shared, shared + 1};
}

uint32_t PlanBuilder::AddSlices(const std::string& name, uint32_t of,
                                uint32_t slices) {
  const plan::Register root = plan_.registers(static_cast<int>(of));
  plan::Register* reg = plan_.add_registers();
  reg->set_copies(root.copies() * slices);
  plan::TensorDesc* tensor = reg->add_tensors();
  *tensor = root.tensors(0);
  tensor->set_dims(0, tensor->dims(0) / slices);
  tensor->set_value(name);
  reg->set_bytes(plan::TensorBytes(*tensor));
  reg->set_alias_of(of + 1);
  reg->set_alias_stride(plan::TensorBytes(*tensor));
  return static_cast<uint32_t>(plan_.registers_size() - 1);
}

uint32_t PlanBuilder::AddConstant(uint32_t device,
                                  const std::vector<float>& values) {
  plan::Constant* constant = plan_.add_constants();
  constant->set_dtype(static_cast<uint32_t>(DType::kF32));
  constant->add_dims(static_cast<int64_t>(values.size()));
  constant->set_data(values.data(), values.size() * sizeof(float));
  constant->set_device(device);
  return static_cast<uint32_t>(plan_.constants_size() - 1);
}

uint32_t PlanBuilder::AddTask(plan::Task::Kind kind, const std::string& name,
                              uint32_t stream, uint32_t acts,
                              const std::string& binding) {
  plan::Task* task = plan_.add_tasks();
  task->set_kind(kind);
  task->set_name(name);
  task->set_stream(stream);
  task->set_acts_per_period(acts);
  task->set_binding(binding);
  return static_cast<uint32_t>(plan_.tasks_size() - 1);
}

PlanBuilder& PlanBuilder::Input(uint32_t task, uint32_t reg,
                                const std::string& pattern, bool aliased) {
  plan::InputPort* port =
      plan_.mutable_tasks(static_cast<int>(task))->add_inputs();
  port->set_register_(reg);
  port->mutable_pattern()->set_acts(pattern);
  port->set_aliased(aliased);
  return *this;
}

PlanBuilder& PlanBuilder::Output(uint32_t task, uint32_t reg,
                                 const std::string& pattern) {
  plan::OutputPort* port =
      plan_.mutable_tasks(static_cast<int>(task))->add_outputs();
  port->set_register_(reg);
  port->mutable_pattern()->set_acts(pattern);
  return *this;
}

plan::TensorDesc PlanBuilder::TensorOf(uint32_t task,
                                       const plan::Operand& operand) const {
  const plan::Task& t = plan_.tasks(static_cast<int>(task));
  plan::TensorDesc result;
  const int index = static_cast<int>(operand.index());
  if (operand.where() == plan::Operand::CONSTANT) {
    result.set_dtype(plan_.constants(index).dtype());
    *result.mutable_dims() = plan_.constants(index).dims();
    return result;
  }
  uint32_t reg = operand.where() == plan::Operand::INPUT
                     ? t.inputs(index).register_()
                     : t.outputs(index).register_();
  result = plan_.registers(static_cast<int>(reg)).tensors(0);
  result.set_offset(0);
  result.clear_value();
  return result;
}

PlanBuilder& PlanBuilder::Launch(uint32_t task, uint32_t op,
                                 const std::vector<plan::Operand>& inputs,
                                 const std::vector<plan::Operand>& outputs) {
  plan::Task* t = plan_.mutable_tasks(static_cast<int>(task));
  plan::Kernel* kernel = plan_.add_kernels();
  kernel->set_op(op);
  kernel->set_device(plan_.streams(static_cast<int>(t->stream())).device());
  plan::Op* o = t->add_ops();
  o->set_kernel(static_cast<uint32_t>(plan_.kernels_size() - 1));
  o->set_node(t->name());
  for (const plan::Operand& operand : inputs) {
    *kernel->add_inputs() = TensorOf(task, operand);
    *o->add_inputs() = operand;
  }
  for (const plan::Operand& operand : outputs) {
    *kernel->add_outputs() = TensorOf(task, operand);
    *o->add_outputs() = operand;
  }
  return *this;
}

PlanBuilder& PlanBuilder::Order(uint32_t stream,
                                const std::vector<uint32_t>& tasks) {
  for (uint32_t t : tasks) {
    plan_.mutable_streams(static_cast<int>(stream))->add_order(t);
  }
  return *this;
}

plan::Plan PlanBuilder::Build() {
  std::vector<uint32_t> acks(static_cast<size_t>(plan_.registers_size()), 0);
  for (const plan::Task& task : plan_.tasks()) {
    for (const plan::InputPort& port : task.inputs()) {
      if (port.aliased()) continue;
      uint32_t reg = port.register_();
      uint32_t slices = 1;
      while (plan_.registers(static_cast<int>(reg)).alias_of() != 0) {
        uint32_t root = plan_.registers(static_cast<int>(reg)).alias_of() - 1;
        slices *= plan_.registers(static_cast<int>(reg)).copies() /
                  plan_.registers(static_cast<int>(root)).copies();
        reg = root;
      }
      acks[reg] += slices;
    }
  }
  for (int r = 0; r < plan_.registers_size(); ++r) {
    plan_.mutable_registers(r)->set_acks_per_copy(acks[static_cast<size_t>(r)]);
  }
  for (plan::Task& task : *plan_.mutable_tasks()) {
    if (task.kind() != plan::Task::ACCUMULATE) continue;
    const plan::Register& in =
        plan_.registers(static_cast<int>(task.inputs(0).register_()));
    plan::Arena* arena = plan_.mutable_arenas(static_cast<int>(
        ArenaOf(plan_.streams(static_cast<int>(task.stream())).device(),
                plan::Arena::PRIVATE)));
    task.set_private_offset(arena->bytes());
    task.set_private_bytes(NumAccumulators(task.acts_per_period()) *
                           Padded(plan::TensorBytes(in.tensors(0))));
    arena->set_bytes(arena->bytes() + task.private_bytes());
  }
  return plan_;
}

}  // namespace weft::runtime::testing
