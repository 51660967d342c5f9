// Works out, when a program is loaded, what each act will do.
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/actor/spec.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/plan/plan.h"
#include "runtime/execute/accumulate.h"
#include "runtime/execute/executor.h"

namespace weft::runtime {
namespace {

using plan::TensorBytes;

// Where an operand of a launch lies, and how it depends on the act.
struct Place {
  Spot spot;
  int port = -1;  // -1: does not depend on the act
  bool output = false;
};

}  // namespace

class ExecutorBuilder {
 public:
  ExecutorBuilder(const Executor::Environment& environment, Executor* executor)
      : env_(environment), plan_(*environment.plan), ex_(*executor) {
    ex_.plan_ = environment.plan;
    ex_.memory_ = environment.memory;
    ex_.channels_ = environment.channels;
  }

  static Executor::Work WorkOf(TaskRecord::Mode mode) {
    switch (mode) {
      case TaskRecord::Mode::kNothing:
        return Executor::Work::kNone;
      case TaskRecord::Mode::kSend:
      case TaskRecord::Mode::kPost:
        return Executor::Work::kWire;
      default:
        return Executor::Work::kLong;
    }
  }

  absl::Status AddTask(uint32_t index) {
    const plan::Task& task = plan_.tasks(static_cast<int>(index));
    task_ = &task;
    record_ = TaskRecord{};
    record_.task = index;
    record_.stream = task.stream();
    record_.device_stream = env_.streams[task.stream()];
    device_ = env_.memory->device(
        plan_.streams(static_cast<int>(task.stream())).device());
    absl::Status status = AddByKind();
    if (!status.ok()) {
      return Annotate(status,
                      absl::StrCat("task ", index, " '", task.name(),
                                   "' of program '", plan_.program(), "'"));
    }
    ex_.records_.push_back(record_);
    ex_.work_.push_back(WorkOf(record_.mode));
    return absl::OkStatus();
  }

  // Buffers were numbered so far; now they get addresses.
  void Finish() {
    ex_.buffers_.reset(new weft_buffer[buffers_.size()]);
    for (size_t i = 0; i < buffers_.size(); ++i) ex_.buffers_[i] = buffers_[i];
    weft_buffer* base = ex_.buffers_.get();
    for (size_t i = 0; i < ex_.launches_.size(); ++i) {
      ex_.launches_[i].inputs = base + ranges_[i].inputs;
      ex_.launches_[i].outputs = base + ranges_[i].outputs;
      if (ranges_[i].workspace != kNone) {
        ex_.launches_[i].workspace = base + ranges_[i].workspace;
      }
    }
    for (size_t i = 0; i < ex_.moves_.size(); ++i) {
      ex_.moves_[i].where = base + move_buffers_[i];
    }
    for (const HostSlot& slot : ex_.slots_) {
      ex_.tensors_.push_back(slot.tensor);
    }
  }

 private:
  static constexpr size_t kNone = ~size_t{0};
  struct Range {
    size_t inputs = 0;
    size_t outputs = 0;
    size_t workspace = kNone;
  };

  absl::Status AddByKind() {
    switch (task_->kind()) {
      case plan::Task::COMPUTE:
        return AddCompute();
      case plan::Task::COPY:
        return AddCopyTask();
      case plan::Task::ACCUMULATE:
        return AddAccumulate();
      case plan::Task::SOURCE:
        return AddSource();
      case plan::Task::SINK:
        return AddSink();
      case plan::Task::VARIABLE:
      case plan::Task::RECV:
        return absl::OkStatus();
      case plan::Task::SEND:
      case plan::Task::POST:
        return AddWire();
      default:
        return MakeError(ErrorCode::kBadPlan,
                         "the run-time knows no tasks of this kind");
    }
  }

