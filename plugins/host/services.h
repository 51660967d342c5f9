// What Weft offers a plugin: the host side of weft_host_services.
//
// One object per plugin; it holds the plugin's options and counts what the
// plugin allocates. The hooks are one set for the process: the run-time
// installs them before it opens a device.
//
//   SetHostHooks({.parallel_for = &RunOnWorkers, .notify = &WakeWorker});
//
// Threading: thread-safe; a plugin calls from any of its threads.
#ifndef WEFT_PLUGINS_HOST_SERVICES_H_
#define WEFT_PLUGINS_HOST_SERVICES_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "plugins/abi/weft_plugin.h"

namespace weft {

// What only the run-time can do. A null function takes the default: a serial
// loop, a budget of 1, no wake-up.
struct HostHooks {
  // Calls fn(arg, i) for i in [0, n), returns when all are done. The calling
  // thread tells whose threads to use.
  void (*parallel_for)(uint64_t n, void (*fn)(void* arg, uint64_t i),
                       void* arg) = nullptr;
  uint32_t (*thread_budget)() = nullptr;
  // Wakes the worker that gave `token` with Device::OpenStream. Must not block.
  void (*notify)(uint64_t token) = nullptr;
};
void SetHostHooks(const HostHooks& hooks);
// A part of them, for one who knows nothing of the rest: two parts may be set
// at once.
void SetThreadHooks(decltype(HostHooks::parallel_for) parallel_for,
                    decltype(HostHooks::thread_budget) thread_budget);
void SetNotifyHook(decltype(HostHooks::notify) notify);

class HostServices {
 public:
  HostServices(std::string plugin,
               std::vector<std::pair<std::string, std::string>> options);
  HostServices(const HostServices&) = delete;
  HostServices& operator=(const HostServices&) = delete;

  // The argument of weft_plugin_query; lives as long as this object.
  const weft_host* host() const { return &host_; }

  // Bytes that the plugin has from `alloc` now.
  uint64_t bytes_in_use() const { return bytes_in_use_.load(); }
  // Broken invariants that the plugin reported.
  uint64_t assert_failures() const { return assert_failures_.load(); }
  std::string last_assert_failure() const;

  // WEFT_BUILD_* of this program.
  static uint32_t BuildFlags();

 private:
  static HostServices* Self(void* context) {
    return static_cast<HostServices*>(context);
  }
  static void Log(void* context, uint32_t level, weft_string message);
  static void ParallelFor(void* context, uint64_t n,
                          void (*fn)(void* arg, uint64_t i), void* arg);
  static uint32_t ThreadBudget(void* context);
  static weft_string OptionGet(void* context, weft_string key);
  static void Notify(void* context, uint64_t token);
  static uint64_t NowNs(void* context);
  static void* Alloc(void* context, uint64_t bytes, uint64_t alignment);
  static void Free(void* context, void* pointer);
  static void AssertFail(void* context, weft_string what);

  const std::string plugin_;
  const std::map<std::string, std::string, std::less<>> options_;
  weft_host_services table_{};
  weft_host host_{};
  std::atomic<uint64_t> bytes_in_use_{0};
  std::atomic<uint64_t> assert_failures_{0};
  mutable Mutex mu_;
  std::map<void*, uint64_t> live_ WEFT_GUARDED_BY(mu_);
  std::string last_assert_failure_ WEFT_GUARDED_BY(mu_);
};

}  // namespace weft

#endif  // WEFT_PLUGINS_HOST_SERVICES_H_
