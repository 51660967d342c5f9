#include "runtime/rendezvous/job_secret.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "absl/strings/ascii.h"
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
absl::StatusOr<Secret> ReadAll(absl::string_view what, int fd) {
  absl::Status error;
  const Secret text = Secret::Fill(kMost + 1, [&](char* to) {
    size_t size = 0;
    while (size < kMost + 1) {
      const ssize_t got = read(fd, to + size, kMost + 1 - size);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) error = BadErrno(what);
      if (got <= 0) break;
      size += static_cast<size_t>(got);
    }
    return size;
  });
  close(fd);
  if (!error.ok()) return error;
  const absl::string_view bytes = absl::StripAsciiWhitespace(text.view());
  if (bytes.size() < kLeast || bytes.size() > kMost) {
    return Bad(what, absl::StrCat("it has ", bytes.size(), " bytes, expected ",
                                  kLeast, " to ", kMost));
  }
  return Secret::Of(bytes);
}

}  // namespace

absl::StatusOr<Secret> NewJobSecret() {
  const Secret bytes = Secret::Fill(kBytes, [](char* to) {
    return getrandom(to, kBytes, 0) == kBytes ? kBytes : 0;
  });
  if (bytes.empty()) return BadErrno("new");
  return Secret::Fill(2 * kBytes, [&bytes](char* to) {
    static constexpr char kDigits[] = "0123456789abcdef";
    for (const char c : bytes.view()) {
      *to++ = kDigits[(c >> 4) & 15];
      *to++ = kDigits[c & 15];
    }
    return 2 * kBytes;
  });
}

absl::StatusOr<Secret> ReadJobSecret(const WorkerSpec& spec) {
  if (spec.secret_fd >= 0) {
    return ReadAll(absl::StrCat("descriptor ", spec.secret_fd), spec.secret_fd);
  }
  if (spec.secret_file.empty()) return Secret();
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