  absl::StatusOr<Place> PortPlace(bool output, uint32_t port,
                                  uint32_t tensor) const {
    int ports = output ? task_->outputs_size() : task_->inputs_size();
    if (static_cast<int>(port) >= ports) {
      return MakeError(
          ErrorCode::kBadPlan,
          absl::StrCat("no ", output ? "output" : "input", " port ", port));
    }
    uint32_t reg = output ? task_->outputs(static_cast<int>(port)).register_()
                          : task_->inputs(static_cast<int>(port)).register_();
    const plan::Register& r = plan_.registers(static_cast<int>(reg));
    if (static_cast<int>(tensor) >= r.tensors_size()) {
      return MakeError(
          ErrorCode::kBadPlan,
          absl::StrCat("register ", reg, " has no tensor ", tensor));
    }
    Place place;
    place.spot = env_.memory->RegisterSpot(
        reg, r.tensors(static_cast<int>(tensor)).offset());
    place.port = static_cast<int>(port);
    place.output = output;
    return place;
  }

  absl::StatusOr<Place> OperandPlace(const plan::Operand& operand) const {
    Place place;
    switch (operand.where()) {
      case plan::Operand::INPUT:
      case plan::Operand::OUTPUT:
        return PortPlace(operand.where() == plan::Operand::OUTPUT,
                         operand.index(), operand.tensor());
      case plan::Operand::SCRATCH:
        place.spot =
            env_.memory->ScratchSpot(task_->stream(), operand.offset());
        return place;
      case plan::Operand::CONSTANT:
        if (static_cast<int>(operand.index()) >= plan_.constants_size()) {
          return MakeError(ErrorCode::kBadPlan,
                           absl::StrCat("no constant ", operand.index()));
        }
        place.spot = env_.memory->ConstantSpot(operand.index());
        return place;
      case plan::Operand::PRIVATE:
        place.spot = env_.memory->PrivateSpot(
            plan_.streams(static_cast<int>(task_->stream())).device(),
            operand.offset());
        return place;
      default:
        return MakeError(ErrorCode::kBadPlan, "an operand without a place");
    }
  }

  static std::string NameOf(const Block& block) {
    return block.device == nullptr ? "other ranks" : block.device->Name();
  }

  // Appends one operand of the launch being made. `host`: it must be a host
  // pointer; `any`: a host pointer where the device does not own the memory.
  absl::Status AddBuffer(const Place& place, bool host, bool any = false) {
    const Block& block = *place.spot.block;
    if (any && block.device != device_) host = true;
    // Shared with other ranks: the host's, where the host itself computes.
    if (block.device == nullptr && device_->info().host_mapped) host = true;
    if (host && block.host == nullptr && block.bytes != 0) {
      return MakeError(
          ErrorCode::kBadPlan,
          absl::StrCat("the host cannot reach memory of ", NameOf(block)));
    }
    if (!host && block.device != device_) {
      return MakeError(
          ErrorCode::kBadPlan,
          absl::StrCat("an operand lies on ", NameOf(block),
                       " but its kernel runs on ", device_->Name()));
    }
    weft_buffer buffer{};
    if (host) {
      buffer.host = place.spot.HostAt(0);
    } else {
      buffer = place.spot.At(0);
    }
    if (place.port >= 0 && !place.spot.Fixed()) {
      Move move;
      move.spot = place.spot;
      move.port = static_cast<uint16_t>(place.port);
      move.output = place.output;
      move.host = host;
      ex_.moves_.push_back(move);
      move_buffers_.push_back(buffers_.size());
    }
    buffers_.push_back(buffer);
    return absl::OkStatus();
  }

  void BeginLaunch() {
    launch_ = Launch{};
    launch_.first_move = static_cast<uint32_t>(ex_.moves_.size());
    range_ = Range{};
    range_.inputs = buffers_.size();
  }
  void EndLaunch() {
    launch_.num_moves =
        static_cast<uint32_t>(ex_.moves_.size()) - launch_.first_move;
    ex_.launches_.push_back(launch_);
    ranges_.push_back(range_);
  }

