// FaultyOs: the real file system, except that the n-th mutating call fails: the
// test double for full disks and broken media.
//
//   FaultyOs os(RealOs());
//   os.FailAt(3, absl::ResourceExhaustedError("No space left on device"));
//   EXPECT_FALSE(SaveCheckpoint(os, ...).ok());
//
// Counted calls: Create, Append, Truncate, Rename, MakeDirectories,
// SyncDirectory, Lock, and every write, sync and close of a file.
//
// Threading: thread-compatible.
#ifndef WEFT_CORE_TESTING_FAULTY_OS_H_
#define WEFT_CORE_TESTING_FAULTY_OS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/os.h"
#include "core/base/status_macros.h"

namespace weft {

class FaultyOs : public Os {
 public:
  explicit FaultyOs(Os& base) : base_(base) {}

  // Call `n` (from 0) fails with `status`; with `from_then_on`, all later ones
  // do as well.
  void FailAt(int64_t n, absl::Status status, bool from_then_on = true) {
    calls_ = 0;
    fail_at_ = n;
    status_ = std::move(status);
    from_then_on_ = from_then_on;
  }
  int64_t calls() const { return calls_; }

  // Reading fails with `status` for paths that contain `part`, while that is
  // not empty.
  void FailReadsOf(std::string part, absl::Status status) {
    unreadable_ = std::move(part);
    read_status_ = std::move(status);
  }

  absl::StatusOr<std::string> ReadFile(const std::string& path,
                                       uint64_t max_bytes) override {
    if (!unreadable_.empty() && absl::StrContains(path, unreadable_)) {
      return read_status_;
    }
    return base_.ReadFile(path, max_bytes);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) override {
    WEFT_RETURN_IF_ERROR(Next());
    return Wrap(base_.Create(path));
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Append(
      const std::string& path) override {
    WEFT_RETURN_IF_ERROR(Next());
    return Wrap(base_.Append(path));
  }
  absl::Status Truncate(const std::string& path, uint64_t bytes) override {
    WEFT_RETURN_IF_ERROR(Next());
    return base_.Truncate(path, bytes);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    WEFT_RETURN_IF_ERROR(Next());
    return base_.Rename(from, to);
  }
  absl::Status MakeDirectories(const std::string& path) override {
    WEFT_RETURN_IF_ERROR(Next());
    return base_.MakeDirectories(path);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    WEFT_RETURN_IF_ERROR(Next());
    return base_.SyncDirectory(path);
  }
  absl::Status RemoveAll(const std::string& path) override {
    return base_.RemoveAll(path);
  }
  absl::Status RemoveEmptyDirectory(const std::string& path) override {
    return base_.RemoveEmptyDirectory(path);
  }
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) override {
    return base_.List(path);
  }
  bool Exists(const std::string& path) override { return base_.Exists(path); }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(
      const std::string& path) override {
    WEFT_RETURN_IF_ERROR(Next());
    return base_.Lock(path);
  }

 private:
  class File : public WritableFile {
   public:
    File(FaultyOs* os, std::unique_ptr<WritableFile> base)
        : os_(os), base_(std::move(base)) {}
    absl::Status Append(absl::string_view bytes) override {
      if (absl::Status s = os_->Next(); !s.ok()) {
        // A disk fills up in the middle of a write.
        base_->Append(bytes.substr(0, bytes.size() / 2)).IgnoreError();
        return s;
      }
      return base_->Append(bytes);
    }
    absl::Status Sync() override {
      WEFT_RETURN_IF_ERROR(os_->Next());
      return base_->Sync();
    }
    absl::Status Close() override {
      WEFT_RETURN_IF_ERROR(os_->Next());
      return base_->Close();
    }

   private:
    FaultyOs* os_;
    std::unique_ptr<WritableFile> base_;
  };

  absl::Status Next() {
    int64_t n = calls_++;
    bool fails =
        fail_at_ >= 0 && (n == fail_at_ || (from_then_on_ && n > fail_at_));
    return fails ? status_ : absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Wrap(
      absl::StatusOr<std::unique_ptr<WritableFile>> file) {
    if (!file.ok()) return file;
    return std::unique_ptr<WritableFile>(new File(this, *std::move(file)));
  }

  Os& base_;
  int64_t calls_ = 0;
  int64_t fail_at_ = -1;
  bool from_then_on_ = true;
  absl::Status status_;
  std::string unreadable_;
  absl::Status read_status_;
};

}  // namespace weft

#endif  // WEFT_CORE_TESTING_FAULTY_OS_H_
