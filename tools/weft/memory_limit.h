// How much more memory this process may take, so that a job that needs more is
// refused before anything of its size is asked for.
//
//   MemoryLimit limit = HostMemoryLimit(RealOs());
//   if (planned > limit.bytes) ...  "needs ..., " limit.name " leaves ..."
//
// EndWhereMemoryEnds and ThreadMemoryReport are for what no plan knows before:
// of what reads files and builds graphs, the sum of sizes is only known
// afterwards. CatchOutOfMemory turns a std::bad_alloc that is thrown all the
// same, by a library, into a status.
//
// Threading: thread-safe functions.
#ifndef WEFT_TOOLS_WEFT_MEMORY_LIMIT_H_
#define WEFT_TOOLS_WEFT_MEMORY_LIMIT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "core/base/os.h"

namespace weft {

struct MemoryLimit {
  uint64_t bytes = ~uint64_t{0};
  std::string name = "nothing";  // what limits
};

// The least of what is left of the limit on this process's address space
// (ulimit -v), of the limits of its control groups, which their other processes
// use as well, and of the machine's free memory, caches and swap included.
MemoryLimit HostMemoryLimit(Os& os);

// The same by given files: `proc` is "/proc", `groups` "/sys/fs/cgroup";
// `address_space` is the limit on it, in bytes.
MemoryLimit HostMemoryLimit(Os& os, const std::string& proc,
                            const std::string& groups, uint64_t address_space);

// Runs `f`; kOutOfMemory where it throws std::bad_alloc. `what` begins the
// message.
absl::Status CatchOutOfMemory(const std::string& what,
                              const std::function<absl::Status()>& f);

// From now on, operator new that gets no memory ends the process with the typed
// message. To throw is no way out: a hash table that was about to grow does not
// survive it, and nobody above a thread could catch.
void EndWhereMemoryEnds();

// While one lives, what it was made with is called before such an end of the
// process, on the thread that got no memory and with a little memory set free
// for it: the last words of a run. One at a time.
class ThreadMemoryReport {
 public:
  explicit ThreadMemoryReport(std::function<void(const absl::Status&)> report);
  ~ThreadMemoryReport();
  ThreadMemoryReport(const ThreadMemoryReport&) = delete;
  ThreadMemoryReport& operator=(const ThreadMemoryReport&) = delete;
};

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_MEMORY_LIMIT_H_