  absl::Status AddOp(int index) {
    const plan::Op& op = task_->ops(index);
    if (static_cast<int>(op.kernel()) >= plan_.kernels_size() ||
        env_.kernels[op.kernel()] == nullptr) {
      return MakeError(
          ErrorCode::kBadPlan,
          absl::StrCat("node '", op.node(), "': no kernel ", op.kernel()));
    }
    const plan::Kernel& kernel = plan_.kernels(static_cast<int>(op.kernel()));
    if (op.inputs_size() != kernel.inputs_size() ||
        op.outputs_size() != kernel.outputs_size()) {
      return MakeError(
          ErrorCode::kBadPlan,
          absl::StrCat("node '", op.node(), "' has ", op.inputs_size(),
                       " operands and ", op.outputs_size(),
                       " results, its kernel ", kernel.inputs_size(), " and ",
                       kernel.outputs_size()));
    }
    BeginLaunch();
    launch_.kernel = env_.kernels[op.kernel()];
    launch_.op = static_cast<uint32_t>(index);
    WEFT_RETURN_IF_ERROR(AddOperands(op.inputs(), kernel.host_in()));
    range_.outputs = buffers_.size();
    WEFT_RETURN_IF_ERROR(AddOperands(op.outputs(), kernel.host_out()));
    if (op.has_workspace() && op.workspace().where() != plan::Operand::ABSENT) {
      range_.workspace = buffers_.size();
      WEFT_ASSIGN_OR_RETURN(Place place, OperandPlace(op.workspace()));
      WEFT_RETURN_IF_ERROR(AddBuffer(place, /*host=*/false));
    }
    EndLaunch();
    return absl::OkStatus();
  }

  absl::Status AddOperands(
      const google::protobuf::RepeatedPtrField<plan::Operand>& operands,
      uint32_t host_mask) {
    for (int i = 0; i < operands.size(); ++i) {
      if (operands.Get(i).where() == plan::Operand::ABSENT) {
        buffers_.push_back(weft_buffer{});
        continue;
      }
      WEFT_ASSIGN_OR_RETURN(Place place, OperandPlace(operands.Get(i)));
      bool host = i < 32 && (host_mask >> i & 1) != 0;
      WEFT_RETURN_IF_ERROR(AddBuffer(place, host));
    }
    return absl::OkStatus();
  }

  absl::Status AddCompute() {
    record_.first = static_cast<uint32_t>(ex_.launches_.size());
    record_.count = static_cast<uint32_t>(task_->ops_size());
    if (record_.count != 0) record_.mode = TaskRecord::Mode::kLaunch;
    for (int i = 0; i < task_->ops_size(); ++i) WEFT_RETURN_IF_ERROR(AddOp(i));
    return absl::OkStatus();
  }

  absl::Status AddCopy(const Place& from, const Place& to, uint64_t bytes) {
    BeginLaunch();
    launch_.bytes = bytes;
    WEFT_RETURN_IF_ERROR(AddBuffer(from, /*host=*/false, /*any=*/true));
    range_.outputs = buffers_.size();
    WEFT_RETURN_IF_ERROR(AddBuffer(to, /*host=*/false, /*any=*/true));
    EndLaunch();
    return absl::OkStatus();
  }

  // Input 0 to output 0, or to input 1: the memory of a variable.
  absl::Status AddCopyTask() {
    const bool back = task_->outputs_size() == 0;
    if (task_->inputs_size() < (back ? 2 : 1)) {
      return MakeError(ErrorCode::kBadPlan, "a copy of nothing");
    }
    const plan::Register& from =
        plan_.registers(static_cast<int>(task_->inputs(0).register_()));
    const plan::Register& to = plan_.registers(static_cast<int>(
        back ? task_->inputs(1).register_() : task_->outputs(0).register_()));
    if (from.tensors_size() != to.tensors_size()) {
      return MakeError(ErrorCode::kBadPlan,
                       "a copy between registers with other tensors");
    }
    record_.first = static_cast<uint32_t>(ex_.launches_.size());
    for (int t = 0; t < from.tensors_size(); ++t) {
      uint64_t bytes = TensorBytes(from.tensors(t));
      if (bytes != TensorBytes(to.tensors(t))) {
        return MakeError(ErrorCode::kBadPlan,
                         absl::StrCat("a copy of ", bytes, " bytes into ",
                                      TensorBytes(to.tensors(t))));
      }
      if (bytes == 0) continue;
      WEFT_ASSIGN_OR_RETURN(Place source, PortPlace(false, 0, t));
      WEFT_ASSIGN_OR_RETURN(Place target, PortPlace(!back, back ? 1 : 0, t));
      WEFT_RETURN_IF_ERROR(AddCopy(source, target, bytes));
    }
    record_.count = static_cast<uint32_t>(ex_.launches_.size()) - record_.first;
    if (record_.count != 0) record_.mode = TaskRecord::Mode::kLaunch;
    return absl::OkStatus();
  }

