// How many cores this process may use: its affinity mask, cut down to the
// processor-time quota of its control groups (a container's limit). A quota of
// 2.5 cores counts as 3.
//
//   uint32_t threads = AvailableCores(RealOs());
//
// Threading: thread-safe.
#ifndef WEFT_RUNTIME_POOL_CORES_H_
#define WEFT_RUNTIME_POOL_CORES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/os.h"

namespace weft::runtime {

// At least 1.
uint32_t AvailableCores(Os& os);

// The number of the one core that the affinity mask of the calling thread
// leaves; nothing where there are several.
std::optional<uint32_t> OnlyCore();

// Cores by the control groups of this process under `proc` ("/proc/self") and
// `groups` ("/sys/fs/cgroup"): the smallest quota on the way from its group to
// the root, of version 2 or 1. Nothing where there is no quota.
std::optional<uint32_t> QuotaCores(Os& os, const std::string& proc,
                                   const std::string& groups);

// Cores by the text of a cpu.max file, "200000 100000" or "max 100000".
std::optional<uint32_t> CoresOfCpuMax(absl::string_view text);

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_POOL_CORES_H_
