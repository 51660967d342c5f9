// Executor: what the acts of one worker do to devices, files and metrics.
//
// The firing rules (core/actor) say that an actor acts and with which copies of
// its registers; the Executor knows what that means. Everything is worked out
// when the program is loaded: per task a list of launches with their operands
// already in the form that a kernel takes. A register with one copy never
// moves, so an act of such a task is one indirect call. Where registers have
// several copies the act first writes the offsets that differ.
//
//   compute      its kernels, one after another
//   copy         one copy per tensor, on the task's stream
//   accumulate   copies and additions by the number of the act (below)
//   source       a SourceReader fills host memory; or a built-in counter
//   sink         a SinkConsumer reads host memory
//   variable     nothing: the memory is the state
//   send, post   the wire gets the memory that it is about
//   recv         nothing: the data is there
//
// Accumulate sums n operands as a balanced tree over their index, whatever the
// timing. It works as a binary counter: buffer j holds the sum of 2^j
// neighbours. Act i, whose index ends in t one bits, adds buffers 0..t-1 to its
// operand, the older one on the left, and leaves the result in buffer t. The
// last act instead adds every buffer in use, lowest first, into the output.
//
// Nothing is allocated during an act.
//
// Threading: worker-thread only. Ownership: borrows plan, memory, kernels,
// streams and bindings.
#ifndef WEFT_RUNTIME_EXECUTE_EXECUTOR_H_
#define WEFT_RUNTIME_EXECUTE_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/actor/effects.h"
#include "core/proto/plan.pb.h"
#include "plugins/host/device.h"
#include "runtime/execute/bindings.h"
#include "runtime/registers/memory.h"
#include "runtime/wire/wire.h"

namespace weft::runtime {

// An operand whose place depends on the copy of a register.
struct Move {
  weft_buffer* where = nullptr;
  Spot spot;
  uint16_t port = 0;
  bool output = false;  // port of the outputs, else of the inputs
  bool host = false;    // a host pointer, else an offset on the device
};

// One kernel, or a copy of `bytes` from inputs[0] to outputs[0].
struct Launch {
  const Kernel* kernel = nullptr;
  weft_buffer* inputs = nullptr;
  weft_buffer* outputs = nullptr;
  weft_buffer* workspace = nullptr;
  uint64_t bytes = 0;
  uint32_t first_move = 0;
  uint32_t num_moves = 0;
  uint32_t op = 0;  // of the task, for messages
};

struct HostSlot {
  HostTensor tensor;
  Spot spot;
  uint16_t port = 0;
};

struct TaskRecord {
  enum class Mode : uint8_t {
    kNothing,
    kLaunch,
    kPhased,
    kSource,
    kSink,
    kSend,
    kPost,
  };
  Mode mode = Mode::kNothing;
  bool counter = false;
  uint32_t task = 0;    // in the plan
  uint32_t stream = 0;  // in the plan
  // kLaunch: launches. kPhased: of phases_. kSource, kSink: of slots_.
  uint32_t first = 0;
  uint32_t count = 0;
  Stream* device_stream = nullptr;
  SourceReader* reader = nullptr;
  SinkConsumer* consumer = nullptr;
  uint32_t channel = 0;      // kSend, kPost: index in the plan
  uint64_t first_micro = 0;  // counters
};

// What one launch is, or the call of a reader or consumer, for those who
// measure it.
struct LaunchInfo {
  uint32_t task = 0;   // in the plan
  int32_t op = -1;     // of the task; -1: a copy, a reader or a consumer
  uint64_t bytes = 0;  // where op is -1: read and written together
};

// Is told of each launch of an act when its call has returned.
class LaunchObserver {
 public:
  // `launch`: its number in Executor::DescribeLaunches().
  virtual void Launched(uint32_t launch) = 0;

 protected:
  ~LaunchObserver() = default;
};

class Executor {
 public:
  struct Environment {
    const plan::Plan* plan = nullptr;
    const ProgramMemory* memory = nullptr;
    // By the plan's index; null where this worker has no use for it.
    std::vector<const Kernel*> kernels;
    std::vector<Stream*> streams;
    const Bindings* bindings = nullptr;
    ProgramWire* channels = nullptr;  // null: no other ranks
  };

