#include "compiler/emit/emit.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/memory/scratch.h"
#include "compiler/placement/kernel_desc.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

using Kind = Work::Kind;

// One byte per act; see plan.proto.
constexpr char kNothing = 0;
constexpr char kTake = 1;
constexpr char kAck = 2;
constexpr char kAcquireAndGive = 3;
constexpr char kAllHome = 4;

std::string Held(int acts) {
  std::string pattern(acts, kNothing);
  pattern.front() = kTake;
  pattern.back() = kAck;
  return pattern;
}

std::string AtLast(int acts) {
  std::string pattern(acts, kNothing);
  pattern.back() = kAcquireAndGive;
  return pattern;
}

plan::Task::Kind TaskKind(Kind kind) {
  switch (kind) {
    case Kind::kCompute:
    case Kind::kUpdate:
      return plan::Task::COMPUTE;
    case Kind::kSource:
      return plan::Task::SOURCE;
    case Kind::kSink:
      return plan::Task::SINK;
    case Kind::kShared:
    case Kind::kExclusive:
      return plan::Task::VARIABLE;
    case Kind::kAccumulate:
      return plan::Task::ACCUMULATE;
    case Kind::kCopy:
    case Kind::kWriteBack:
      return plan::Task::COPY;
  }
  return plan::Task::COMPUTE;
}

class Emitter {
 public:
  Emitter(const Partition& parts, const Schedule& schedule,
          const StateLayout& state, const EmitOptions& options)
      : parts_(parts), schedule_(schedule), state_(state), options_(options) {}

  absl::StatusOr<plan::Plan> Run() {
    Header();
    FindInner();
    for (size_t t = 0; t < schedule_.tasks.size(); ++t) AddTask(t);
    for (size_t t = 0; t < schedule_.tasks.size(); ++t) AddOutputs(t);
    for (size_t t = 0; t < schedule_.tasks.size(); ++t) AddInputs(t);
    for (size_t w = 0; w < parts_.works.size(); ++w) {
      AddControl(static_cast<int>(w));
    }
    for (size_t t = 0; t < schedule_.tasks.size(); ++t) AddOps(t);
    CountAcks();
    return std::move(plan_);
  }

 private:
  uint64_t Alignment(uint32_t device) const {
    return std::max<uint64_t>(1, options_.devices[device].alignment());
  }
  uint32_t DeviceOf(const TaskDraft& task) const {
    return parts_.streams[task.stream].device;
  }
  const Work& First(const TaskDraft& task) const {
    return parts_.works[task.works[0]];
  }
  plan::Task* TaskAt(size_t t) {
    return plan_.mutable_tasks(static_cast<int>(t));
  }

  void Header() {
    plan_.set_program(options_.program);
    plan_.set_graph(options_.graph);
    plan_.set_estimate(options_.estimate);
    plan_.set_micro_batches(parts_.micro_batches);
    for (const plan::Device& d : options_.devices) *plan_.add_devices() = d;
    uint32_t workers = 1;
    for (size_t s = 0; s < parts_.streams.size(); ++s) {
      const StreamDraft& draft = parts_.streams[s];
      plan::Stream* stream = plan_.add_streams();
      stream->set_name(draft.name);
      stream->set_device(draft.device);
      stream->set_worker(draft.worker);
      stream->set_ordered(draft.ordered);
      for (uint32_t t : schedule_.orders[s]) stream->add_order(t);
      workers = std::max(workers, draft.worker + 1);
    }
    plan_.set_workers(workers);
    for (const plan::Kernel& k : parts_.kernels) *plan_.add_kernels() = k;
    for (const plan::Constant& c : parts_.constants) {
      *plan_.add_constants() = c;
    }
  }

  // ---- Arenas ----

