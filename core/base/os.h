// The operating system's files, behind one interface, so that tests can make
// any call fail: nothing else in Weft opens, writes or renames a file.
//
//   Os& os = RealOs();
//   WEFT_ASSIGN_OR_RETURN(std::string text, os.ReadFile(path, 1 << 20));
//   WEFT_RETURN_IF_ERROR(WriteFileAtomically(os, path, text));
//
// Errors are plain absl statuses whose message names the path and the system's
// reason; callers give them a WEFT number (core/base/error.h), because only
// they know what the file was for.
//
// Threading: RealOs() is thread-safe; a WritableFile is thread-compatible.
#ifndef WEFT_CORE_BASE_OS_H_
#define WEFT_CORE_BASE_OS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft {

class WritableFile {
 public:
  virtual ~WritableFile() = default;  // closes; a failure to close is lost
  virtual absl::Status Append(absl::string_view bytes) = 0;
  virtual absl::Status Sync() = 0;  // to stable storage
  virtual absl::Status Close() = 0;
};

// A lock that ends with the object, and with the process however that dies.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class Os {
 public:
  virtual ~Os() = default;

  // Whole contents. ResourceExhausted where the file is larger than
  // `max_bytes`.
  virtual absl::StatusOr<std::string> ReadFile(const std::string& path,
                                               uint64_t max_bytes) = 0;
  // A new file, in place of what has the name: a link is replaced, not
  // followed. Mode 0644 less the umask.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) = 0;
  // Keeps what is there, creates the file where there is none.
  // FailedPrecondition for what is no regular file (a FIFO would wait).
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Append(
      const std::string& path) = 0;
  virtual absl::Status Truncate(const std::string& path, uint64_t bytes) = 0;
  // Replaces `to` where it exists (files; empty directories).
  virtual absl::Status Rename(const std::string& from,
                              const std::string& to) = 0;
  virtual absl::Status MakeDirectories(const std::string& path) = 0;
  // Makes renames inside `path` durable.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  virtual absl::Status RemoveAll(const std::string& path) = 0;
  // FailedPrecondition where something is in it.
  virtual absl::Status RemoveEmptyDirectory(const std::string& path) = 0;
  // Names without the path, sorted.
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) = 0;
  virtual bool Exists(const std::string& path) = 0;
  // Locks the file `path` for this object alone, without waiting; makes the
  // file where there is none and leaves it behind. What a dead process left
  // there does not matter, but a link is not followed. Aborted, naming the
  // process, where somebody holds it.
  virtual absl::StatusOr<std::unique_ptr<FileLock>> Lock(
      const std::string& path) = 0;
};

Os& RealOs();

// Writes `path`.tmp, syncs it, renames it to `path` and syncs the directory: a
// reader sees the old contents or the new, never a part.
absl::Status WriteFileAtomically(Os& os, const std::string& path,
                                 absl::string_view bytes);

// "dir/name"; an absolute `name` is returned as it is.
std::string JoinPath(absl::string_view dir, absl::string_view name);

}  // namespace weft

#endif  // WEFT_CORE_BASE_OS_H_
