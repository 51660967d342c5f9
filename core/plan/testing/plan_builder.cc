#include "core/plan/testing/plan_builder.h"

#include <algorithm>
#include <cstdlib>

#include "core/actor/spec.h"
#include "core/ops/schema.h"
#include "core/types/dtype.h"
#include "gtest/gtest.h"

namespace weft::plan {

namespace {

constexpr uint32_t kAlignment = 64;

void AddTensor(Register* reg, const std::string& name, uint64_t bytes) {
  TensorDesc* tensor = reg->add_tensors();
  tensor->set_dtype(static_cast<uint32_t>(DType::kF32));
  tensor->add_dims(static_cast<int64_t>(bytes / 4));
  tensor->set_value(name);
}

}  // namespace

PlanBuilder::PlanBuilder() {
  plan_.set_program("train");
  plan_.set_graph("test");
  plan_.set_micro_batches(1);
  plan_.set_workers(1);
  Device("cpu:0");
}

uint32_t PlanBuilder::Device(const std::string& name) {
  weft::plan::Device* device = plan_.add_devices();
  device->set_name(name);
  device->set_kind(name.substr(0, name.find(':')));
  device->set_inline_(true);
  device->set_host_mapped(plan_.devices_size() == 1);
  device->set_alignment(kAlignment);
  const auto d = static_cast<uint32_t>(plan_.devices_size() - 1);
  for (Arena::Kind kind : {Arena::ACTIVATIONS, Arena::STATE}) {
    Arena* arena = plan_.add_arenas();
    arena->set_device(d);
    arena->set_kind(kind);
  }
  return d;
}

uint32_t PlanBuilder::Stream(const std::string& name, bool ordered,
                             uint32_t device, uint32_t worker) {
  weft::plan::Stream* stream = plan_.add_streams();
  stream->set_name(name);
  stream->set_ordered(ordered);
  stream->set_device(device);
  stream->set_worker(worker);
  plan_.set_workers(std::max(plan_.workers(), worker + 1));
  return plan_.streams_size() - 1;
}

uint32_t PlanBuilder::FindStream(const std::string& name) const {
  for (int s = 0; s < plan_.streams_size(); ++s) {
    if (plan_.streams(s).name() == name) return s;
  }
  ADD_FAILURE() << "no stream " << name;
  std::abort();
}

uint32_t PlanBuilder::FindTask(const std::string& name) const {
  for (int t = 0; t < plan_.tasks_size(); ++t) {
    if (plan_.tasks(t).name() == name) return t;
  }
  ADD_FAILURE() << "no task " << name;
  std::abort();
}

uint32_t PlanBuilder::FindRegister(const std::string& name) const {
  for (size_t r = 0; r < register_names_.size(); ++r) {
    if (register_names_[r] == name) return static_cast<uint32_t>(r);
  }
  ADD_FAILURE() << "no register " << name;
  std::abort();
}

uint32_t PlanBuilder::Task(const std::string& name, weft::plan::Task::Kind kind,
                           const std::string& stream, uint32_t acts) {
  weft::plan::Task* task = plan_.add_tasks();
  task->set_name(name);
  task->set_kind(kind);
  task->set_stream(FindStream(stream));
  task->set_acts_per_period(acts);
  if (kind == weft::plan::Task::SOURCE || kind == weft::plan::Task::SINK) {
    task->set_binding(name);
  }
  return plan_.tasks_size() - 1;
}

uint32_t PlanBuilder::Output(const std::string& from,
                             const EdgeOptions& options) {
  const uint32_t t = FindTask(from);
  Register* reg = plan_.add_registers();
  register_names_.push_back(options.reg);
  reg->set_copies(options.copies);
  reg->set_bytes(options.bytes);
  const uint32_t device = plan_.streams(plan_.tasks(t).stream()).device();
  const bool state = plan_.tasks(t).kind() == weft::plan::Task::VARIABLE;
  reg->set_arena(2 * device + (state ? 1 : 0));
  if (options.bytes != 0) AddTensor(reg, options.reg, options.bytes);
  OutputPort* out = plan_.mutable_tasks(t)->add_outputs();
  out->set_register_(plan_.registers_size() - 1);
  out->mutable_pattern()->set_acts(options.give);
  return plan_.registers_size() - 1;
}

uint32_t PlanBuilder::Edge(const std::string& from, const std::string& to,
                           const EdgeOptions& options) {
  const bool known = std::find(register_names_.begin(), register_names_.end(),
                               options.reg) != register_names_.end();
  const uint32_t r = known ? FindRegister(options.reg) : Output(from, options);
  InputPort* in = plan_.mutable_tasks(FindTask(to))->add_inputs();
  in->set_register_(r);
  in->mutable_pattern()->set_acts(options.take);
  return r;
}

uint32_t PlanBuilder::KernelOf(uint64_t bytes, uint32_t device) {
  for (int k = 0; k < plan_.kernels_size(); ++k) {
    if (plan_.kernels(k).device() == device &&
        plan_.kernels(k).inputs(0).dims(0) == static_cast<int64_t>(bytes / 4)) {
      return k;
    }
  }
  Kernel* kernel = plan_.add_kernels();
  kernel->set_device(device);
  kernel->set_op(static_cast<uint32_t>(OpId::kRelu));
  for (TensorDesc* tensor : {kernel->add_inputs(), kernel->add_outputs()}) {
    tensor->set_dtype(static_cast<uint32_t>(DType::kF32));
    tensor->add_dims(static_cast<int64_t>(bytes / 4));
  }
  return plan_.kernels_size() - 1;
}

uint32_t PlanBuilder::InPlace(const std::string& through, const std::string& of,
                              const std::string& alias) {
  const uint32_t t = FindTask(through);
  const uint32_t parent = FindRegister(of);
  weft::plan::Task* task = plan_.mutable_tasks(t);
  InputPort* in = task->add_inputs();
  in->set_register_(parent);
  in->set_aliased(true);
  EdgeOptions options{alias, plan_.registers(parent).bytes(),
                      plan_.registers(parent).copies()};
  const uint32_t r = Output(through, options);
  plan_.mutable_registers(r)->set_alias_of(parent + 1);
  Op* op = task->add_ops();
  op->set_node(through);
  op->set_kernel(
      KernelOf(options.bytes, plan_.streams(task->stream()).device()));
  Operand* from = op->add_inputs();
  from->set_where(Operand::INPUT);
  from->set_index(task->inputs_size() - 1);
  Operand* to = op->add_outputs();
  to->set_where(Operand::OUTPUT);
  to->set_index(task->outputs_size() - 1);
  return r;
}

uint32_t PlanBuilder::Slices(const std::string& through, const std::string& of,
                             const std::string& alias, uint32_t slices) {
  const uint32_t parent = FindRegister(of);
  InputPort* in = plan_.mutable_tasks(FindTask(through))->add_inputs();
  in->set_register_(parent);
  in->set_aliased(true);
  in->mutable_pattern()->set_acts(actor::Held(slices));
  EdgeOptions options{alias, plan_.registers(parent).bytes() / slices,
                      plan_.registers(parent).copies() * slices,
                      actor::Sliced(slices)};
  const uint32_t r = Output(through, options);
  plan_.mutable_registers(r)->set_alias_of(parent + 1);
  plan_.mutable_registers(r)->set_alias_stride(options.bytes);
  return r;
}

uint32_t PlanBuilder::Variable(const std::string& name,
                               const std::string& stream, uint64_t bytes) {
  const uint32_t t = Task(name, weft::plan::Task::VARIABLE, stream, 2);
  const uint32_t shared =
      Output(name, {name + "/shared", bytes, 1, actor::SharedPhase()});
  const uint32_t exclusive =
      Output(name, {name + "/exclusive", bytes, 1, actor::ExclusivePhase()});
  plan_.mutable_registers(shared)->set_state(name);
  plan_.mutable_registers(exclusive)->set_state(name);
  plan_.mutable_registers(exclusive)->set_overlay_of(shared + 1);
  return t;
}

void PlanBuilder::Update(const std::string& to, const std::string& reg) {
  Edge("", to, {reg});
  weft::plan::Task* task = plan_.mutable_tasks(FindTask(to));
  Op* op = task->add_ops();
  op->set_node(to);
  op->set_kernel(KernelOf(plan_.registers(FindRegister(reg)).bytes(),
                          plan_.streams(task->stream()).device()));
  for (Operand* at : {op->add_inputs(), op->add_outputs()}) {
    at->set_where(Operand::INPUT);
    at->set_index(task->inputs_size() - 1);
  }
}

void PlanBuilder::Order(const std::string& stream,
                        const std::vector<std::string>& tasks) {
  weft::plan::Stream* s = plan_.mutable_streams(FindStream(stream));
  s->clear_order();
  for (const std::string& task : tasks) s->add_order(FindTask(task));
}

void PlanBuilder::CountAcks() {
  for (Register& reg : *plan_.mutable_registers()) reg.set_acks_per_copy(0);
  for (const weft::plan::Task& task : plan_.tasks()) {
    for (const InputPort& in : task.inputs()) {
      if (in.aliased()) continue;
      uint32_t root = in.register_();
      while (plan_.registers(root).alias_of() != 0) {
        root = plan_.registers(root).alias_of() - 1;
      }
      Register* reg = plan_.mutable_registers(root);
      reg->set_acks_per_copy(reg->acks_per_copy() +
                             plan_.registers(in.register_()).copies() /
                                 reg->copies());
    }
  }
}

void PlanBuilder::Place() {
  std::vector<uint64_t> end(plan_.arenas_size(), 0);
  for (Register& reg : *plan_.mutable_registers()) {
    if (reg.alias_of() != 0 || reg.bytes() == 0) continue;
    if (reg.overlay_of() != 0) {
      reg.set_offset(plan_.registers(reg.overlay_of() - 1).offset());
      continue;
    }
    reg.set_offset(end[reg.arena()]);
    end[reg.arena()] += reg.bytes() * reg.copies();
  }
}

Plan PlanBuilder::Build() {
  CountAcks();
  Place();
  FitArenas(&plan_);
  for (int s = 0; s < plan_.streams_size(); ++s) {
    weft::plan::Stream* stream = plan_.mutable_streams(s);
    if (!stream->ordered() || stream->order_size() != 0) continue;
    for (int t = 0; t < plan_.tasks_size(); ++t) {
      const weft::plan::Task& task = plan_.tasks(t);
      if (static_cast<int>(task.stream()) != s) continue;
      for (uint32_t k = 0; k < task.acts_per_period(); ++k) {
        stream->add_order(t);
      }
    }
  }
  return plan_;
}

void FitArenas(Plan* plan) {
  std::vector<uint64_t> end(plan->arenas_size(), 0);
  for (const Register& reg : plan->registers()) {
    if (reg.alias_of() != 0 || reg.bytes() == 0) continue;
    end[reg.arena()] = std::max<uint64_t>(
        end[reg.arena()], reg.offset() + reg.bytes() * reg.copies());
  }
  for (int a = 0; a < plan->arenas_size(); ++a) {
    plan->mutable_arenas(a)->set_bytes(end[a]);
  }
}

}  // namespace weft::plan
