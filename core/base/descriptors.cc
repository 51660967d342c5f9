#include "core/base/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace weft {

absl::Status ReserveDescriptors(uint64_t needed, absl::string_view who) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) {
    return absl::OkStatus();
  }
  limit.rlim_cur = std::min<rlim_t>(needed, limit.rlim_max);
  if (limit.rlim_cur == needed && setrlimit(RLIMIT_NOFILE, &limit) == 0) {
    return absl::OkStatus();
  }
  return MakeError(ErrorCode::kNoDescriptor,
                   absl::StrCat(who, " needs some ", needed,
                                " file descriptors, the limit is ",
                                limit.rlim_max, " (ulimit -Hn)"));
}

}  // namespace weft
