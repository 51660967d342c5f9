#include "core/base/os.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

absl::Status FromErrno(int error, absl::string_view what,
                       absl::string_view path) {
  std::string message =
      absl::StrCat("cannot ", what, " '", path,
                   "': ", std::generic_category().message(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case EFBIG:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }
  int Release() {
    int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

int OpenRetry(const std::string& path, int flags, mode_t mode) {
  int fd;
  do {
    fd = open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

bool IsRegular(int fd) {
  struct stat info;
  return fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

class RealFile : public WritableFile {
 public:
  RealFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  absl::Status Append(absl::string_view bytes) override {
    while (!bytes.empty()) {
      ssize_t n = write(fd_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return FromErrno(errno, "write", path_);
      bytes.remove_prefix(n);
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    if (fsync(fd_.get()) != 0) return FromErrno(errno, "sync", path_);
    return absl::OkStatus();
  }

  absl::Status Close() override {
    int fd = fd_.Release();
    // On Linux the descriptor is gone even after EINTR: never retried.
    if (fd >= 0 && close(fd) != 0 && errno != EINTR) {
      return FromErrno(errno, "close", path_);
    }
    return absl::OkStatus();
  }

 private:
  Descriptor fd_;
  std::string path_;
};

class RealLock : public FileLock {
 public:
  explicit RealLock(Descriptor fd) : fd_(std::move(fd)) {}

 private:
  Descriptor fd_;  // closing it unlocks
};

// Who holds a lock, as its file says it: "process 4242".
std::string Holder(int fd) {
  char text[24] = "";
  ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
  int64_t pid = 0;
  if (n <= 0 || !absl::SimpleAtoi(text, &pid)) return "another process";
  return absl::StrCat("process ", pid);
}

// Only for messages: a full disk must not keep anybody from locking.
void WriteHolder(int fd) {
  std::string text = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd, 0) != 0) return;
  if (pwrite(fd, text.data(), text.size(), 0) < 0) return;
}

absl::Status LargerThan(const std::string& path, uint64_t max_bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("'", path, "' is larger than ", max_bytes, " bytes"));
}

class PosixOs : public Os {
 public:
  absl::StatusOr<std::string> ReadFile(const std::string& path,
                                       uint64_t max_bytes) override {
    // Opening a FIFO would wait for a writer, reading a device for ever.
    Descriptor fd(OpenRetry(path, O_RDONLY | O_NONBLOCK, 0));
    if (fd.get() < 0) return FromErrno(errno, "open", path);
    struct stat info;
    if (fstat(fd.get(), &info) != 0) return FromErrno(errno, "stat", path);
    if (S_ISDIR(info.st_mode)) return FromErrno(EISDIR, "read", path);
    if (!S_ISREG(info.st_mode)) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot read '", path, "': not a regular file"));
    }
    // A sparse file takes no place on the disk, but all of it in memory.
    if (static_cast<uint64_t>(info.st_size) > max_bytes) {
      return LargerThan(path, max_bytes);
    }
    std::string out;
    out.reserve(info.st_size);
    char buffer[1 << 16];
    for (;;) {
      ssize_t n = read(fd.get(), buffer, sizeof(buffer));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return FromErrno(errno, "read", path);
      if (n == 0) return out;
      if (out.size() + n > max_bytes) {
        return LargerThan(path, max_bytes);
      }
      out.append(buffer, n);
    }
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) override {
    if (unlink(path.c_str()) != 0 && errno != ENOENT && errno != EISDIR) {
      return FromErrno(errno, "replace", path);
    }
    return Open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, "create");
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> Append(
      const std::string& path) override {
    return Open(path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK, "open");
  }

  absl::Status Truncate(const std::string& path, uint64_t bytes) override {
    if (truncate(path.c_str(), static_cast<off_t>(bytes)) != 0) {
      return FromErrno(errno, "truncate", path);
    }
    return absl::OkStatus();
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) != 0) {
      return FromErrno(errno, absl::StrCat("rename '", from, "' to"), to);
    }
    return absl::OkStatus();
  }

  absl::Status MakeDirectories(const std::string& path) override {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) return FromErrno(error.value(), "create directory", path);
    return absl::OkStatus();
  }

  absl::Status SyncDirectory(const std::string& path) override {
    Descriptor fd(OpenRetry(path, O_RDONLY | O_DIRECTORY, 0));
    if (fd.get() < 0) return FromErrno(errno, "open", path);
    if (fsync(fd.get()) != 0) return FromErrno(errno, "sync", path);
    return absl::OkStatus();
  }

  absl::Status RemoveAll(const std::string& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) return FromErrno(error.value(), "remove", path);
    return absl::OkStatus();
  }

  absl::Status RemoveEmptyDirectory(const std::string& path) override {
    if (rmdir(path.c_str()) == 0) return absl::OkStatus();
    return FromErrno(errno, "remove directory", path);
  }

  absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) override {
    std::error_code error;
    std::filesystem::directory_iterator it(path, error);
    if (error) return FromErrno(error.value(), "list", path);
    std::vector<std::string> names;
    while (it != std::filesystem::directory_iterator()) {
      names.push_back(it->path().filename().string());
      it.increment(error);
      if (error) return FromErrno(error.value(), "list", path);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  bool Exists(const std::string& path) override {
    struct stat info;
    return stat(path.c_str(), &info) == 0;
  }

  absl::StatusOr<std::unique_ptr<FileLock>> Lock(
      const std::string& path) override {
    Descriptor fd(OpenRetry(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0644));
    if (fd.get() < 0) return FromErrno(errno, "open", path);
    int locked;
    do {
      locked = flock(fd.get(), LOCK_EX | LOCK_NB);
    } while (locked != 0 && errno == EINTR);
    if (locked != 0 && errno == EWOULDBLOCK) {
      return absl::AbortedError(
          absl::StrCat(Holder(fd.get()), " holds the lock '", path, "'"));
    }
    if (locked != 0) return FromErrno(errno, "lock", path);
    WriteHolder(fd.get());
    return std::unique_ptr<FileLock>(new RealLock(std::move(fd)));
  }

 private:
  absl::StatusOr<std::unique_ptr<WritableFile>> Open(const std::string& path,
                                                     int flags,
                                                     absl::string_view what) {
    Descriptor fd(OpenRetry(path, flags, 0644));
    // A FIFO that nobody reads does not open for writing.
    if (fd.get() < 0 && errno != ENXIO) return FromErrno(errno, what, path);
    if (fd.get() < 0 || !IsRegular(fd.get())) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot ", what, " '", path, "': not a regular file"));
    }
    return std::unique_ptr<WritableFile>(new RealFile(fd.Release(), path));
  }
};

}  // namespace

Os& RealOs() {
  static PosixOs* os = new PosixOs;  // never destroyed: used until exit
  return *os;
}

absl::Status WriteFileAtomically(Os& os, const std::string& path,
                                 absl::string_view bytes) {
  std::string temporary = path + ".tmp";
  absl::Status status = [&]() -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file,
                          os.Create(temporary));
    WEFT_RETURN_IF_ERROR(file->Append(bytes));
    WEFT_RETURN_IF_ERROR(file->Sync());
    WEFT_RETURN_IF_ERROR(file->Close());
    return os.Rename(temporary, path);
  }();
  if (!status.ok()) {
    os.RemoveAll(temporary).IgnoreError();
    return status;
  }
  std::string dir = std::filesystem::path(path).parent_path().string();
  return os.SyncDirectory(dir.empty() ? "." : dir);
}

std::string JoinPath(absl::string_view dir, absl::string_view name) {
  return (std::filesystem::path(std::string(dir)) / std::string(name)).string();
}

}  // namespace weft
