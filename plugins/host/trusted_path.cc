#include "plugins/host/trusted_path.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

absl::Status Refused(absl::string_view path, absl::string_view why) {
  return MakeError(ErrorCode::kPluginRefused, absl::StrCat(path, ": ", why));
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::StatusOr<std::string> Canonical(const std::string& path) {
  char buffer[PATH_MAX];
  if (realpath(path.c_str(), buffer) == nullptr) {
    return MakeError(ErrorCode::kPluginNotFound,
                     absl::StrCat(path, ": ", strerror(errno)));
  }
  return std::string(buffer);
}

// Checks one file or directory on the way.
absl::Status CheckOne(const std::string& path, uid_t root, bool is_file,
                      const PathPolicy& policy) {
  struct stat st;
  if (lstat(path.c_str(), &st) != 0) {
    return MakeError(ErrorCode::kPluginNotFound,
                     absl::StrCat(path, ": ", strerror(errno)));
  }
  if (is_file && !S_ISREG(st.st_mode)) {
    return Refused(path, "not a regular file");
  }
  if (st.st_uid != 0 && st.st_uid != root && st.st_uid != geteuid()) {
    return Refused(
        path, absl::StrCat("belongs to user ", st.st_uid,
                           ", neither root nor the current user ", geteuid()));
  }
  if ((st.st_mode & (S_IWGRP | S_IWOTH)) == 0) return absl::OkStatus();
  // In a sticky directory others cannot rename or remove what is not theirs.
  if (!is_file && (st.st_mode & S_ISVTX) != 0 && policy.allow_sticky_parents) {
    return absl::OkStatus();
  }
  return Refused(path, absl::StrFormat("writable by others (mode %04o)",
                                       st.st_mode & 07777));
}

// Checks `at`, a directory, and all above it.
absl::Status CheckUpwards(std::string at, uid_t root,
                          const PathPolicy& policy) {
  for (;; at = ParentOf(at)) {
    WEFT_RETURN_IF_ERROR(CheckOne(at, root, /*is_file=*/false, policy));
    if (at == "/") return absl::OkStatus();
  }
}

}  // namespace

absl::StatusOr<std::string> TrustedPath(const std::string& path,
                                        const PathPolicy& policy) {
  if (path.empty() || path[0] != '/') {
    return Refused(path, "a plugin's path must be absolute");
  }
  WEFT_ASSIGN_OR_RETURN(const std::string dir, Canonical(ParentOf(path)));
  WEFT_ASSIGN_OR_RETURN(std::string real, Canonical(path));
  if (ParentOf(real) != dir && !policy.allow_links) {
    return Refused(
        path, absl::StrCat("is a link to ", real, ", out of its directory"));
  }
  struct stat top;
  if (lstat("/", &top) != 0) return Refused("/", strerror(errno));
  WEFT_RETURN_IF_ERROR(CheckOne(real, top.st_uid, /*is_file=*/true, policy));
  WEFT_RETURN_IF_ERROR(CheckUpwards(ParentOf(real), top.st_uid, policy));
  return real;
}

absl::Status CheckTrustedDirectory(const std::string& path,
                                   const PathPolicy& policy) {
  WEFT_ASSIGN_OR_RETURN(const std::string real, Canonical(path));
  struct stat st, top;
  if (lstat("/", &top) != 0) return Refused("/", strerror(errno));
  if (lstat(real.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) {
    return Refused(path, "not a directory");
  }
  return CheckUpwards(real, top.st_uid, policy);
}

}  // namespace weft
