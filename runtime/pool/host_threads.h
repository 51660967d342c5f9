// HostThreads: what the plugins' host services parallel_for and thread_budget
// mean in this process. The owner of a session makes one before it opens
// kernels and keeps it until the session is gone.
//
//   auto threads = HostThreads::Install(RealOs(), job.runtime().threads());
//   threads->count();   // "threads 2"
//
// While none is installed, plugins run their loops in the calling thread. One
// is installed at a time; the newest counts, and without it there is none.
//
// Threading: Install and the destructor while no kernel runs.
#ifndef WEFT_RUNTIME_POOL_HOST_THREADS_H_
#define WEFT_RUNTIME_POOL_HOST_THREADS_H_

#include <cstdint>
#include <memory>

#include "core/base/os.h"
#include "runtime/pool/pool.h"

namespace weft::runtime {

class HostThreads {
 public:
  // `threads` counts the caller of a loop; 0 is the machine's cores.
  static std::unique_ptr<HostThreads> Install(Os& os, uint32_t threads);
  ~HostThreads();
  HostThreads(const HostThreads&) = delete;
  HostThreads& operator=(const HostThreads&) = delete;

  uint32_t count() const { return pool_.threads(); }

 private:
  explicit HostThreads(const ThreadPool::Options& options) : pool_(options) {}

  ThreadPool pool_;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_POOL_HOST_THREADS_H_