  uint32_t ArenaOf(uint32_t device, plan::Arena::Kind kind,
                   uint32_t stream = 0) {
    auto [it, inserted] = arenas_.try_emplace(
        {device, kind, stream}, static_cast<uint32_t>(plan_.arenas_size()));
    if (inserted) {
      plan::Arena* arena = plan_.add_arenas();
      arena->set_device(device);
      arena->set_kind(kind);
      arena->set_stream(stream);
      if (kind == plan::Arena::STATE) {
        arena->set_bytes(state_.arena_bytes[device]);
      }
    }
    return it->second;
  }

  // Bytes that one task keeps for itself.
  uint64_t TakePrivate(uint32_t device, uint64_t bytes) {
    plan::Arena* arena = plan_.mutable_arenas(
        static_cast<int>(ArenaOf(device, plan::Arena::PRIVATE)));
    uint64_t offset = arena->bytes();
    arena->set_bytes(offset + AlignUp(bytes, Alignment(device)));
    return offset;
  }

  // ---- Tasks ----

  // Inner buffers live in one chain only: scratch.
  void FindInner() {
    inner_.assign(parts_.buffers.size(), false);
    for (size_t b = 0; b < parts_.buffers.size(); ++b) {
      const Buffer& buffer = parts_.buffers[b];
      const Work& producer = parts_.works[buffer.producer];
      bool inner = producer.kind == Kind::kCompute &&
                   buffer.device == parts_.streams[producer.stream].device;
      for (int r : buffer.readers) {
        inner =
            inner && schedule_.task_of[r] == schedule_.task_of[buffer.producer];
      }
      inner_[b] = inner;
    }
  }

  void AddTask(size_t t) {
    const TaskDraft& draft = schedule_.tasks[t];
    const Work& first = First(draft);
    plan::Task* task = plan_.add_tasks();
    task->set_kind(TaskKind(first.kind));
    task->set_stream(draft.stream);
    task->set_acts_per_period(draft.acts);
    task->set_binding(first.binding);
    const bool chain = first.kind == Kind::kCompute && draft.works.size() > 1;
    if (!chain) {
      task->set_name(first.state.empty() ? first.name : first.state);
      for (const std::string& line : first.provenance) {
        task->add_provenance(line);
      }
      return;
    }
    task->set_name(
        absl::StrCat(first.name, "..", parts_.works[draft.works.back()].name));
    task->add_provenance(absl::StrCat("order: chain of ", draft.works.size(),
                                      " kernels of one stream and rate"));
    for (int w : draft.works) {
      for (const std::string& line : parts_.works[w].provenance) {
        task->add_provenance(
            absl::StrCat("'", parts_.works[w].name, "': ", line));
      }
    }
  }

  // ---- Registers ----

  int NewRegister(uint32_t copies, uint32_t device, plan::Arena::Kind kind) {
    plan::Register* reg = plan_.add_registers();
    reg->set_copies(copies);
    reg->set_arena(ArenaOf(device, kind));
    return plan_.registers_size() - 1;
  }

  void AddOutputPort(size_t task, int reg, std::string pattern) {
    plan::OutputPort* out = TaskAt(task)->add_outputs();
    out->set_register_(reg);
    out->mutable_pattern()->set_acts(std::move(pattern));
    output_port_[reg] = TaskAt(task)->outputs_size() - 1;
  }

  void AddOutputs(size_t t) {
    const TaskDraft& draft = schedule_.tasks[t];
    // What a chain gives to the same kernels goes into one register.
    std::map<std::pair<uint32_t, std::vector<int>>, int> groups;
    for (int w : draft.works) {
      const Work& work = parts_.works[w];
      for (int b : work.results) {
        if (b < 0 || inner_[b]) continue;
        const Buffer& buffer = parts_.buffers[b];
        int reg = -1;
        if (work.kind == Kind::kCompute && OnlyKernelsRead(buffer)) {
          auto key = std::make_pair(buffer.device, ReaderTasks(buffer));
          auto [it, inserted] = groups.try_emplace(key, -1);
          if (inserted) it->second = NewOutput(t, work, b);
          reg = it->second;
        } else {
          reg = NewOutput(t, work, b);
        }
        PutTensor(b, reg);
      }
    }
  }

