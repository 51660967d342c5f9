// A session: opened devices, one state that lives as long as it does, and the
// programs (plans) that run on that state, one at a time.
//
//   SessionOptions options;
//   WEFT_ASSIGN_OR_RETURN(auto session, Session::Create(devices, options));
//   WEFT_RETURN_IF_ERROR(session->LoadProgram(init_plan, {}));
//   WEFT_RETURN_IF_ERROR(session->LoadProgram(train_plan, bindings));
//   WEFT_RETURN_IF_ERROR(session->Run("init", 0, 1).status());
//   WEFT_ASSIGN_OR_RETURN(uint64_t steps, session->Run("train", 0, 469));
//   // steps < 469: somebody called RequestStop().
//   WEFT_RETURN_IF_ERROR(session->ReadState("fc1/weight", bytes));
//
// Load every program before the first Run: memory is allocated once, then, for
// all of them. A register with a logical name (Register.state) is state: every
// program that uses the name finds the same bytes. The rest of a program's
// memory may lie over another program's, since Run returns only when nothing of
// its program is under way. PlannedBytes() says what that comes to: the state,
// the constants, and the program that needs most besides.
//
// A program runs under a lease: sources and variables may start a period only
// while it lies below the lease, and the caller's thread, which is the control
// thread during Run, keeps the lease `periods_in_flight + 1` periods ahead of
// the slowest finished one. RequestStop() ends the extension, nothing else: all
// work of started periods is done and state is at a period boundary.
//
// Errors. A failure in any act stops every worker and is the result of Run: the
// first cause, with the user's name of the node, the task, device, step and
// act. After that the session is broken: Run and state access return the same
// error; destroy it.
//
// Threading: all methods from one thread at a time, but for RequestStop, which
// is thread-safe and async-signal-safe. Workers are threads of the session;
// their threads start at the first Run and end with the session.
// Ownership: devices, readers and consumers are borrowed and outlive the
// session.
#ifndef WEFT_RUNTIME_SESSION_SESSION_H_
#define WEFT_RUNTIME_SESSION_SESSION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/proto/plan.pb.h"
#include "plugins/host/device.h"
#include "runtime/execute/bindings.h"
#include "runtime/wire/wire.h"

namespace weft::runtime {

class ProfileLog;
class TraceLog;

struct SessionOptions {
  // Periods (steps) that may be under way besides the slowest one, where not
  // more of them are short (pace.h); at most kMaxPeriodsInFlight of
  // runtime/worker/worker.h.
  uint32_t periods_in_flight = 2;
  // How long an idle worker spins before it sleeps, nanoseconds. kAutoSpin: as
  // runtime/session/spin.h finds it, by worker, from the process's cores.
  static constexpr uint64_t kAutoSpin = ~uint64_t{0};
  uint64_t spin_ns = kAutoSpin;
  // Workers at most, 0: as many as a plan has. Those beyond are the last one,
  // whose thread then waits where one of their readers or consumers does.
  uint32_t max_workers = 0;
  // Ranks that share these cores, this one among them. Those of one process are
  // found.
  uint32_t ranks_on_cores = 1;
  // Without a finished period for so long, the session says who waits for what
  // (`on_stall`; by default a warning in the log). The run goes on.
  uint64_t stall_report_ns = 30'000'000'000;
  std::function<void(const std::string& report)> on_stall;
  // Without a finished period for so long, the run fails; 0 = never.
  uint64_t stall_abort_ns = 0;
  // After an abort, how long to wait for work that devices still do: one time
  // for all of them. A device that takes longer is named in the error of Run,
  // and unless it has ended when the session does, what it may use (streams,
  // memory, kernels) is kept for ever, so that its device cannot be closed.
  uint64_t drain_ns = 5'000'000'000;
  // How long a device may take to fill constants, or to read or write a state.
  // After that as above, and the session is broken.
  uint64_t sync_ns = Stream::kLongWaitNs;
  // Called by each worker's thread before it works. Worker 0 runs the first
  // device's kernels.
  std::function<void(size_t worker)> on_worker_start;
  // Called by the thread that called Run: soon after a period has finished, but
  // not more often than every kAttendNs, and once more where all workers have
  // left. An error ends the run.
  std::function<absl::Status()> attend;
  static constexpr uint64_t kAttendNs = 50'000'000;
  // Records acts where set. Borrowed.
  TraceLog* trace = nullptr;
  // Adds up the time of one program's launches where set. Borrowed.
  ProfileLog* profile = nullptr;
  // This session is one rank of several: how it meets the others, at the first
  // Run or access to state. Every rank runs the same programs for the same
  // periods, in the same order. Borrows what it points to.
  std::optional<WireOptions> wire;
};

// Where a named state lies and what it is.
struct StateInfo {
  std::string name;
  std::string device;  // "cpu:0"
  DType dtype = DType::kInvalid;
  std::vector<int64_t> dims;
  uint64_t bytes = 0;
};

struct RunOptions {
  // Runs even after RequestStop() (saving state, for example).
  bool ignore_stop = false;
};

class Session {
 public:
  // `devices` in the order of Plan.devices; matched by name ("cpu:0") against
  // each plan that is loaded.
  static absl::StatusOr<std::unique_ptr<Session>> Create(
      std::vector<Device*> devices, const SessionOptions& options = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Checks the plan, its bindings and that its state agrees with what other
  // programs say. A device that fails to open a kernel breaks the session. The
  // program's name is Plan.program. Errors: kBadPlan, kDeviceNotFound,
  // kNoKernel, kOutOfMemory, kDeviceFailed.
  absl::Status LoadProgram(const plan::Plan& plan, const Bindings& bindings);

  // Runs `periods` periods (steps) and returns how many were done: fewer only
  // after RequestStop(). Step numbers given to readers and consumers count from
  // `first_step`.
  absl::StatusOr<uint64_t> Run(absl::string_view program, uint64_t first_step,
                               uint64_t periods, const RunOptions& run = {});

  // The last run is over on this rank: waits until it is on all, and closes the
  // connections. Without it the other ranks see this one die. OK on one rank.
  absl::Status Leave();
  // Tells the other ranks that this one gives up, and why. Run does so itself
  // where it fails.
  void GiveUp(const absl::Status& cause);

  // Sticky: the run in progress ends at the end of its lease and later ones
  // return 0 periods at once, until ClearStop().
  void RequestStop();
  void ClearStop();
  bool stop_requested() const;

  // State at rest, dense and row-major, whole tensors. kInternal where the name
  // or the size is wrong.
  std::vector<StateInfo> States() const;
  absl::Status ReadState(absl::string_view name, absl::Span<char> out);
  absl::Status WriteState(absl::string_view name, absl::Span<const char> data);

  // Bytes that the session has allocated, or will at the first Run, per device;
  // what other ranks read counts as the host's, which is the first.
  std::map<std::string, uint64_t> PlannedBytes() const;

  // Counters for tests and reports, summed over workers, since creation.
  struct Stats {
    uint64_t acts = 0;
    uint64_t launches = 0;  // kernels and copies
    uint64_t hops = 0;      // messages to another worker
    uint64_t sleeps = 0;    // times that a worker went to sleep
  };
  Stats stats() const;
  // The acts alone, at any time once all programs are loaded. Thread-safe.
  uint64_t acts() const;

 private:
  bool WaitForStuckWorkers();
  std::string WhyNotFreed();

  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_SESSION_SESSION_H_
