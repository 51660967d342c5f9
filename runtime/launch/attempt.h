// Attempt: all ranks of this host, from their start to the end of the last.
//
//   start all --> running --(one fails)--> failing: the others are told by the
//                    |                     coordinator why the job ends; the
//                    |                     user is told where some stay; they
//                    |                     are asked (SIGTERM), then killed
//                    +--(a signal)-------> stopping: the ranks are asked to
//                                          save and to stop; who still runs
//                                          after the grace time is killed
//
// A second SIGINT or a second SIGTERM kills all at once, whoever reads what the
// ranks write. SIGUSR1 and SIGUSR2,
// which batch systems send before they end a job, ask as SIGTERM does.
//
// Threading: one thread, which waits in poll for ranks, their output, signals
// and deadlines.
#ifndef WEFT_RUNTIME_LAUNCH_ATTEMPT_H_
#define WEFT_RUNTIME_LAUNCH_ATTEMPT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "core/base/os.h"
#include "runtime/launch/descriptor.h"
#include "runtime/launch/process.h"
#include "runtime/launch/streams.h"

namespace weft::launch {

// Signals that ask a launcher to end, as readable events. While it lives they
// are blocked in the thread that made it and in threads that this one starts.
class SignalGate {
 public:
  static absl::StatusOr<std::unique_ptr<SignalGate>> Open();
  ~SignalGate();

  int handle() const { return fd_.get(); }
  int Next();  // 0: none is pending

 private:
  SignalGate() = default;
  Descriptor fd_;
  std::vector<int> added_;  // those that were not blocked before
};

struct RankStart {
  uint32_t rank = 0;
  uint32_t local_rank = 0;
  ChildOptions child;
  std::string output_file;
  std::string error_file;  // where it says how it failed
};

struct RankEnd {
  uint32_t rank = 0;
  ChildEnd end;
  uint64_t order = 0;  // 0: it ended before all others
  bool asked = false;  // it ended because this launcher asked it to
};

struct AttemptOptions {
  std::vector<RankStart> ranks;
  StreamRules streams;
  uint64_t grace_ns = 0;
  // From the first failure on: until the others are asked to end, and from
  // there until they are killed.
  uint64_t told_ns = 5'000'000'000;
  uint64_t asked_ns = 5'000'000'000;
  SignalGate* signals = nullptr;
  Os* os = nullptr;
  Clock* clock = nullptr;
  std::function<void(absl::string_view)> to_stdout;
  std::function<void(absl::string_view)> to_stderr;
  // While these two have no room nothing more is read of what ranks write, but
  // of those that have ended. None: there is always room.
  std::function<bool()> full;
  // A rank has ended as none should, and nobody asked it to.
  std::function<void(const RankEnd&)> on_failure;
  // The first of them, a moment later, where others still run.
  std::function<void(const RankEnd&)> on_wait;
};

struct AttemptEnd {
  std::vector<RankEnd> ranks;  // as in the options
  int stop_signal = 0;         // that the ranks were asked to stop by; 0: none
  bool failed = false;         // a rank ended as none should
};

// Errors: a rank cannot be started, or its file not written; then none is left.
absl::StatusOr<AttemptEnd> RunAttempt(const AttemptOptions& options);

}  // namespace weft::launch

#endif  // WEFT_RUNTIME_LAUNCH_ATTEMPT_H_