  // `tasks` are the plan's indices of this worker's actors, in the order of its
  // ActorTable. Memory is allocated already. Errors: kBadPlan.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(
      const Environment& environment, absl::Span<const uint32_t> tasks);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  const TaskRecord& record(uint32_t actor) const { return records_[actor]; }

  // What acts of the actor do besides sending messages: nothing, a word to the
  // wire, or what may take a while. One byte an actor, apart from the records:
  // most of what an act without effect touches.
  enum class Work : uint8_t { kNone, kWire, kLong };
  Work work(uint32_t actor) const { return work_[actor]; }

  // Does what the act does. `step` goes to readers and consumers. The error
  // names the node, the task, the device, the step and the act.
  absl::Status Run(const actor::Effects& effects, uint64_t step) {
    const TaskRecord& r = records_[effects.actor()];
    if (r.mode == TaskRecord::Mode::kNothing) return absl::OkStatus();
    if (r.mode == TaskRecord::Mode::kLaunch) {
      return RunLaunches(r, r.first, r.count, effects, step);
    }
    return RunOther(r, effects, step);
  }

  // The same, launch by launch. Readers and consumers count as one launch.
  absl::Status RunObserved(const actor::Effects& effects, uint64_t step,
                           LaunchObserver* observer);

  // Everything that RunObserved tells of, by its number. For set-up.
  std::vector<LaunchInfo> DescribeLaunches() const;

  // "node 'fc1' (task 12, device cpu:0, step 3, act 1)", for errors.
  std::string Describe(const TaskRecord& record, uint32_t op, uint64_t step,
                       uint32_t phase) const;

 private:
  friend class ExecutorBuilder;
  Executor() = default;

  struct NotObserved {
    void operator()(const Launch&) const {}
  };

  template <typename After = NotObserved>
  absl::Status RunLaunches(const TaskRecord& record, uint32_t first,
                           uint32_t count, const actor::Effects& effects,
                           uint64_t step, const After& after = After()) {
    const Launch* launch = launches_.data() + first;
    for (const Launch* end = launch + count; launch != end; ++launch) {
      if (launch->num_moves != 0 && !MoveOperands(*launch, effects)) {
        return NoCopy(record, *launch, effects, step);
      }
      absl::Status status =
          launch->kernel != nullptr
              ? launch->kernel->Launch(*record.device_stream, launch->inputs,
                                       launch->outputs, launch->workspace)
              : record.device_stream->Copy(launch->outputs[0],
                                           launch->inputs[0], launch->bytes);
      if (ABSL_PREDICT_FALSE(!status.ok())) {
        return Failed(status, record, *launch, effects, step);
      }
      after(*launch);
    }
    return absl::OkStatus();
  }
  bool MoveOperands(const Launch& launch, const actor::Effects& effects);
  absl::Status RunOther(const TaskRecord& record, const actor::Effects& effects,
                        uint64_t step);
  absl::Status RunHost(const TaskRecord& record, const actor::Effects& effects,
                       uint64_t step);
  absl::Status RunWire(const TaskRecord& record, const actor::Effects& effects);
  absl::Status NoCopy(const TaskRecord& record, const Launch& launch,
                      const actor::Effects& effects, uint64_t step) const;
  absl::Status Failed(const absl::Status& status, const TaskRecord& record,
                      const Launch& launch, const actor::Effects& effects,
                      uint64_t step) const;

  const plan::Plan* plan_ = nullptr;
  const ProgramMemory* memory_ = nullptr;
  ProgramWire* channels_ = nullptr;
  std::vector<TaskRecord> records_;  // by actor
  std::vector<Work> work_;
  std::vector<Launch> launches_;
  std::vector<Move> moves_;
  struct Phase {
    uint32_t first = 0;
    uint32_t count = 0;
  };
  std::vector<Phase> phases_;  // of accumulating tasks
  std::vector<HostSlot> slots_;
  std::vector<HostTensor> tensors_;  // argument of readers, as long as slots_
  std::unique_ptr<weft_buffer[]> buffers_;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_EXECUTE_EXECUTOR_H_
