// The log file of a rank: everything that this process logs, whatever the
// console shows.
//
//   I20260102 03:04:05.123456 4242 [r0/1] trainer.cc:88] run directory runs/x
//
//   WEFT_ASSIGN_OR_RETURN(auto log, RunLog::Open(RealOs(), clock, path, 0, 1));
//   LOG(INFO) << "also in the file, while `log` lives";
//   log->Write("trainer.cc", 88, "run directory runs/x");
//
// A line that cannot be written (full disk) is lost, and the run goes on.
//
// Threading: thread-safe. Ownership: borrows os and clock.
#ifndef WEFT_RUNTIME_OBSERVE_RUN_LOG_H_
#define WEFT_RUNTIME_OBSERVE_RUN_LOG_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/clock.h"
#include "core/base/os.h"

namespace weft::observe {

class RunLog {
 public:
  // Appends to `path`. kWriteFailed.
  static absl::StatusOr<std::unique_ptr<RunLog>> Open(Os& os, Clock& clock,
                                                      const std::string& path,
                                                      uint32_t rank,
                                                      uint32_t world);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  void Write(absl::string_view file, int line, absl::string_view message);

 private:
  class Sink;
  explicit RunLog(std::unique_ptr<Sink> sink);

  std::unique_ptr<Sink> sink_;
};

}  // namespace weft::observe

#endif  // WEFT_RUNTIME_OBSERVE_RUN_LOG_H_
