// Launcher: the ranks of a job on this host, from the first start to the last
// end, with the restarts between.
//
//   LaunchJob job;
//   job.options = options;                       // ResolveLaunch
//   job.argv = {"/proc/self/exe", "train", "job.txtpb"};
//   job.variables = {{"PATH", "/usr/bin"}};
//   job.directory = "runs/mlp-20260102-030405";
//   WEFT_ASSIGN_OR_RETURN(LaunchResult result, Launch(job));
//   return result.exit_code;
//
// Each rank gets torchrun's variables (RANK, WORLD_SIZE, ...) and Weft's own
// (core/base/env.h). The coordinator lives in this process, on the first host.
// Where a rank fails all end; then all start again, from the last checkpoint,
// as often as the options allow and as it may help. What ranks said is in
// `directory`/logs/rank_00003.out.
//
// Nothing of a job is left when it returns, and no rank when this process
// dies, however.
//
// Threading: one at a time in a process, whose other children it ends.
#ifndef WEFT_RUNTIME_LAUNCH_LAUNCHER_H_
#define WEFT_RUNTIME_LAUNCH_LAUNCHER_H_

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
#include "core/base/clock.h"
#include "core/base/os.h"
#include "core/base/secret.h"
#include "runtime/launch/options.h"
#include "runtime/rendezvous/rendezvous.h"

namespace weft::launch {

// Where the ranks of one attempt meet: a Coordinator, or a test's double.
class Hub {
 public:
  virtual ~Hub() = default;
  virtual std::string address() const = 0;
  virtual std::optional<runtime::JobFailure> failure() const = 0;
  virtual void Fail(uint32_t rank, const absl::Status& cause) = 0;
};

struct HubOptions {
  std::string listen;
  uint32_t ranks = 1;
  std::string job_id;
  uint64_t epoch = 0;
  Secret secret;
};

struct LaunchJob {
  LaunchOptions options;
  std::vector<std::string> argv;                 // of every rank
  std::map<std::string, std::string> variables;  // that ranks inherit
  std::string directory;                         // of the run
  std::string log_directory;  // empty: logs in the directory of the run
  std::function<absl::StatusOr<std::unique_ptr<Hub>>(const HubOptions&)> hub;
  Os* os = &RealOs();
  Clock* clock = &RealClock();
  std::function<void(absl::string_view)> to_stdout;
  std::function<void(absl::string_view)> to_stderr;
  std::function<bool()> full;  // AttemptOptions
  // After a failure: AttemptOptions.
  uint64_t told_ns = 5'000'000'000;
  uint64_t asked_ns = 5'000'000'000;
};

struct LaunchResult {
  int exit_code = 0;    // of the first rank that failed
  int stop_signal = 0;  // all stopped because of it; 0: none
  uint64_t restarts = 0;
};

// Errors are of launching itself: no program, no port, no descriptors.
absl::StatusOr<LaunchResult> Launch(const LaunchJob& job);

}  // namespace weft::launch

#endif  // WEFT_RUNTIME_LAUNCH_LAUNCHER_H_
