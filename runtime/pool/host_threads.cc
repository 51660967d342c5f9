#include "runtime/pool/host_threads.h"

#include <algorithm>
#include <atomic>

#include "core/base/status_macros.h"
#include "glog/logging.h"
#include "plugins/host/services.h"
#include "runtime/pool/cores.h"

namespace weft::runtime {
namespace {

// How long a thread of the pool looks for more before it sleeps, where every
// thread can have a core.
constexpr uint64_t kSpinNs = 20000;
// More helpers than this is a typing error, not a machine.
constexpr uint32_t kMaxThreads = 1024;

std::atomic<ThreadPool*> g_pool{nullptr};

void ParallelFor(uint64_t n, void (*fn)(void* arg, uint64_t i), void* arg) {
  if (ThreadPool* pool = g_pool.load(std::memory_order_acquire)) {
    return pool->ParallelFor(n, fn, arg);
  }
  for (uint64_t i = 0; i < n; ++i) fn(arg, i);
}

uint32_t ThreadBudget() {
  ThreadPool* pool = g_pool.load(std::memory_order_acquire);
  return pool == nullptr ? 1 : pool->threads();
}

void Bind(const CoreBinding& binding, uint32_t thread) {
  if (binding.BindThisThread(thread)) return;
  LOG(WARNING) << "the system does not bind thread " << thread
               << " to processor " << binding.processors()[thread];
}

}  // namespace

void HostThreads::BindCaller() const {
  if (binding_ != nullptr) Bind(*binding_, 0);
}

absl::StatusOr<std::unique_ptr<HostThreads>> HostThreads::Install(
    Os& os, uint32_t threads, bool bind) {
  const uint32_t cores = AvailableCores(os);
  ThreadPool::Options options;
  options.threads = std::min(threads == 0 ? cores : threads, kMaxThreads);
  options.spin_ns = options.threads <= cores ? kSpinNs : 0;
  std::shared_ptr<const CoreBinding> binding;
  if (bind) {
    WEFT_ASSIGN_OR_RETURN(binding, CoreBinding::Find(options.threads));
    options.on_start = [binding](uint32_t helper) { Bind(*binding, helper); };
  }
  std::unique_ptr<HostThreads> installed(
      new HostThreads(options, std::move(binding)));
  g_pool.store(&installed->pool_, std::memory_order_release);
  SetThreadHooks(&ParallelFor, &ThreadBudget);
  return installed;
}

HostThreads::~HostThreads() {
  ThreadPool* mine = &pool_;
  g_pool.compare_exchange_strong(mine, nullptr);
}

}  // namespace weft::runtime