  absl::Status AddAddition(const Place& left, const Place& right,
                           const Place& result) {
    BeginLaunch();
    launch_.kernel = env_.kernels[task_->ops(0).kernel()];
    WEFT_RETURN_IF_ERROR(AddBuffer(left, /*host=*/false));
    WEFT_RETURN_IF_ERROR(AddBuffer(right, /*host=*/false));
    range_.outputs = buffers_.size();
    WEFT_RETURN_IF_ERROR(AddBuffer(result, /*host=*/false));
    EndLaunch();
    return absl::OkStatus();
  }

  absl::Status AddAccumulate() {
    const uint32_t acts = task_->acts_per_period();
    if (task_->inputs_size() < 1 || task_->outputs_size() < 1) {
      return MakeError(ErrorCode::kBadPlan,
                       "an accumulation needs an input and an output");
    }
    if (acts > 1 &&
        (task_->ops_size() < 1 ||
         static_cast<int>(task_->ops(0).kernel()) >= plan_.kernels_size() ||
         env_.kernels[task_->ops(0).kernel()] == nullptr)) {
      return MakeError(ErrorCode::kBadPlan, "an accumulation without Add");
    }
    WEFT_ASSIGN_OR_RETURN(Place input, PortPlace(false, 0, 0));
    WEFT_ASSIGN_OR_RETURN(Place output, PortPlace(true, 0, 0));
    const plan::TensorDesc& tensor =
        plan_.registers(static_cast<int>(task_->inputs(0).register_()))
            .tensors(0);
    const uint64_t bytes = TensorBytes(tensor);
    const uint32_t buffers = NumAccumulators(acts);
    const uint64_t stride = task_->private_bytes() / buffers;
    if (acts > 1 && stride < bytes) {
      return MakeError(
          ErrorCode::kBadPlan,
          absl::StrCat(buffers, " accumulators of ", bytes,
                       " bytes do not fit into ", task_->private_bytes()));
    }
    auto place_of = [&](int code) {
      if (code == kAccumulateInput) return input;
      if (code == kAccumulateOutput) return output;
      Place place;
      place.spot = env_.memory->PrivateSpot(
          plan_.streams(static_cast<int>(task_->stream())).device(),
          task_->private_offset() + static_cast<uint64_t>(code) * stride);
      return place;
    };
    record_.mode = TaskRecord::Mode::kPhased;
    record_.first = static_cast<uint32_t>(ex_.phases_.size());
    record_.count = acts;
    for (uint32_t act = 0; act < acts; ++act) {
      Executor::Phase phase;
      phase.first = static_cast<uint32_t>(ex_.launches_.size());
      for (const AccumulateStep& step : AccumulateSteps(act, acts)) {
        absl::Status added =
            step.left == kAccumulateNothing
                ? AddCopy(place_of(step.right), place_of(step.result), bytes)
                : AddAddition(place_of(step.left), place_of(step.right),
                              place_of(step.result));
        WEFT_RETURN_IF_ERROR(added);
      }
      phase.count = static_cast<uint32_t>(ex_.launches_.size()) - phase.first;
      ex_.phases_.push_back(phase);
    }
    return absl::OkStatus();
  }

