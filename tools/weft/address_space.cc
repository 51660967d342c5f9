#include "tools/weft/address_space.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace weft {
namespace {

// Code of kernels, stacks of a few threads, what a step allocates.
constexpr uint64_t kReserve = uint64_t{48} << 20;

bool IsLimited() {
  rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

}  // namespace

void SpareAddressSpace() {
  if (IsLimited()) mallopt(M_ARENA_MAX, 1);
}

absl::Status CheckAddressSpace(uint64_t bytes) {
  if (!IsLimited()) return absl::OkStatus();
  // Takes no memory: nothing of it is touched.
  void* mapped = MAP_FAILED;
  if (bytes <= ~uint64_t{0} - kReserve) {
    mapped = mmap(nullptr, bytes + kReserve, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (mapped == MAP_FAILED) {
    return MakeError(
        ErrorCode::kOutOfMemory,
        absl::StrCat("the plan and buffers take ", bytes,
                     " bytes, and kernels "
                     "and threads up to ",
                     kReserve,
                     " more; the limit on address space (ulimit -v) leaves "
                     "less"));
  }
  munmap(mapped, bytes + kReserve);
  return absl::OkStatus();
}

}  // namespace weft
