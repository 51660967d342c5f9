#include "compiler/emit/emit.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/emit/draft.h"
#include "compiler/emit/ops.h"
#include "compiler/placement/kernel_desc.h"
#include "core/actor/pattern.h"
#include "core/base/align.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/status_macros.h"
#include "core/plan/plan.h"

namespace weft {
namespace {

using Kind = Work::Kind;

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
    case Kind::kSend:
      return plan::Task::SEND;
    case Kind::kPost:
      return plan::Task::POST;
    case Kind::kRecv:
      return plan::Task::RECV;
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
      : d_{parts, schedule, state, options, {}, {}, {}, {}, {}, {}} {}

  absl::StatusOr<plan::Plan> Run() {
    Header();
    FindInner();
    for (size_t t = 0; t < d_.schedule.tasks.size(); ++t) AddTask(t);
    for (size_t t = 0; t < d_.schedule.tasks.size(); ++t) AddOutputs(t);
    for (size_t t = 0; t < d_.schedule.tasks.size(); ++t) AddInputs(t);
    for (size_t w = 0; w < d_.parts.works.size(); ++w) {
      AddControls(static_cast<int>(w));
    }
    for (auto [before, post] : d_.schedule.receives) {
      AddControl(before, post,
                 absl::StrCat("order: posted when it is soon needed, after '",
                              d_.parts.works[before].name, "'"));
    }
    for (auto [read, chain] : d_.schedule.releases) {
      AddControl(read, chain,
                 absl::StrCat("order: uses memory again, after '",
                              d_.parts.works[read].name, "'"));
    }
    for (size_t t = 0; t < d_.schedule.tasks.size(); ++t) EmitOps(&d_, t);
    LinkAliases();
    CountAcks();
    return std::move(d_.plan);
  }

 private:
  void Header() {
    d_.plan.set_program(d_.options.program);
    d_.plan.set_graph(d_.options.graph);
    d_.plan.set_estimate(d_.options.estimate);
    d_.plan.set_micro_batches(d_.parts.micro_batches);
    if (d_.parts.phases > 1) {
      plan::Pipeline* pipeline = d_.plan.mutable_pipeline();
      pipeline->set_schedule(std::string(Name(d_.options.pipeline.schedule)));
      pipeline->set_stages(static_cast<uint32_t>(d_.options.pipeline.stages));
    }
    for (const plan::Device& d : d_.options.devices) *d_.plan.add_devices() = d;
    uint32_t workers = 1;
    for (size_t s = 0; s < d_.parts.streams.size(); ++s) {
      const StreamDraft& draft = d_.parts.streams[s];
      plan::Stream* stream = d_.plan.add_streams();
      stream->set_name(draft.name);
      stream->set_device(draft.device);
      stream->set_worker(draft.worker);
      stream->set_ordered(draft.ordered);
      for (uint32_t t : d_.schedule.orders[s]) stream->add_order(t);
      workers = std::max(workers, draft.worker + 1);
    }
    d_.plan.set_workers(workers);
    for (const plan::Kernel& k : d_.parts.kernels) *d_.plan.add_kernels() = k;
    for (const plan::Constant& c : d_.parts.constants) {
      *d_.plan.add_constants() = c;
    }
    AddChannels();
  }

  // In the order of their ids, which is that of the other end, too.
  void AddChannels() {
    d_.plan.set_rank(d_.options.rank);
    d_.plan.set_ranks(d_.options.ranks);
    std::vector<std::pair<uint64_t, size_t>> order;
    for (size_t c = 0; c < d_.parts.channels.size(); ++c) {
      // Programs of a session are told apart, too.
      order.emplace_back(StableHash(absl::StrCat(d_.options.program, "/",
                                                 d_.parts.channels[c].name())),
                         c);
    }
    std::sort(order.begin(), order.end());
    channel_.resize(order.size());
    for (const auto& [id, c] : order) {
      plan::Channel* channel = d_.plan.add_channels();
      *channel = d_.parts.channels[c];
      channel->set_id(id);
      channel_[c] = static_cast<uint32_t>(d_.plan.channels_size());
    }
    for (plan::Channel& channel : *d_.plan.mutable_channels()) {
      if (channel.read() != 0) channel.set_read(channel_[channel.read() - 1]);
    }
  }

  // ---- Tasks ----

  // Inner buffers live in one chain only: scratch.
  void FindInner() {
    d_.inner.assign(d_.parts.buffers.size(), false);
    alone_.assign(d_.parts.buffers.size(), false);
    for (size_t b = 0; b < d_.parts.buffers.size(); ++b) {
      const Buffer& buffer = d_.parts.buffers[b];
      if (buffer.where != Buffer::Where::kOwn) alone_[b] = true;
      if (buffer.in >= 0) alone_[b] = alone_[buffer.in] = true;
    }
    for (size_t b = 0; b < d_.parts.buffers.size(); ++b) {
      const Buffer& buffer = d_.parts.buffers[b];
      const Work& producer = d_.parts.works[buffer.producer];
      bool inner = producer.kind == Kind::kCompute && !alone_[b] &&
                   buffer.device == d_.parts.streams[producer.stream].device;
      for (int r : buffer.readers) {
        inner = inner &&
                d_.schedule.task_of[r] == d_.schedule.task_of[buffer.producer];
      }
      d_.inner[b] = inner;
    }
  }