  absl::Status AddSlots(bool source) {
    if (!device_->info().is_inline) {
      return MakeError(
          ErrorCode::kBadPlan,
          absl::StrCat("sources and sinks act on the host, not on ",
                       device_->Name()));
    }
    record_.first = static_cast<uint32_t>(ex_.slots_.size());
    int ports = source ? task_->outputs_size() : task_->inputs_size();
    for (int p = 0; p < ports; ++p) {
      uint32_t reg =
          source ? task_->outputs(p).register_() : task_->inputs(p).register_();
      const plan::Register& r = plan_.registers(static_cast<int>(reg));
      for (int t = 0; t < r.tensors_size(); ++t) {
        const plan::TensorDesc& tensor = r.tensors(t);
        HostSlot slot;
        slot.spot = env_.memory->RegisterSpot(reg, tensor.offset());
        slot.port = static_cast<uint16_t>(p);
        slot.tensor.dtype = static_cast<DType>(tensor.dtype());
        slot.tensor.dims =
            absl::MakeConstSpan(tensor.dims().data(), tensor.dims().size());
        slot.tensor.bytes = TensorBytes(tensor);
        if (slot.spot.block->host == nullptr && slot.tensor.bytes != 0) {
          return MakeError(ErrorCode::kBadPlan,
                           absl::StrCat("the host cannot reach memory of ",
                                        NameOf(*slot.spot.block)));
        }
        ex_.slots_.push_back(slot);
      }
    }
    record_.count = static_cast<uint32_t>(ex_.slots_.size()) - record_.first;
    return absl::OkStatus();
  }

  absl::Status AddWire() {
    if (env_.channels == nullptr) {
      return MakeError(
          ErrorCode::kBadPlan,
          "it needs other ranks, and this session is connected with none");
    }
    const bool send = task_->kind() == plan::Task::SEND;
    record_.mode = send ? TaskRecord::Mode::kSend : TaskRecord::Mode::kPost;
    record_.channel = task_->channel() - 1;
    // What the other end reads or makes where it lies does not travel.
    if (plan::CarriedBytes(plan_.channels(static_cast<int>(record_.channel))) ==
        0) {
      return absl::OkStatus();
    }
    // The plan has one tensor there, or none.
    return AddSlots(/*source=*/!send);
  }

  absl::Status AddSource() {
    record_.mode = TaskRecord::Mode::kSource;
    WEFT_RETURN_IF_ERROR(AddSlots(/*source=*/true));
    const std::string& name = task_->binding();
    if (name == "counter:micro" || name == "counter:step") {
      record_.counter = true;
      record_.first_micro = task_->first();
      for (uint32_t i = 0; i < record_.count; ++i) {
        const HostTensor& t = ex_.slots_[record_.first + i].tensor;
        if (t.dtype != DType::kI64 || t.bytes != 2 * sizeof(int64_t)) {
          return MakeError(ErrorCode::kBadPlan,
                           "a counter's output must be i64[2]");
        }
      }
      return absl::OkStatus();
    }
    auto at = env_.bindings->sources.find(name);
    if (at == env_.bindings->sources.end() || at->second == nullptr) {
      return MakeError(ErrorCode::kBadPlan,
                       absl::StrCat("nothing is bound to source '", name, "'"));
    }
    record_.reader = at->second;
    return absl::OkStatus();
  }

  absl::Status AddSink() {
    record_.mode = TaskRecord::Mode::kSink;
    WEFT_RETURN_IF_ERROR(AddSlots(/*source=*/false));
    auto at = env_.bindings->sinks.find(task_->binding());
    if (at == env_.bindings->sinks.end() || at->second == nullptr) {
      return MakeError(
          ErrorCode::kBadPlan,
          absl::StrCat("nothing is bound to sink '", task_->binding(), "'"));
    }
    record_.consumer = at->second;
    return absl::OkStatus();
  }

  const Executor::Environment& env_;
  const plan::Plan& plan_;
  Executor& ex_;
  std::vector<weft_buffer> buffers_;
  std::vector<Range> ranges_;         // as long as launches_
  std::vector<size_t> move_buffers_;  // as long as moves_
  // The task and launch being made.
  const plan::Task* task_ = nullptr;
  Device* device_ = nullptr;
  TaskRecord record_;
  Launch launch_;
  Range range_;
};

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(
    const Environment& environment, absl::Span<const uint32_t> tasks) {
  std::unique_ptr<Executor> executor(new Executor());
  ExecutorBuilder builder(environment, executor.get());
  for (uint32_t task : tasks) WEFT_RETURN_IF_ERROR(builder.AddTask(task));
  builder.Finish();
  return executor;
}

}  // namespace weft::runtime
