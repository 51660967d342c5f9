#include "runtime/pool/cores.h"

#include <sched.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace weft::runtime {
namespace {

constexpr uint64_t kSmallFile = 1 << 16;

void KeepSmaller(std::optional<uint32_t> cores, std::optional<uint32_t>* best) {
  if (!cores.has_value()) return;
  *best = best->has_value() ? std::min(**best, *cores) : *cores;
}

// The quota of one group, by whichever version's files lie there.
std::optional<uint32_t> QuotaOf(Os& os, const std::string& directory) {
  auto text = os.ReadFile(JoinPath(directory, "cpu.max"), kSmallFile);
  if (text.ok()) return CoresOfCpuMax(*text);
  auto quota = os.ReadFile(JoinPath(directory, "cpu.cfs_quota_us"), kSmallFile);
  auto period =
      os.ReadFile(JoinPath(directory, "cpu.cfs_period_us"), kSmallFile);
  if (!quota.ok() || !period.ok()) return std::nullopt;
  return CoresOfCpuMax(absl::StrCat(*quota, " ", *period));
}

// From `path` up to the root of the hierarchy mounted at `mount`.
void WalkUp(Os& os, const std::string& mount, absl::string_view path,
            std::optional<uint32_t>* best) {
  while (true) {
    KeepSmaller(QuotaOf(os, absl::StrCat(mount, path == "/" ? "" : path)),
                best);
    size_t slash = path.rfind('/');
    if (slash == absl::string_view::npos || path.size() <= 1) return;
    path = slash == 0 ? "/" : path.substr(0, slash);
  }
}

}  // namespace

std::optional<uint32_t> CoresOfCpuMax(absl::string_view text) {
  std::vector<std::string> parts =
      absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
  int64_t quota = 0, period = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &quota) ||
      !absl::SimpleAtoi(parts[1], &period) || quota <= 0 || period <= 0) {
    return std::nullopt;  // "max", or -1 in version 1
  }
  int64_t cores = quota / period + (quota % period != 0 ? 1 : 0);
  return static_cast<uint32_t>(std::min<int64_t>(cores, UINT32_MAX));
}

std::optional<uint32_t> QuotaCores(Os& os, const std::string& proc,
                                   const std::string& groups) {
  std::optional<uint32_t> best;
  auto text = os.ReadFile(JoinPath(proc, "cgroup"), kSmallFile);
  if (!text.ok()) return best;
  // Lines "number:controllers:path"; version 2 has no controllers.
  std::vector<std::string> lines = absl::StrSplit(*text, '\n');
  for (const std::string& line : lines) {
    std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || parts[2].empty()) continue;
    std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    bool cpu = std::find(controllers.begin(), controllers.end(), "cpu") !=
               controllers.end();
    if (parts[1].empty()) {
      WalkUp(os, groups, parts[2], &best);
    } else if (cpu) {
      WalkUp(os, JoinPath(groups, "cpu"), parts[2], &best);
    }
  }
  return best;
}

std::optional<uint32_t> OnlyCore() {
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0 || CPU_COUNT(&mask) != 1) {
    return std::nullopt;
  }
  uint32_t core = 0;
  while (!CPU_ISSET(core, &mask)) ++core;
  return core;
}

uint32_t AvailableCores(Os& os) {
  uint32_t cores = std::thread::hardware_concurrency();
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
    cores = static_cast<uint32_t>(CPU_COUNT(&mask));
  }
  std::optional<uint32_t> quota =
      QuotaCores(os, "/proc/self", "/sys/fs/cgroup");
  if (quota.has_value()) cores = std::min(cores, *quota);
  return std::max<uint32_t>(cores, 1);
}

}  // namespace weft::runtime
