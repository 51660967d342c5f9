#include "runtime/pool/host_threads.h"

#include <algorithm>
#include <atomic>

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

}  // namespace

std::unique_ptr<HostThreads> HostThreads::Install(Os& os, uint32_t threads) {
  const uint32_t cores = AvailableCores(os);
  ThreadPool::Options options;
  options.threads = std::min(threads == 0 ? cores : threads, kMaxThreads);
  options.spin_ns = options.threads <= cores ? kSpinNs : 0;
  std::unique_ptr<HostThreads> installed(new HostThreads(options));
  g_pool.store(&installed->pool_, std::memory_order_release);
  SetThreadHooks(&ParallelFor, &ThreadBudget);
  return installed;
}

HostThreads::~HostThreads() {
  ThreadPool* mine = &pool_;
  g_pool.compare_exchange_strong(mine, nullptr);
}

}  // namespace weft::runtime
