#include "tools/weft/memory_limit.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/base/error.h"
#include "core/base/mutex.h"

namespace weft {
namespace {

constexpr uint64_t kSmallFile = 1 << 16;

void Keep(uint64_t bytes, absl::string_view name, MemoryLimit* least) {
  if (bytes < least->bytes) *least = {bytes, std::string(name)};
}

// The value of `key` in kB in a file such as /proc/meminfo, as bytes.
uint64_t ValueOf(absl::string_view text, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    std::vector<absl::string_view> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    uint64_t value = 0;
    if (words.size() >= 2 && words[0] == absl::StrCat(key, ":") &&
        absl::SimpleAtoi(words[1], &value)) {
      return value * 1024;
    }
  }
  return 0;
}

// The files of a version of control groups.
struct GroupFiles {
  absl::string_view limit;  // in bytes, or no number
  absl::string_view usage;  // in bytes, of all processes and groups in it
  // In memory.stat, of all of them too: file caches that the system takes back
  // when memory is asked for.
  absl::string_view cache;
};
constexpr GroupFiles kVersion1 = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current",
                                  "inactive_file"};

std::optional<uint64_t> ReadNumber(Os& os, const std::string& path) {
  absl::StatusOr<std::string> text = os.ReadFile(path, kSmallFile);
  uint64_t number = 0;
  if (!text.ok() ||
      !absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &number)) {
    return std::nullopt;
  }
  return number;
}

// The value of `key` in a group's memory.stat; 0 without one.
uint64_t StatOf(Os& os, const std::string& group, absl::string_view key) {
  absl::StatusOr<std::string> text =
      os.ReadFile(JoinPath(group, "memory.stat"), kSmallFile);
  if (!text.ok()) return 0;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    uint64_t value = 0;
    if (absl::ConsumePrefix(&line, key) && absl::ConsumePrefix(&line, " ") &&
        absl::SimpleAtoi(line, &value)) {
      return value;
    }
  }
  return 0;
}

// What is left of the limits on the way from the process's group to the root:
// others in a group use it up as well. A group that does not say how much is
// used has at least this process's `resident` bytes in it.
void KeepGroups(Os& os, const std::string& mount, std::string path,
                const GroupFiles& files, uint64_t resident,
                MemoryLimit* least) {
  while (true) {
    const std::string group = absl::StrCat(mount, path == "/" ? "" : path);
    if (std::optional<uint64_t> limit =
            ReadNumber(os, JoinPath(group, files.limit))) {
      uint64_t used = resident;
      if (std::optional<uint64_t> usage =
              ReadNumber(os, JoinPath(group, files.usage))) {
        used = *usage - std::min(*usage, StatOf(os, group, files.cache));
      }
      Keep(*limit - std::min(*limit, used), "the control group's limit", least);
    }
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos || path.size() <= 1) return;
    path = slash == 0 ? "/" : path.substr(0, slash);
  }
}

// What the report of the end of memory may take: files and their texts.
// An allocator that cannot grow asks for a megabyte at once.
constexpr size_t kSpareBytes = 4 << 20;

struct Report {
  Mutex mu;
  std::function<void(const absl::Status&)> call WEFT_GUARDED_BY(mu);
  void* spare WEFT_GUARDED_BY(mu) = MAP_FAILED;  // not touched: address space

  void FreeSpare() WEFT_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    if (spare != MAP_FAILED) munmap(spare, kSpareBytes);
    spare = MAP_FAILED;
  }
};
Report& TheReport() {
  static auto* report = new Report;
  return *report;
}

constexpr absl::string_view kNoMemory = "the system gave no more memory";

// Without allocating. What cannot be written is lost.
void Say(absl::string_view text) {
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

void OnNoMemory() {
  // The first thread reports; what it needs for that may not be there either.
  static std::atomic<bool> ending{false};
  static std::atomic<std::thread::id> reporter;
  if (ending.exchange(true)) {
    if (reporter.load() == std::this_thread::get_id()) _exit(4);
    for (;;) pause();
  }
  reporter.store(std::this_thread::get_id());
  Say("weft: error WEFT-3001: ");
  Say(kNoMemory);
  Say("\nweft: see docs/errors/WEFT-3001.md\n");
  Report& report = TheReport();
  MutexLock lock(&report.mu);
  if (report.call == nullptr) _exit(4);
  report.FreeSpare();
  report.call(MakeError(ErrorCode::kOutOfMemory, kNoMemory));
  _exit(4);
}

}  // namespace

MemoryLimit HostMemoryLimit(Os& os, const std::string& proc,
                            const std::string& groups, uint64_t address_space) {
  MemoryLimit least;
  absl::StatusOr<std::string> memory =
      os.ReadFile(JoinPath(proc, "meminfo"), kSmallFile);
  if (memory.ok() && absl::StrContains(*memory, "MemAvailable:")) {
    Keep(ValueOf(*memory, "MemAvailable") + ValueOf(*memory, "SwapFree"),
         "the machine's free memory", &least);
  }
  uint64_t size = 0, resident = 0;
  absl::StatusOr<std::string> status =
      os.ReadFile(JoinPath(proc, "self/status"), kSmallFile);
  if (status.ok()) {
    // Separated by a tab.
    const std::string text = absl::StrReplaceAll(*status, {{"\t", " "}});
    size = ValueOf(text, "VmSize");
    resident = ValueOf(text, "VmRSS");
  }
  if (address_space != ~uint64_t{0}) {
    Keep(address_space - std::min(address_space, size),
         "the limit on address space (ulimit -v)", &least);
  }
  absl::StatusOr<std::string> lines =
      os.ReadFile(JoinPath(proc, "self/cgroup"), kSmallFile);
  if (!lines.ok()) return least;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(*lines, '\n'))) {
    // "number:controllers:path"; version 2 has no controllers.
    std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[1].empty()) {
      KeepGroups(os, groups, parts[2], kVersion2, resident, &least);
    } else if (parts[1] == "memory") {
      KeepGroups(os, JoinPath(groups, "memory"), parts[2], kVersion1, resident,
                 &least);
    }
  }
  return least;
}

MemoryLimit HostMemoryLimit(Os& os) {
  rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
  getrlimit(RLIMIT_AS, &limit);
  return HostMemoryLimit(
      os, "/proc", "/sys/fs/cgroup",
      limit.rlim_cur == RLIM_INFINITY ? ~uint64_t{0} : limit.rlim_cur);
}

absl::Status CatchOutOfMemory(const std::string& what,
                              const std::function<absl::Status()>& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return MakeError(ErrorCode::kOutOfMemory,
                     absl::StrCat(what, ": the system gave no more memory"));
  }
}

ThreadMemoryReport::ThreadMemoryReport(
    std::function<void(const absl::Status&)> report) {
  Report& the = TheReport();
  MutexLock lock(&the.mu);
  the.call = std::move(report);
  the.spare = mmap(nullptr, kSpareBytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

ThreadMemoryReport::~ThreadMemoryReport() {
  Report& the = TheReport();
  MutexLock lock(&the.mu);
  the.call = nullptr;
  the.FreeSpare();
}

void EndWhereMemoryEnds() { std::set_new_handler(OnNoMemory); }

}  // namespace weft