  bool OnlyKernelsRead(const Buffer& buffer) const {
    for (int r : buffer.readers) {
      Kind kind = parts_.works[r].kind;
      if (kind != Kind::kCompute && kind != Kind::kUpdate) return false;
    }
    return true;
  }

  std::vector<int> ReaderTasks(const Buffer& buffer) const {
    std::vector<int> out;
    for (int r : buffer.readers) out.push_back(schedule_.task_of[r]);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  int NewOutput(size_t t, const Work& work, int b) {
    const Buffer& buffer = parts_.buffers[b];
    const bool phase =
        work.kind == Kind::kShared || work.kind == Kind::kExclusive;
    int reg =
        NewRegister(schedule_.copies[b], buffer.device,
                    phase ? plan::Arena::STATE : plan::Arena::ACTIVATIONS);
    std::string pattern;
    if (work.kind == Kind::kAccumulate && work.acts > 1) {
      pattern = AtLast(work.acts);
    }
    if (phase && schedule_.tasks[t].acts == 2) {
      const bool shared = work.kind == Kind::kShared;
      pattern = {shared ? kAcquireAndGive : kAllHome,
                 shared ? kAllHome : kAcquireAndGive};
      if (!shared) {
        plan_.mutable_registers(reg)->set_overlay_of(
            TaskAt(t)->outputs(0).register_() + 1);
      }
    }
    if (phase) {
      const StatePlace* place = state_.Find(work.state);
      plan_.mutable_registers(reg)->set_offset(place->offset);
      plan_.mutable_registers(reg)->set_state(work.state);
    }
    AddOutputPort(t, reg, std::move(pattern));
    return reg;
  }

  void PutTensor(int b, int reg_index) {
    const Buffer& buffer = parts_.buffers[b];
    plan::Register* reg = plan_.mutable_registers(reg_index);
    const uint64_t alignment = Alignment(buffer.device);
    plan::TensorDesc desc = DescribeTensor(buffer.type, buffer.name);
    desc.set_offset(reg->bytes());
    reg->set_bytes(
        reg->bytes() +
        AlignUp(static_cast<uint64_t>(buffer.type.num_bytes()), alignment));
    place_[b] = {reg_index, reg->tensors_size()};
    *reg->add_tensors() = std::move(desc);
  }

  // ---- Inputs ----

  void AddInputPort(size_t task, int reg, int gives) {
    auto [it, inserted] =
        input_port_.try_emplace({task, reg}, TaskAt(task)->inputs_size());
    if (!inserted) return;
    plan::InputPort* in = TaskAt(task)->add_inputs();
    in->set_register_(reg);
    const int acts = schedule_.tasks[task].acts;
    if (gives < acts) in->mutable_pattern()->set_acts(Held(acts));
    ++acks_[reg];
  }

  void AddInputs(size_t t) {
    for (int w : schedule_.tasks[t].works) {
      const Work& work = parts_.works[w];
      auto read = [&](int b) {
        const int from = parts_.buffers[b].producer;
        if (schedule_.task_of[from] == static_cast<int>(t)) return;
        const Work& producer = parts_.works[from];
        AddInputPort(t, place_.at(b).first, GivesOf(producer));
      };
      for (const WorkOperand& o : work.operands) {
        if (o.buffer >= 0) read(o.buffer);
      }
      for (int b : work.paced_by) read(b);
    }
  }

  void AddControl(int w) {
    const Work& work = parts_.works[w];
    const size_t to = schedule_.task_of[w];
    for (int p : work.after) {
      if (!NeedsControlRegister(parts_, schedule_, p, w)) continue;
      const size_t from = schedule_.task_of[p];
      if (!controls_.insert({{from, to}, true}).second) continue;
      const Work& before = parts_.works[p];
      int reg = NewRegister(1, parts_.streams[before.stream].device,
                            plan::Arena::ACTIVATIONS);
      const bool last = before.acts > work.acts;
      AddOutputPort(from, reg, last ? AtLast(before.acts) : std::string());
      AddInputPort(to, reg, last ? 1 : before.acts);
      TaskAt(to)->add_provenance(absl::StrCat(
          "emit: control edge from '", before.name, "' to '", work.name, "'"));
    }
  }

  void CountAcks() {
    for (const auto& [reg, acks] : acks_) {
      plan_.mutable_registers(reg)->set_acks_per_copy(acks);
    }
  }

  // ---- Kernels ----

  void AddOps(size_t t) {
    const TaskDraft& draft = schedule_.tasks[t];
    const Work& first = First(draft);
    if (first.kernel < 0) return;
    const uint32_t device = DeviceOf(draft);
    ChainScratch scratch =
        PlaceScratch(parts_, draft, inner_, Alignment(device));
    plan::Operand at = ScratchPlace(draft, scratch.bytes);
    if (first.kind == Kind::kAccumulate) AddBuffers(t, first);
    for (size_t i = 0; i < draft.works.size(); ++i) {
      const Work& work = parts_.works[draft.works[i]];
      plan::Op* op = TaskAt(t)->add_ops();
      op->set_kernel(work.kernel);
      op->set_node(work.name);
      if (parts_.kernels[work.kernel].workspace_bytes() > 0) {
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

  // Where the scratch of a task begins: on ordered streams all tasks use the
  // same bytes, others have their own.
  plan::Operand ScratchPlace(const TaskDraft& draft, uint64_t bytes) {
    plan::Operand at;
    if (bytes == 0) return at;
    const uint32_t device = DeviceOf(draft);
    if (parts_.streams[draft.stream].ordered) {
      at.set_where(plan::Operand::SCRATCH);
      plan::Arena* arena = plan_.mutable_arenas(static_cast<int>(
          ArenaOf(device, plan::Arena::SCRATCH, draft.stream)));
      arena->set_bytes(std::max(arena->bytes(), bytes));
    } else {
      at.set_where(plan::Operand::PRIVATE);
      at.set_offset(TakePrivate(device, bytes));
    }
    return at;
  }

  static plan::Operand Shifted(plan::Operand at, uint64_t by) {
    at.set_offset(at.offset() + by);
    return at;
  }

  void AddBuffers(size_t t, const Work& work) {
    const uint32_t device = parts_.streams[work.stream].device;
    const uint64_t one = AlignUp(
        static_cast<uint64_t>(parts_.buffers[work.results[0]].type.num_bytes()),
        Alignment(device));
    uint64_t levels = 1;
    while ((work.acts >> levels) != 0) ++levels;
    TaskAt(t)->set_private_bytes(levels * one);
    TaskAt(t)->set_private_offset(TakePrivate(device, levels * one));
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
    auto [reg, tensor] = place_.at(o.buffer);
    out.set_tensor(tensor);
    auto in = input_port_.find({t, reg});
    if (in != input_port_.end()) {
      out.set_where(plan::Operand::INPUT);
      out.set_index(in->second);
    } else {
      out.set_where(plan::Operand::OUTPUT);
      out.set_index(output_port_.at(reg));
    }
    return out;
  }

  const Partition& parts_;
  const Schedule& schedule_;
  const StateLayout& state_;
  const EmitOptions& options_;
  plan::Plan plan_;
  std::vector<bool> inner_;  // by buffer
  std::map<std::tuple<uint32_t, int, uint32_t>, uint32_t> arenas_;
  std::map<int, std::pair<int, int>> place_;  // buffer -> register, tensor
  std::map<int, int> output_port_;            // by register
  std::map<std::pair<size_t, int>, int> input_port_;  // (task, register)
  std::map<std::pair<size_t, size_t>, bool> controls_;
  std::map<int, uint32_t> acks_;  // by register
};

}  // namespace

absl::StatusOr<plan::Plan> EmitPlan(const Partition& parts,
                                    const Schedule& schedule,
                                    const StateLayout& state,
                                    const EmitOptions& options) {
  return Emitter(parts, schedule, state, options).Run();
}

}  // namespace weft
