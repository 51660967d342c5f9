#include "plugins/host/services.h"

#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/string_view.h"
#include "glog/logging.h"

namespace weft {
namespace {

// The hooks, one word each, so that a call needs no lock.
std::atomic<decltype(HostHooks::parallel_for)> g_parallel_for{nullptr};
std::atomic<decltype(HostHooks::thread_budget)> g_thread_budget{nullptr};
std::atomic<decltype(HostHooks::notify)> g_notify{nullptr};

absl::string_view View(weft_string s) {
  return s.data == nullptr ? absl::string_view()
                           : absl::string_view(s.data, s.size);
}

}  // namespace

void SetHostHooks(const HostHooks& hooks) {
  SetThreadHooks(hooks.parallel_for, hooks.thread_budget);
  SetNotifyHook(hooks.notify);
}

void SetThreadHooks(decltype(HostHooks::parallel_for) parallel_for,
                    decltype(HostHooks::thread_budget) thread_budget) {
  g_parallel_for.store(parallel_for);
  g_thread_budget.store(thread_budget);
}

void SetNotifyHook(decltype(HostHooks::notify) notify) {
  g_notify.store(notify);
}

HostServices::HostServices(
    std::string plugin,
    std::vector<std::pair<std::string, std::string>> options)
    : plugin_(std::move(plugin)), options_(options.begin(), options.end()) {
  table_.struct_size = sizeof(table_);
  table_.context = this;
  table_.log = &Log;
  table_.parallel_for = &ParallelFor;
  table_.thread_budget = &ThreadBudget;
  table_.option_get = &OptionGet;
  table_.notify = &Notify;
  table_.now_ns = &NowNs;
  table_.alloc = &Alloc;
  table_.free = &Free;
  table_.assert_fail = &AssertFail;
  host_.struct_size = sizeof(host_);
  host_.abi_major = WEFT_ABI_MAJOR;
  host_.abi_minor = WEFT_ABI_MINOR;
  host_.build_flags = BuildFlags();
  host_.services = &table_;
}

std::string HostServices::last_assert_failure() const {
  MutexLock lock(&mu_);
  return last_assert_failure_;
}

uint32_t HostServices::BuildFlags() {
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  return WEFT_BUILD_ASAN;
#elif __has_feature(thread_sanitizer)
  return WEFT_BUILD_TSAN;
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
  return WEFT_BUILD_ASAN;
#elif defined(__SANITIZE_THREAD__)
  return WEFT_BUILD_TSAN;
#else
  return 0;
#endif
}

void HostServices::Log(void* context, uint32_t level, weft_string message) {
  const std::string& plugin = Self(context)->plugin_;
  switch (level) {
    case WEFT_LOG_INFO:
      LOG(INFO) << "plugin " << plugin << ": " << View(message);
      break;
    case WEFT_LOG_WARNING:
      LOG(WARNING) << "plugin " << plugin << ": " << View(message);
      break;
    default:
      LOG(ERROR) << "plugin " << plugin << ": " << View(message);
  }
}

void HostServices::ParallelFor(void* context, uint64_t n,
                               void (*fn)(void* arg, uint64_t i), void* arg) {
  if (auto* hook = g_parallel_for.load(std::memory_order_acquire)) {
    hook(n, fn, arg);
    return;
  }
  for (uint64_t i = 0; i < n; ++i) fn(arg, i);
}

uint32_t HostServices::ThreadBudget(void* context) {
  auto* hook = g_thread_budget.load(std::memory_order_acquire);
  return hook == nullptr ? 1 : hook();
}

weft_string HostServices::OptionGet(void* context, weft_string key) {
  const auto& options = Self(context)->options_;
  auto it = options.find(View(key));
  if (it == options.end()) return {nullptr, 0};
  return {it->second.data(), it->second.size()};
}

void HostServices::Notify(void* context, uint64_t token) {
  if (auto* hook = g_notify.load(std::memory_order_acquire)) hook(token);
}

uint64_t HostServices::NowNs(void* context) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + now.tv_nsec;
}

void* HostServices::Alloc(void* context, uint64_t bytes, uint64_t alignment) {
  HostServices* self = Self(context);
  alignment = std::max<uint64_t>(alignment, alignof(std::max_align_t));
  if ((alignment & (alignment - 1)) != 0 || bytes > PTRDIFF_MAX) return nullptr;
  void* pointer = nullptr;
  if (posix_memalign(&pointer, alignment, std::max<uint64_t>(bytes, 1)) != 0) {
    return nullptr;
  }
  MutexLock lock(&self->mu_);
  self->live_[pointer] = bytes;
  self->bytes_in_use_ += bytes;
  return pointer;
}

void HostServices::Free(void* context, void* pointer) {
  if (pointer == nullptr) return;
  HostServices* self = Self(context);
  {
    MutexLock lock(&self->mu_);
    auto it = self->live_.find(pointer);
    if (it != self->live_.end()) {
      self->bytes_in_use_ -= it->second;
      self->live_.erase(it);
      std::free(pointer);
      return;
    }
  }
  // Not ours: freeing it could only make things worse.
  static constexpr absl::string_view kWhat = "free of an unknown pointer";
  AssertFail(context, {kWhat.data(), kWhat.size()});
}

void HostServices::AssertFail(void* context, weft_string what) {
  HostServices* self = Self(context);
  ++self->assert_failures_;
  LOG(ERROR) << "plugin " << self->plugin_
             << " reports a broken invariant: " << View(what);
  MutexLock lock(&self->mu_);
  self->last_assert_failure_ = std::string(View(what));
}

}  // namespace weft
