// The ground floor of a plugin in C++: errors, the host's services, the ELF
// note.
//
//   weft_sdk::Guard(status, [&] {
//     throw weft_sdk::Error(WEFT_OOM, "no room for 12 bytes");
//   });
//   weft_sdk::Host::Log(WEFT_LOG_INFO, "opened");
//   weft_sdk::Host::ParallelFor(n, [&](uint64_t i) { Row(i); });
//   WEFT_PLUGIN_NOTE((1u << WEFT_SECTION_DEVICE), WEFT_ISA_BASELINE)
//
// A plugin may use exceptions inside; none may leave it. Every function of a
// table therefore runs its body in Guard(), which turns what is thrown into a
// code and a message.
//
// Threading: thread-safe. Depends on the C++17 library and the ABI alone.
#ifndef WEFT_PLUGINS_SDK_WEFT_HOST_HPP_
#define WEFT_PLUGINS_SDK_WEFT_HOST_HPP_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "plugins/abi/weft_plugin.h"

namespace weft_sdk {

// What a function of a plugin throws to answer with `code`.
class Error : public std::runtime_error {
 public:
  Error(weft_code code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  weft_code code() const { return code_; }

 private:
  weft_code code_;
};

inline std::string_view View(weft_string s) {
  return s.data == nullptr ? std::string_view()
                           : std::string_view(s.data, s.size);
}
inline weft_string Str(std::string_view s) { return {s.data(), s.size()}; }

// Writes `code` and `message` into a status of the host, whose size may be
// smaller than this header's.
inline weft_code Fail(weft_status* status, weft_code code,
                      std::string_view message, uint32_t flags = 0) noexcept {
  if (status == nullptr) return code;
  status->code = code;
  const size_t size = status->struct_size;
  if (size >= offsetof(weft_status, flags) + sizeof(status->flags)) {
    status->vendor_code = 0;
    status->flags = flags;
  }
  const size_t begin = offsetof(weft_status, message);
  if (size <= begin) return code;
  const size_t room = std::min(size - begin, sizeof(status->message)) - 1;
  const size_t n = std::min(room, message.size());
  std::memcpy(status->message, message.data(), n);
  status->message[n] = '\0';
  return code;
}

inline weft_code Ok(weft_status* status) noexcept {
  if (status != nullptr) status->code = WEFT_OK;
  return WEFT_OK;
}

// The answer to whatever was thrown; call it in a catch block only.
inline weft_code FailCurrent(weft_status* status) noexcept {
  try {
    throw;
  } catch (const Error& e) {
    return Fail(status, e.code(), e.what());
  } catch (const std::bad_alloc&) {
    return Fail(status, WEFT_OOM, "out of host memory");
  } catch (const std::exception& e) {
    return Fail(status, WEFT_INTERNAL, e.what());
  } catch (...) {
    return Fail(status, WEFT_INTERNAL, "unknown exception");
  }
}

// Runs f() and answers for it.
template <typename F>
weft_code Guard(weft_status* status, F&& f) noexcept {
  try {
    f();
    return Ok(status);
  } catch (...) {
    return FailCurrent(status);
  }
}

// Copies `value` to a struct that the host owns: only as many bytes as the host
// knows of, and not its size.
template <typename T>
void WriteOut(T* out, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const size_t head = sizeof(uint32_t);  // struct_size
  const size_t size = std::min<size_t>(out->struct_size, sizeof(T));
  if (size <= head) return;
  std::memcpy(reinterpret_cast<char*>(out) + head,
              reinterpret_cast<const char*>(&value) + head, size - head);
}

// A copy of a struct that the host owns, zero beyond what the host knows of.
template <typename T>
T ReadIn(const T* in) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value{};
  if (in != nullptr) {
    std::memcpy(static_cast<void*>(&value), in,
                std::min<size_t>(in->struct_size, sizeof(T)));
  }
  value.struct_size = sizeof(T);
  return value;
}

// Element i of an array of structs that the host owns: the host's struct may be
// larger or smaller than this header's.
template <typename T>
T ReadElement(const T* array, uint64_t i) {
  return ReadIn(reinterpret_cast<const T*>(
      reinterpret_cast<const char*>(array) + i * array->struct_size));
}

// The host's services. Where the host lacks one, the default is what a program
// without Weft would do.
class Host {
 public:
  // Called at entry. False: a host of another major version.
  static bool Accept(const weft_host* host) {
    if (host == nullptr || host->struct_size < kHostSize ||
        host->abi_major != WEFT_ABI_MAJOR) {
      return false;
    }
    table_.store(host->services);
    return true;
  }

  static void Log(uint32_t level, std::string_view message) {
    if (auto* s = Table(offsetof(weft_host_services, log))) {
      if (s->log != nullptr) s->log(s->context, level, Str(message));
    }
  }

