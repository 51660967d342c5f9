#include "core/plan/job.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/plan/ends.h"
#include "core/plan/plan.h"

namespace weft::plan {
namespace {

std::string DescribePipeline(const Plan& plan) {
  if (!plan.has_pipeline()) return "no pipeline";
  return absl::StrCat("the pipeline ", plan.pipeline().schedule(), " of ",
                      plan.pipeline().stages(), " stages, ",
                      plan.micro_batches(), " micro-batches");
}

// The tasks at the ends of one channel, in the joined plan.
struct Ends {
  const Channel* sender = nullptr;
  const Channel* receiver = nullptr;
  int send = -1, post = -1, recv = -1;
  bool complete() const { return send >= 0 && post >= 0 && recv >= 0; }
};

// Receiver, sender, id.
using Key = std::tuple<uint32_t, uint32_t, uint64_t>;

class Joiner {
 public:
  absl::Status Add(const Plan& plan) {
    WEFT_RETURN_IF_ERROR(Validate(plan));
    const std::string prefix = absl::StrCat("rank ", plan.rank(), "/");
    const int devices = out_.devices_size(), streams = out_.streams_size();
    const int tasks = out_.tasks_size(), workers = out_.workers();
    AddMemory(plan, prefix);
    for (Device device : plan.devices()) {
      device.set_name(prefix + device.name());
      *out_.add_devices() = std::move(device);
    }
    for (Stream stream : plan.streams()) {
      stream.set_name(prefix + stream.name());
      stream.set_device(stream.device() + devices);
      stream.set_worker(stream.worker() + workers);
      for (uint32_t& t : *stream.mutable_order()) t += tasks;
      *out_.add_streams() = std::move(stream);
    }
    for (Kernel kernel : plan.kernels()) {
      kernel.set_device(kernel.device() + devices);
      *out_.add_kernels() = std::move(kernel);
    }
    for (Constant constant : plan.constants()) {
      constant.set_device(constant.device() + devices);
      *out_.add_constants() = std::move(constant);
    }
    for (const Task& task : plan.tasks()) AddTask(plan, task, prefix, streams);
    out_.set_workers(workers + plan.workers());
    registers_ = out_.registers_size();
    kernels_ = out_.kernels_size();
    constants_ = out_.constants_size();
    return absl::OkStatus();
  }

  absl::StatusOr<Plan> Finish(const Plan& first) {
    out_.set_program(first.program());
    out_.set_graph(first.graph());
    out_.set_micro_batches(first.micro_batches());
    if (first.has_pipeline()) *out_.mutable_pipeline() = first.pipeline();
    for (const auto& [key, ends] : ends_) {
      WEFT_RETURN_IF_ERROR(CheckEnds(key, ends));
      Link(ends.post, ends.send, *ends.receiver);
      if (ends.sender->read() != 0) LinkMapped(ends.send, ends.recv);
      Link(ends.send, ends.recv, *ends.receiver);
    }
    return std::move(out_);
  }

 private:
  void AddMemory(const Plan& plan, const std::string& prefix) {
    const int arenas = out_.arenas_size();
    for (Arena arena : plan.arenas()) {
      arena.set_device(arena.device() + out_.devices_size());
      if (arena.kind() == Arena::SCRATCH) {
        arena.set_stream(arena.stream() + out_.streams_size());
      }
      *out_.add_arenas() = std::move(arena);
    }
    for (Register reg : plan.registers()) {
      reg.set_arena(reg.arena() + arenas);
      if (reg.alias_of() != 0) reg.set_alias_of(reg.alias_of() + registers_);
      if (reg.overlay_of() != 0) {
        reg.set_overlay_of(reg.overlay_of() + registers_);
      }
      if (!reg.state().empty()) reg.set_state(prefix + reg.state());
      for (TensorDesc& tensor : *reg.mutable_tensors()) {
        if (!tensor.value().empty()) tensor.set_value(prefix + tensor.value());
      }
      *out_.add_registers() = std::move(reg);
    }
  }

