// What the two ways to a profile share: `weft profile` (Profile in trainer.h)
// and a training run that is recorded on its way (training_run.h).
//
//   WEFT_ASSIGN_OR_RETURN(auto profiler, Profiler::Create(*prepared, window));
//   session_options.profile = profiler->log();
//   ...
//   profiler->Run(*session, "train", first, steps);
//   WEFT_ASSIGN_OR_RETURN(runtime::ProfileReport r, profiler->Report());
//
// Threading: for the thread that owns the session.
#ifndef WEFT_TOOLS_WEFT_PROFILER_H_
#define WEFT_TOOLS_WEFT_PROFILER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/observe/profile.h"
#include "runtime/observe/profile_report.h"
#include "runtime/session/session.h"
#include "tools/weft/prepare.h"
#include "tools/weft/trainer.h"

namespace weft {

class Profiler {
 public:
  // Measures the ceilings of the devices that compute in the training program;
  // no session may have been created on them.
  static absl::StatusOr<std::unique_ptr<Profiler>> Create(
      const Prepared& prepared, const ProfileWindow& window);

  runtime::ProfileLog* log() { return &log_; }

  // The first step after `step` before which recording begins or ends: runs
  // must not go beyond it. `first`: the first step of all.
  uint64_t NextStop(uint64_t first, uint64_t step) const;
  // Session::Run of the training program, recorded where `step` lies in the
  // window.
  absl::StatusOr<uint64_t> Run(runtime::Session* session, uint64_t first,
                               uint64_t step, uint64_t steps,
                               const runtime::RunOptions& run = {});

  // Whether any step was recorded.
  bool HasSteps() const { return log_.steps() != 0; }
  absl::StatusOr<runtime::ProfileReport> Report() const;

 private:
  explicit Profiler(const ProfileWindow& window)
      : window_(window), log_("train") {}

  const ProfileWindow window_;
  runtime::ProfileLog log_;
  std::vector<runtime::Ceiling> ceilings_;
};

// kBadValue for a window without steps.
absl::Status CheckWindow(const ProfileWindow& window);

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_PROFILER_H_
