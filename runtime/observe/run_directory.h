// The directory of a run: everything that it leaves behind.
//
//   runs/fashion-mlp-20260102-030405/
//     resolved_job.txtpb   plan.pb   metrics.jsonl
//     logs/rank_00000.log  errors/rank_00000.json  trace/  ckpt/  lock
//
// One process at a time writes there: RunDirectory holds the file `lock` locked
// while it lives. A file that a dead process left is no obstacle.
//
// A run that fails writes errors/rank_N.json: code, message, rank, host, step,
// time, exit code; a launcher reads it to say what came first. One that is
// refused before it begins leaves no directory (Discard).
//
// Threading: thread-compatible.
#ifndef WEFT_RUNTIME_OBSERVE_RUN_DIRECTORY_H_
#define WEFT_RUNTIME_OBSERVE_RUN_DIRECTORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/clock.h"
#include "core/base/os.h"

namespace weft::observe {

class RunDirectory {
 public:
  // Makes `base`/<name>-<date>-<time>, with "-2" and so on behind it where that
  // exists. kUnwritableRunDir names the path and the reason.
  static absl::StatusOr<RunDirectory> Create(Os& os, Clock& clock,
                                             const std::string& base,
                                             absl::string_view name);

  // An existing one, to resume in. kRunDirInUse names the process that is
  // working in it.
  static absl::StatusOr<RunDirectory> Open(Os& os, const std::string& path);

  // That of another rank of the same run, which holds the lock.
  static RunDirectory Share(Os& os, const std::string& path) {
    return RunDirectory(&os, path);
  }

  // Whether Create() made it.
  bool is_new() const { return !made_.empty(); }

  // Takes away all of a new one, and the folders above it that were made for
  // it: of a run that was refused, before it began, nothing stays. Nothing may
  // be written here afterwards.
  void Discard();

  const std::string& path() const { return path_; }
  std::string File(absl::string_view name) const {
    return JoinPath(path_, name);
  }

  // Whole files, atomically. kWriteFailed.
  absl::Status Write(absl::string_view name, absl::string_view bytes);

 private:
  RunDirectory(Os* os, std::string path) : os_(os), path_(std::move(path)) {}
  absl::Status MakeFolders();
  absl::Status Lock();

  Os* os_;
  std::string path_;
  // Of a new one: its own path, then those above it that were not there.
  std::vector<std::string> made_;
  std::unique_ptr<FileLock> lock_;
};

struct Failure {
  absl::Status status;
  uint32_t rank = 0;
  uint64_t step = 0;  // updates that were done
};

// The text of errors/rank_N.json. Of the loss of a rank that told why it ends,
// `cause` is the name of its error.
std::string FailureJson(const Failure& failure, Clock& clock);

}  // namespace weft::observe

#endif  // WEFT_RUNTIME_OBSERVE_RUN_DIRECTORY_H_