  void AddTask(size_t t) {
    const TaskDraft& draft = d_.schedule.tasks[t];
    const Work& first = d_.First(draft);
    plan::Task* task = d_.plan.add_tasks();
    task->set_kind(TaskKind(first.kind));
    task->set_stream(draft.stream);
    task->set_acts_per_period(draft.acts);
    task->set_binding(first.binding);
    task->set_first(static_cast<uint64_t>(first.first));
    if (first.channel >= 0) task->set_channel(channel_[first.channel]);
    if (d_.parts.phases > 1 && first.section == Section::kMicro) {
      task->set_phase(static_cast<uint32_t>(first.phase) + 1);
    }
    const bool chain = first.kind == Kind::kCompute && draft.works.size() > 1;
    if (!chain) {
      task->set_name(first.state.empty() ? first.name : first.state);
      for (const std::string& line : first.provenance) {
        task->add_provenance(line);
      }
      return;
    }
    task->set_name(absl::StrCat(first.name, "..",
                                d_.parts.works[draft.works.back()].name));
    task->add_provenance(absl::StrCat("order: chain of ", draft.works.size(),
                                      " kernels of one stream and rate"));
    for (int w : draft.works) {
      for (const std::string& line : d_.parts.works[w].provenance) {
        task->add_provenance(
            absl::StrCat("'", d_.parts.works[w].name, "': ", line));
      }
    }
  }

  // ---- Registers ----

  int NewRegister(uint32_t copies, uint32_t device, plan::Arena::Kind kind) {
    plan::Register* reg = d_.plan.add_registers();
    reg->set_copies(copies);
    reg->set_arena(d_.ArenaOf(device, kind));
    return d_.plan.registers_size() - 1;
  }

  void AddOutputPort(size_t task, int reg, std::string pattern) {
    plan::OutputPort* out = d_.TaskAt(task)->add_outputs();
    out->set_register_(reg);
    out->mutable_pattern()->set_acts(std::move(pattern));
    d_.output_port[reg] = d_.TaskAt(task)->outputs_size() - 1;
  }