  void AddTask(const Plan& plan, Task task, const std::string& prefix,
               int streams) {
    if (task.channel() != 0) {
      AddEnd(plan.rank(), plan.channels(static_cast<int>(task.channel()) - 1),
             task.kind());
      task.clear_channel();
    }
    task.set_name(prefix + task.name());
    task.set_stream(task.stream() + streams);
    for (InputPort& in : *task.mutable_inputs()) {
      in.set_register_(in.register_() + registers_);
    }
    for (OutputPort& out : *task.mutable_outputs()) {
      out.set_register_(out.register_() + registers_);
    }
    for (Op& op : *task.mutable_ops()) {
      op.set_kernel(op.kernel() + kernels_);
      for (Operand& in : *op.mutable_inputs()) Shift(&in);
      for (Operand& out : *op.mutable_outputs()) Shift(&out);
    }
    *out_.add_tasks() = std::move(task);
  }

  void Shift(Operand* operand) const {
    if (operand->where() != Operand::CONSTANT) return;
    operand->set_index(operand->index() + constants_);
  }

  void AddEnd(uint32_t rank, const Channel& channel, Task::Kind kind) {
    const bool receives = channel.receives();
    Ends& ends = ends_[{receives ? rank : channel.peer(),
                        receives ? channel.peer() : rank, channel.id()}];
    (receives ? ends.receiver : ends.sender) = &channel;
    const int task = out_.tasks_size();
    if (kind == Task::SEND) ends.send = task;
    if (kind == Task::POST) ends.post = task;
    if (kind == Task::RECV) ends.recv = task;
  }

  absl::Status CheckEnds(const Key& key, const Ends& ends) const {
    const ChannelEnds mine = {ends.sender, ends.receiver};
    if (ends.complete() && Alike(mine)) return absl::OkStatus();
    const auto [to, from, id] = key;
    std::vector<ChannelEnds> of_pair;
    for (const auto& [other, its] : ends_) {
      if (std::get<0>(other) != to || std::get<1>(other) != from) continue;
      of_pair.push_back({its.sender, its.receiver});
    }
    return EndsDiffer(from, to, mine, of_pair);
  }

  // What RECV gives is what SEND offers.
  void LinkMapped(int send, int recv) {
    const uint32_t offered = out_.tasks(send).inputs(0).register_();
    for (const OutputPort& given : out_.tasks(recv).outputs()) {
      Register* reg =
          out_.mutable_registers(static_cast<int>(given.register_()));
      if (reg->bytes() != 0) reg->set_peer_of(offered + 1);
    }
  }

  void Link(int from, int to, const Channel& channel) {
    Register* reg = out_.add_registers();
    reg->set_copies(channel.copies());
    reg->set_acks_per_copy(1);
    const auto r = static_cast<uint32_t>(out_.registers_size() - 1);
    out_.mutable_tasks(from)->add_outputs()->set_register_(r);
    out_.mutable_tasks(to)->add_inputs()->set_register_(r);
  }

  Plan out_;
  std::map<Key, Ends> ends_;
  // Of the ranks before.
  uint32_t registers_ = 0, kernels_ = 0, constants_ = 0;
};

}  // namespace

absl::StatusOr<Plan> JoinRanks(absl::Span<const Plan* const> plans) {
  Joiner joiner;
  for (size_t r = 0; r < plans.size(); ++r) {
    const Plan& plan = *plans[r];
    if (plan.rank() != r || std::max(plan.ranks(), 1u) != plans.size()) {
      return MakeError(
          ErrorCode::kBadPlan,
          absl::StrCat("the plan of rank ", plan.rank(), " of ", plan.ranks(),
                       " is given as that of rank ", r, " of ", plans.size()));
    }
    if (DescribePipeline(plan) != DescribePipeline(*plans[0])) {
      return MakeError(
          ErrorCode::kPlansDiffer,
          absl::StrCat("rank 0 plans for ", DescribePipeline(*plans[0]),
                       ", rank ", r, " for ", DescribePipeline(plan)));
    }
    WEFT_RETURN_IF_ERROR(joiner.Add(plan));
  }
  if (plans.empty()) return MakeError(ErrorCode::kBadPlan, "a job of no ranks");
  return joiner.Finish(*plans[0]);
}

}  // namespace weft::plan
