// Program: one plan of a session, from loading to the objects that run it.
//
// Load() checks the plan and opens its kernels. Prepare() comes when memory is
// allocated and threads exist: it opens streams and makes one Worker, with its
// ActorTable and Executor, for each worker of the plan.
//
// Threading: for the thread that owns the session.
#ifndef WEFT_RUNTIME_SESSION_PROGRAM_H_
#define WEFT_RUNTIME_SESSION_PROGRAM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "core/plan/plan.h"
#include "core/proto/plan.pb.h"
#include "plugins/host/device.h"
#include "runtime/bus/futex_word.h"
#include "runtime/bus/mailbox.h"
#include "runtime/execute/bindings.h"
#include "runtime/execute/executor.h"
#include "runtime/observe/profile.h"
#include "runtime/observe/trace.h"
#include "runtime/registers/memory.h"
#include "runtime/wire/wire.h"
#include "runtime/worker/worker.h"

namespace weft::runtime {

// Device streams, shared by programs because only one of them runs: the n-th
// stream that a plan has on a device and a worker is one object.
class StreamPool {
 public:
  // `token` is what the device may hand to HostHooks::notify.
  absl::StatusOr<Stream*> Get(Device* device, uint32_t worker, uint32_t n,
                              uint64_t token);

 private:
  std::map<std::tuple<Device*, uint32_t, uint32_t>, std::unique_ptr<Stream>>
      streams_;
};

class Program {
 public:
  struct Resources {
    StreamPool* streams = nullptr;
    std::vector<FutexWord*> words;  // by worker
    std::vector<uint64_t> tokens;   // by worker
    std::vector<uint64_t> spin_ns;  // by worker
    FutexWord* control_word = nullptr;
    uint64_t wake_periods = 0;
    uint64_t drain_ns = 0;
    TraceLog* trace = nullptr;
    ProfileLog* profile = nullptr;
    Wire* wire = nullptr;  // null: no other ranks
  };

  // `first_index`: ActorId::index() of the plan's task 0.
  static absl::StatusOr<std::unique_ptr<Program>> Load(plan::Plan plan,
                                                       const Bindings& bindings,
                                                       uint32_t first_index,
                                                       SessionMemory* memory,
                                                       bool* reserved);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Whether others may write what they read where it lies.
  bool lends() const;
  // Registers that others read where they lie. Pre-condition: memory is there.
  std::vector<SharedValue> shared_values() const;
  // Where those of others lie. kTransportFailed where one is missing or does
  // not fit.
  absl::Status TakePeerValues(const PeerValues& values);

  // Nothing where it was done before. After a failure as if never called.
  absl::Status Prepare(const Resources& resources);

  const plan::PlanView& view() const { return *view_; }
  const std::string& name() const { return plan_->program(); }
  const std::vector<std::unique_ptr<Worker>>& workers() const {
    return workers_;
  }
  const std::vector<Port>& ports() const { return ports_; }
  Mailbox<actor::Message>* control_box() { return control_box_.get(); }

  // Periods that all workers have done since the program was loaded.
  uint64_t periods_done = 0;

 private:
  Program() = default;
  absl::Status OpenKernels(const ProgramMemory& memory);
  absl::Status MakeWorkers(const Resources& resources);
  absl::Status MakeWorker(uint32_t number, actor::ActorTable table,
                          const Resources& resources);

  std::unique_ptr<plan::Plan> plan_;
  std::unique_ptr<plan::PlanView> view_;
  Bindings bindings_;
  uint32_t first_index_ = 0;
  ProgramMemory* memory_ = nullptr;
  std::vector<std::unique_ptr<Kernel>> kernels_;  // null: no op uses it
  std::vector<std::unique_ptr<Mailbox<actor::Message>>> boxes_;
  std::vector<Port> ports_;
  std::unique_ptr<Mailbox<actor::Message>> control_box_;
  std::vector<WorkerTrace*> traces_;  // by worker; null: not traced
  std::vector<WorkerProfile*> profiles_;
  std::unique_ptr<ProgramWire> channels_;  // null: the plan has none
  std::vector<std::unique_ptr<Executor>> executors_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_SESSION_PROGRAM_H_
