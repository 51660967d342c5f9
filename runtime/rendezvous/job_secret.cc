#include "runtime/rendezvous/job_secret.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace weft::runtime {
namespace {

constexpr size_t kBytes = 32;
constexpr size_t kLeast = 16;
constexpr size_t kMost = 4096;

absl::Status Bad(absl::string_view what, absl::string_view why) {
  return MakeError(ErrorCode::kBadLaunch,
                   absl::StrCat("the job's secret, ", what, ": ", why));
}

absl::Status BadErrno(absl::string_view what) {
  return Bad(what, std::generic_category().message(errno));
}

// Closes `fd`.
absl::StatusOr<std::string> ReadAll(absl::string_view what, int fd) {
  std::string text(kMost + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(fd, &text[size], text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      absl::Status error = BadErrno(what);
      close(fd);
      return error;
    }
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  close(fd);
  text.resize(size);
  absl::StripAsciiWhitespace(&text);
  if (text.size() < kLeast || text.size() > kMost) {
    return Bad(what, absl::StrCat("it has ", text.size(), " bytes, expected ",
                                  kLeast, " to ", kMost));
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> NewJobSecret() {
  char bytes[kBytes];
  if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) {
    return BadErrno("new");
  }
  return absl::BytesToHexString(absl::string_view(bytes, sizeof(bytes)));
}

absl::StatusOr<std::string> ReadJobSecret(const WorkerSpec& spec) {
  if (spec.secret_fd >= 0) {
    return ReadAll(absl::StrCat("descriptor ", spec.secret_fd), spec.secret_fd);
  }
  if (spec.secret_file.empty()) return std::string();
  const std::string what = absl::StrCat("file '", spec.secret_file, "'");
  // A FIFO would wait for a writer.
  const int fd =
      open(spec.secret_file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return BadErrno(what);
  struct stat info;
  absl::Status refused;
  if (fstat(fd, &info) != 0) {
    refused = BadErrno(what);
  } else if (!S_ISREG(info.st_mode)) {
    refused = Bad(what, "it is no file");
  } else if (info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
    refused = Bad(what, "others may read it; chmod 600, and your own");
  }
  if (refused.ok()) return ReadAll(what, fd);
  close(fd);
  return refused;
}

}  // namespace weft::runtime
