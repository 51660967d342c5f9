#include "runtime/session/program.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/actor/actor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/plan/actor_spec.h"
#include "runtime/execute/op_desc.h"

namespace weft::runtime {

absl::StatusOr<Stream*> StreamPool::Get(Device* device, uint32_t worker,
                                        uint32_t n, uint64_t token) {
  std::unique_ptr<Stream>& stream = streams_[{device, worker, n}];
  if (stream == nullptr) {
    WEFT_ASSIGN_OR_RETURN(stream, device->OpenStream(/*priority=*/0, token));
  }
  return stream.get();
}

absl::StatusOr<std::unique_ptr<Program>> Program::Load(plan::Plan plan,
                                                       const Bindings& bindings,
                                                       uint32_t first_index,
                                                       SessionMemory* memory,
                                                       bool* reserved) {
  std::unique_ptr<Program> program(new Program());
  program->plan_ = std::make_unique<plan::Plan>(std::move(plan));
  program->bindings_ = bindings;
  program->first_index_ = first_index;
  WEFT_ASSIGN_OR_RETURN(plan::PlanView view,
                        plan::PlanView::Create(program->plan_.get()));
  program->view_ = std::make_unique<plan::PlanView>(std::move(view));
  WEFT_ASSIGN_OR_RETURN(program->memory_, memory->Reserve(*program->plan_));
  *reserved = true;
  WEFT_RETURN_IF_ERROR(program->OpenKernels(*program->memory_));
  return program;
}

absl::Status Program::OpenKernels(const ProgramMemory& memory) {
  std::vector<const std::string*> node_of(
      static_cast<size_t>(plan_->kernels_size()), nullptr);
  for (const plan::Task& task : plan_->tasks()) {
    for (const plan::Op& op : task.ops()) {
      if (node_of[op.kernel()] == nullptr) node_of[op.kernel()] = &op.node();
    }
  }
  kernels_.resize(node_of.size());
  for (size_t k = 0; k < node_of.size(); ++k) {
    if (node_of[k] == nullptr) continue;
    const plan::Kernel& kernel = plan_->kernels(static_cast<int>(k));
    WEFT_ASSIGN_OR_RETURN(std::unique_ptr<OpDesc> desc, DescribeKernel(kernel));
    absl::StatusOr<std::unique_ptr<Kernel>> opened =
        memory.device(kernel.device())->OpenKernel(desc->desc());
    if (!opened.ok()) {
      return Annotate(
          opened.status(),
          absl::StrCat("node '", *node_of[k], "' of program '", name(), "'"));
    }
    kernels_[k] = *std::move(opened);
  }
  return absl::OkStatus();
}

bool Program::lends() const {
  for (const plan::Channel& channel : plan_->channels()) {
    if (channel.lands() && channel.receives()) return true;
  }
  return false;
}

std::vector<SharedValue> Program::shared_values() const {
  std::vector<SharedValue> out;
  for (const plan::Task& task : plan_->tasks()) {
    if (task.kind() != plan::Task::SEND) continue;
    const plan::Channel& channel =
        plan_->channels(static_cast<int>(task.channel()) - 1);
    if (channel.read() == 0) continue;
    const uint32_t reg = task.inputs(0).register_();
    const Spot spot = memory_->RegisterSpot(reg, 0);
    out.push_back(
        {channel.peer(), channel.id(), spot.offset, spot.copy_stride});
  }
  return out;
}

absl::Status Program::TakePeerValues(const PeerValues& values) {
  for (const plan::Task& task : plan_->tasks()) {
    if (task.kind() != plan::Task::RECV) continue;
    const plan::Channel& channel =
        plan_->channels(static_cast<int>(task.channel()) - 1);
    if (channel.read() == 0) continue;
    for (const plan::OutputPort& out : task.outputs()) {
      const plan::Register& reg =
          plan_->registers(static_cast<int>(out.register_()));
      if (reg.bytes() == 0) continue;
      const auto at = values.find({channel.peer(), channel.id()});
      const uint64_t bytes = plan::TensorBytes(reg.tensors(0));
      const uint64_t others = reg.copies() - 1;
      const uint64_t alignment = plan_->devices(0).alignment();
      if (at == values.end() || at->second.room < bytes ||
          reinterpret_cast<uintptr_t>(at->second.host) % alignment != 0 ||
          at->second.stride % alignment != 0 ||
          (reg.lent() && !at->second.writable) ||
          (others != 0 &&
           at->second.stride > (at->second.room - bytes) / others)) {
        return MakeError(
            ErrorCode::kTransportFailed,
            absl::StrCat(plan::ChannelName(channel), ": rank ", channel.peer(),
                         at == values.end()
                             ? " does not say where its value lies"
                             : " says that it lies where it cannot be used"));
      }
      memory_->SetPeer(out.register_(), at->second.host, at->second.stride);
    }
  }
  return absl::OkStatus();
}

absl::Status Program::Prepare(const Resources& resources) {
  if (!workers_.empty()) return absl::OkStatus();
  absl::Status made = MakeWorkers(resources);
  if (made.ok()) return made;
  workers_.clear();
  executors_.clear();
  channels_.reset();
  control_box_.reset();
  ports_.clear();
  boxes_.clear();
  return made;
}

absl::Status Program::MakeWorkers(const Resources& resources) {
  const uint32_t count = plan_->workers();
  std::vector<actor::ActorTable> tables;
  control_box_ = std::make_unique<Mailbox<actor::Message>>(uint64_t{count} *
                                                           kControlMessages);
  for (uint32_t w = 0; w < count; ++w) {
    plan::ActorSpecOptions options;
    options.first_index = first_index_;
    options.worker = w;
    options.rank = plan_->rank();
    options.channels = true;
    WEFT_ASSIGN_OR_RETURN(actor::TableSpec spec,
                          plan::PlanToActorSpec(*view_, options));
    WEFT_ASSIGN_OR_RETURN(actor::ActorTable table,
                          actor::ActorTable::Create(spec));
    boxes_.push_back(std::make_unique<Mailbox<actor::Message>>(
        table.queue_bound() + kControlMessages));
    ports_.push_back({boxes_.back().get(), resources.words[w]});
    tables.push_back(std::move(table));
  }
  if (resources.wire != nullptr && plan_->channels_size() != 0) {
    WEFT_ASSIGN_OR_RETURN(
        channels_, resources.wire->AddProgram(*view_, first_index_, ports_));
  }
  // A log keeps what it was told of: once is enough.
  if (resources.trace != nullptr && traces_.empty()) {
    traces_ = resources.trace->AddProgram(*plan_);
  }
  traces_.resize(count, nullptr);
  if (resources.profile != nullptr && profiles_.empty()) {
    profiles_ = resources.profile->AddProgram(*plan_);
  }
  profiles_.resize(count, nullptr);
  for (uint32_t w = 0; w < count; ++w) {
    WEFT_RETURN_IF_ERROR(MakeWorker(w, std::move(tables[w]), resources));
  }
  return absl::OkStatus();
}

absl::Status Program::MakeWorker(uint32_t number, actor::ActorTable table,
                                 const Resources& resources) {
  Executor::Environment environment;
  environment.plan = plan_.get();
  environment.memory = memory_;
  environment.bindings = &bindings_;
  environment.channels = channels_.get();
  for (const auto& kernel : kernels_) {
    environment.kernels.push_back(kernel.get());
  }
  std::map<uint32_t, uint32_t> ordinal;  // by the plan's device
  for (const plan::Stream& stream : plan_->streams()) {
    Stream* opened = nullptr;
    if (stream.worker() == number) {
      WEFT_ASSIGN_OR_RETURN(
          opened, resources.streams->Get(memory_->device(stream.device()),
                                         number, ordinal[stream.device()]++,
                                         resources.tokens[number]));
    }
    environment.streams.push_back(opened);
  }
  std::vector<uint32_t> tasks;
  for (uint32_t i = 0; i < table.size(); ++i) {
    tasks.push_back(table.id(i).index() - first_index_);
  }
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor,
                        Executor::Create(environment, tasks));
  Worker::Config config;
  config.number = number;
  config.view = view_.get();
  config.first_index = first_index_;
  config.executor = executor.get();
  if (number == kWireWorker) {
    config.wire = resources.wire;
    config.channels = channels_.get();
  }
  config.streams = environment.streams;
  config.ports = ports_;
  config.control = {control_box_.get(), resources.control_word};
  config.spin_ns = resources.spin_ns[number];
  config.wake_periods = resources.wake_periods;
  config.drain_ns = resources.drain_ns;
  config.trace = traces_[number];
  config.profile = profiles_[number];
  executors_.push_back(std::move(executor));
  workers_.push_back(std::make_unique<Worker>(config, std::move(table)));
  return absl::OkStatus();
}

}  // namespace weft::runtime
