// HostThreads: what the plugins' host services parallel_for and thread_budget
// mean in this process. The owner of a session makes one before it opens
// kernels and keeps it until the session is gone.
//
//   auto threads = HostThreads::Install(RealOs(), job.runtime().threads(),
//                                       /*bind=*/false).value();
//   threads->count();   // "threads 2"
//
// Bound, each helper has a core of its own, and the thread that starts the
// loops should take the first with BindCaller().
//
// While none is installed, plugins run their loops in the calling thread. One
// is installed at a time; the newest counts, and without it there is none.
//
// Threading: Install and the destructor while no kernel runs.
#ifndef WEFT_RUNTIME_POOL_HOST_THREADS_H_
#define WEFT_RUNTIME_POOL_HOST_THREADS_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/os.h"
#include "runtime/pool/binding.h"
#include "runtime/pool/pool.h"

namespace weft::runtime {

class HostThreads {
 public:
  // `threads` counts the caller of a loop; 0 is the machine's cores.
  // Fails only where they are to be bound: as CoreBinding::Find.
  static absl::StatusOr<std::unique_ptr<HostThreads>> Install(Os& os,
                                                              uint32_t threads,
                                                              bool bind);
  ~HostThreads();
  HostThreads(const HostThreads&) = delete;
  HostThreads& operator=(const HostThreads&) = delete;

  uint32_t count() const { return pool_.threads(); }
  bool bound() const { return binding_ != nullptr; }
  // The calling thread to the first core. Nothing where threads are not bound.
  void BindCaller() const;

 private:
  HostThreads(const ThreadPool::Options& options,
              std::shared_ptr<const CoreBinding> binding)
      : binding_(std::move(binding)), pool_(options) {}

  std::shared_ptr<const CoreBinding> binding_;  // null: threads go anywhere
  ThreadPool pool_;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_POOL_HOST_THREADS_H_