  // Calls f(i) for i in [0, n). What f throws is kept and thrown here, once.
  template <typename F>
  static void ParallelFor(uint64_t n, F&& f) {
    auto* s = Table(offsetof(weft_host_services, parallel_for));
    if (s == nullptr || s->parallel_for == nullptr || n <= 1) {
      for (uint64_t i = 0; i < n; ++i) f(i);
      return;
    }
    struct Run {
      std::remove_reference_t<F>* f;
      std::atomic<bool> failed{false};
      std::exception_ptr error;
    } run{&f, {}, {}};
    s->parallel_for(
        s->context, n,
        [](void* arg, uint64_t i) {
          Run* run = static_cast<Run*>(arg);
          try {
            (*run->f)(i);
          } catch (...) {
            if (!run->failed.exchange(true)) {
              run->error = std::current_exception();
            }
          }
        },
        &run);
    if (run.failed.load()) std::rethrow_exception(run.error);
  }

  // Number of threads that ParallelFor may use, at least 1.
  static uint32_t ThreadBudget() {
    auto* s = Table(offsetof(weft_host_services, thread_budget));
    if (s == nullptr || s->thread_budget == nullptr) return 1;
    return std::max<uint32_t>(1, s->thread_budget(s->context));
  }

  // The value of an option of the job or the user; empty where not set.
  static std::string Option(std::string_view key) {
    auto* s = Table(offsetof(weft_host_services, option_get));
    if (s == nullptr || s->option_get == nullptr) return {};
    return std::string(View(s->option_get(s->context, Str(key))));
  }

  static void Notify(uint64_t token) {
    auto* s = Table(offsetof(weft_host_services, notify));
    if (token != 0 && s != nullptr && s->notify != nullptr) {
      s->notify(s->context, token);
    }
  }

  // Reports a broken invariant; goes on.
  static void AssertFail(std::string_view what) {
    auto* s = Table(offsetof(weft_host_services, assert_fail));
    if (s != nullptr && s->assert_fail != nullptr) {
      s->assert_fail(s->context, Str(what));
    }
  }

 private:
  static constexpr size_t kHostSize =
      offsetof(weft_host, services) + sizeof(void*);

  // The table where it reaches over the slot at `offset`, else null.
  static const weft_host_services* Table(size_t offset) {
    const weft_host_services* s = table_.load(std::memory_order_relaxed);
    return s != nullptr && s->struct_size >= offset + sizeof(void*) ? s
                                                                    : nullptr;
  }

  static inline std::atomic<const weft_host_services*> table_{nullptr};
};

// The WEFT_BUILD_* flags of this file's compilation.
#if defined(__has_feature)
#define WEFT_SDK_HAS_FEATURE_(x) __has_feature(x)
#else
#define WEFT_SDK_HAS_FEATURE_(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || WEFT_SDK_HAS_FEATURE_(address_sanitizer)
#define WEFT_SDK_BUILD_FLAGS WEFT_BUILD_ASAN
#elif defined(__SANITIZE_THREAD__) || WEFT_SDK_HAS_FEATURE_(thread_sanitizer)
#define WEFT_SDK_BUILD_FLAGS WEFT_BUILD_TSAN
#else
#define WEFT_SDK_BUILD_FLAGS 0u
#endif

// One note of the ELF format, with its description.
struct ElfNote {
  uint32_t name_size;
  uint32_t desc_size;
  uint32_t type;
  char name[8];  // "WEFT" and its end, padded to 4 bytes
  weft_note desc;
};
static_assert(sizeof(ElfNote) == 40, "an ELF note has no padding");

}  // namespace weft_sdk

// Puts the note into the file. `roles` has bit (section id) for each section,
// `isa` is WEFT_ISA_*: what every function of the file may use.
#define WEFT_PLUGIN_NOTE(roles, isa)                                    \
  __attribute__((                                                       \
      used, section(".note.weft"),                                      \
      aligned(4))) static const weft_sdk::ElfNote weft_plugin_note_ = { \
      5,                                                                \
      sizeof(weft_note),                                                \
      1,                                                                \
      {'W', 'E', 'F', 'T'},                                             \
      {WEFT_ABI_MAJOR, WEFT_ABI_MINOR, WEFT_SDK_BUILD_FLAGS, isa, roles}};

// Opens the definition of the one exported symbol:
//   WEFT_PLUGIN_ENTRY(host) { return ...; }
#define WEFT_PLUGIN_ENTRY(host)                                        \
  extern "C" __attribute__((visibility("default"))) const weft_plugin* \
  weft_plugin_query(const weft_host* host)

#endif  // WEFT_PLUGINS_SDK_WEFT_HOST_HPP_