  void AddOutputs(size_t t) {
    const TaskDraft& draft = d_.schedule.tasks[t];
    // What a chain gives to the same kernels goes into one register.
    std::map<std::pair<uint32_t, std::vector<int>>, int> groups;
    for (int w : draft.works) {
      const Work& work = d_.parts.works[w];
      for (int b : work.results) {
        if (b < 0 || d_.inner[b]) continue;
        const Buffer& buffer = d_.parts.buffers[b];
        // Nobody wants what comes: it is only waited for.
        if (work.kind == Kind::kRecv && buffer.readers.empty()) continue;
        int reg = -1;
        if (work.kind == Kind::kCompute && !alone_[b] &&
            OnlyKernelsRead(buffer)) {
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
      Kind kind = d_.parts.works[r].kind;
      if (kind != Kind::kCompute && kind != Kind::kUpdate) return false;
    }
    return true;
  }

  std::vector<int> ReaderTasks(const Buffer& buffer) const {
    std::vector<int> out;
    for (int r : buffer.readers) out.push_back(d_.schedule.task_of[r]);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  int NewOutput(size_t t, const Work& work, int b) {
    const Buffer& buffer = d_.parts.buffers[b];
    int root = b;
    while (d_.parts.buffers[root].in >= 0) root = d_.parts.buffers[root].in;
    const Buffer::Where where = d_.parts.buffers[root].where;
    const bool phase =
        work.kind == Kind::kShared || work.kind == Kind::kExclusive;
    const plan::Arena::Kind kind =
        phase                             ? plan::Arena::STATE
        : where == Buffer::Where::kShared ? plan::Arena::SHARED
        : where == Buffer::Where::kPeer   ? plan::Arena::PEER
                                          : plan::Arena::ACTIVATIONS;
    int reg = NewRegister(d_.schedule.copies[b], buffer.device, kind);
    if (buffer.lent) d_.plan.mutable_registers(reg)->set_lent(true);
    if (buffer.in >= 0) aliases_.push_back({reg, b});
    std::string pattern;
    if (work.kind == Kind::kAccumulate && work.acts > 1) {
      pattern = actor::GivenLast(work.acts);
    }
    if (phase && d_.schedule.tasks[t].acts == 2) {
      const bool shared = work.kind == Kind::kShared;
      pattern = shared ? actor::SharedPhase() : actor::ExclusivePhase();
      if (!shared) {
        d_.plan.mutable_registers(reg)->set_overlay_of(
            d_.TaskAt(t)->outputs(0).register_() + 1);
      }
    }
    if (phase) {
      const StatePlace* place = d_.state.Find(work.state);
      d_.plan.mutable_registers(reg)->set_offset(place->offset);
      d_.plan.mutable_registers(reg)->set_state(work.state);
    }
    AddOutputPort(t, reg, std::move(pattern));
    return reg;
  }

  void PutTensor(int b, int reg_index) {
    const Buffer& buffer = d_.parts.buffers[b];
    plan::Register* reg = d_.plan.mutable_registers(reg_index);
    const uint64_t alignment = d_.Alignment(buffer.device);
    plan::TensorDesc desc = DescribeTensor(buffer.type, buffer.name);
    desc.set_offset(reg->bytes());
    reg->set_bytes(
        reg->bytes() +
        AlignUp(static_cast<uint64_t>(buffer.type.num_bytes()), alignment));
    d_.place[b] = {reg_index, reg->tensors_size()};
    *reg->add_tensors() = std::move(desc);
  }

  // ---- Inputs ----

  void AddInputPort(size_t task, int reg, int gives) {
    auto [it, inserted] =
        d_.input_port.try_emplace({task, reg}, d_.TaskAt(task)->inputs_size());
    if (!inserted) return;
    plan::InputPort* in = d_.TaskAt(task)->add_inputs();
    in->set_register_(reg);
    const int acts = d_.schedule.tasks[task].acts;
    if (gives < acts) in->mutable_pattern()->set_acts(actor::Held(acts));
  }

  // What lies in another register is given by a task that reads it, and who
  // reads it acks to whose the memory is.
  void LinkAliases() {
    for (const auto& [reg, b] : aliases_) {
      const Buffer& buffer = d_.parts.buffers[b];
      const int parent = d_.place.at(buffer.in).first;
      plan::Register* alias = d_.plan.mutable_registers(reg);
      alias->set_alias_of(parent + 1);
      alias->set_alias_offset(buffer.in_offset);
      const int task = d_.schedule.task_of[buffer.producer];
      const int port = d_.input_port.at({task, parent});
      d_.TaskAt(task)->mutable_inputs(port)->set_aliased(true);
    }
  }

  void AddInputs(size_t t) {
    for (int w : d_.schedule.tasks[t].works) {
      const Work& work = d_.parts.works[w];
      auto read = [&](int b) {
        const int from = d_.parts.buffers[b].producer;
        if (d_.schedule.task_of[from] == static_cast<int>(t)) return;
        const Work& producer = d_.parts.works[from];
        AddInputPort(t, d_.place.at(b).first, GivesOf(producer));
      };
      for (const WorkOperand& o : work.operands) {
        if (o.buffer >= 0) read(o.buffer);
      }
      for (int b : work.paced_by) read(b);
    }
  }

  void AddControls(int w) {
    for (int p : d_.parts.works[w].after) {
      if (!NeedsControlRegister(d_.parts, d_.schedule, p, w)) continue;
      AddControl(
          p, w,
          absl::StrCat("emit: control edge from '", d_.parts.works[p].name,
                       "' to '", d_.parts.works[w].name, "'"));
    }
  }

  void AddControl(int p, int w, const std::string& why) {
    const Work& work = d_.parts.works[w];
    const size_t to = d_.schedule.task_of[w];
    const size_t from = d_.schedule.task_of[p];
    if (!controls_.insert({{from, to}, true}).second) return;
    const Work& before = d_.parts.works[p];
    int reg = NewRegister(
        static_cast<uint32_t>(ControlCopies(d_.schedule, p, w)),
        d_.parts.streams[before.stream].device, plan::Arena::ACTIVATIONS);
    const bool last = before.acts > work.acts;
    AddOutputPort(from, reg,
                  last ? actor::GivenLast(before.acts) : std::string());
    AddInputPort(to, reg, last ? 1 : before.acts);
    d_.TaskAt(to)->add_provenance(why);
  }

  void CountAcks() {
    for (const plan::Task& task : d_.plan.tasks()) {
      for (const plan::InputPort& in : task.inputs()) {
        if (in.aliased()) continue;
        plan::Register* reg = d_.plan.mutable_registers(in.register_());
        while (reg->alias_of() != 0) {
          reg = d_.plan.mutable_registers(reg->alias_of() - 1);
        }
        reg->set_acks_per_copy(reg->acks_per_copy() + 1);
      }
    }
  }

  EmitDraft d_;
  std::map<std::pair<size_t, size_t>, bool> controls_;
  std::vector<bool> alone_;  // by buffer: in a register of its own
  // Registers that lie in others, and their buffers.
  std::vector<std::pair<int, int>> aliases_;
  std::vector<uint32_t> channel_;  // by draft: 1 + index in the plan
};

}  // namespace

absl::StatusOr<plan::Plan> EmitPlan(const Partition& parts,
                                    const Schedule& schedule,
                                    const StateLayout& state,
                                    const EmitOptions& options) {
  return Emitter(parts, schedule, state, options).Run();
}

}  // namespace weft
