// A whole device for authors whose kernels run inside the call, in memory that
// the host can address: a CPU, or a simple simulator. What is left to write is
// a description, kernels, and a macro:
//
//   struct Toy {
//     static constexpr char kName[] = "toy";      // device kind
//     static constexpr char kVendor[] = "acme";
//     static constexpr char kVersion[] = "1.0";   // build id
//     using Device = weft_sdk::InlineDevice;      // or a class derived from it
//     static bool Describe(uint32_t index, weft_device_info* info) {
//       if (index > 0) return false;
//       weft_sdk::SetText(info->name, "toy device");
//       info->memory_bytes = 1 << 30;
//       return true;
//     }
//     static void Register(weft_sdk::Registry* kernels) {
//       kernels->Add<Relu>(WEFT_OP_RELU);
//     }
//   };
//   WEFT_INLINE_PLUGIN(Toy, WEFT_ISA_BASELINE)
//
// Sections: device, compute, mem2, sync2. A weft_mem is the address of the
// allocation; copies and frees are checked against the table of allocations,
// launches are not (that would cost more than a small kernel).
//
// Threading: as the ABI asks.
#ifndef WEFT_PLUGINS_SDK_WEFT_INLINE_HPP_
#define WEFT_PLUGINS_SDK_WEFT_INLINE_HPP_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "plugins/abi/weft_plugin.h"
#include "plugins/sdk/weft_host.hpp"
#include "plugins/sdk/weft_kernel.hpp"

namespace weft_sdk {

// Copies text into a char array of a struct, cut to fit.
template <size_t N>
void SetText(char (&field)[N], std::string_view text) {
  const size_t n = std::min(N - 1, text.size());
  std::memcpy(field, text.data(), n);
  field[n] = '\0';
}

// Allocations with their sizes. Derive to take options or to get memory
// elsewhere.
class InlineDevice {
 public:
  // Largest alignment that mem_alloc takes.
  static constexpr uint64_t kMaxAlignment = uint64_t{1} << 30;

  InlineDevice() = default;
  virtual ~InlineDevice() = default;
  InlineDevice(const InlineDevice&) = delete;
  InlineDevice& operator=(const InlineDevice&) = delete;

  // An option of device_open. False: unknown. Throws on a bad value.
  virtual bool SetOption(std::string_view key, std::string_view value) {
    return false;
  }
  // After the last option.
  virtual void Start() {}

  const weft_device_info& info() const { return info_; }

 protected:
  // `alignment` is a power of two, `bytes` a multiple of it, above zero. Null:
  // out of memory.
  virtual void* Obtain(uint64_t bytes, uint64_t alignment) {
    return std::aligned_alloc(alignment, bytes);
  }
  virtual void Release(void* memory, uint64_t bytes) { std::free(memory); }

 private:
  template <typename P>
  friend class InlineTables;

  struct Stream {
    InlineDevice* device;
    std::atomic<uint64_t> tick{0};
  };
  struct Allocation {
    uint64_t bytes;     // as asked for
    uint64_t obtained;  // as given by Obtain
  };

  weft_mem Allocate(uint64_t bytes, uint32_t kind, uint64_t alignment) {
    if (kind != WEFT_MEM_DEVICE && kind != WEFT_MEM_HOST) {
      throw Error(WEFT_INVALID, "unknown kind of memory");
    }
    if ((alignment & (alignment - 1)) != 0 || alignment > kMaxAlignment) {
      throw Error(WEFT_INVALID, "alignment is not a power of two up to 2^30");
    }
    alignment = std::max<uint64_t>(alignment, info_.alignment);
    const uint64_t limit = info_.memory_bytes;
    if (bytes > limit || bytes > UINT64_MAX - alignment) {
      std::lock_guard<std::mutex> lock(mu_);
      NoRoom(bytes);
    }
    const uint64_t obtained =
        (std::max<uint64_t>(bytes, 1) + alignment - 1) & ~(alignment - 1);
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (reserved_ + bytes > limit) NoRoom(bytes);
      reserved_ += bytes;  // before Obtain, so that the limit holds
    }
    void* memory = nullptr;
    try {
      memory = Obtain(obtained, alignment);
      std::lock_guard<std::mutex> lock(mu_);
      if (memory == nullptr) NoRoom(bytes);
      const weft_mem mem = reinterpret_cast<weft_mem>(memory);
      allocations_[mem] = Allocation{bytes, obtained};
      in_use_ += bytes;
      peak_ = std::max(peak_, in_use_);
      return mem;
    } catch (...) {
      if (memory != nullptr) Release(memory, obtained);
      std::lock_guard<std::mutex> lock(mu_);
      reserved_ -= bytes;
      throw;
    }
  }

  void Deallocate(weft_mem mem) {
    Allocation gone;
    {
      std::lock_guard<std::mutex> lock(mu_);
      auto it = allocations_.find(mem);
      if (it == allocations_.end()) {
        throw Error(WEFT_INVALID, "memory is unknown or already freed");
      }
      gone = it->second;
      allocations_.erase(it);
      in_use_ -= gone.bytes;
      reserved_ -= gone.bytes;
    }
    Release(reinterpret_cast<void*>(mem), gone.obtained);
  }

  // The address of [offset, offset + bytes) of `mem`; WEFT_RANGE beyond it.
  char* Resolve(weft_mem mem, uint64_t offset, uint64_t bytes) {
    std::lock_guard<std::mutex> lock(mu_);
    auto it = allocations_.find(mem);
    if (it == allocations_.end()) {
      throw Error(WEFT_INVALID, "memory is unknown or already freed");
    }
    const uint64_t size = it->second.bytes;
    if (offset > size || bytes > size - offset) {
      throw Error(WEFT_RANGE, "bytes " + std::to_string(offset) + " + " +
                                  std::to_string(bytes) +
                                  " of an allocation of " +
                                  std::to_string(size) + " bytes");
    }
    return reinterpret_cast<char*>(mem) + offset;
  }
  char* Resolve(const weft_place& place, uint64_t bytes) {
    if (place.mem != 0 && place.host != nullptr) {
      throw Error(WEFT_INVALID, "a place with both memory and a pointer");
    }
    if (place.mem != 0) return Resolve(place.mem, place.offset, bytes);
    if (place.host == nullptr && bytes != 0) {
      throw Error(WEFT_INVALID, "a place with neither memory nor a pointer");
    }
    return static_cast<char*>(place.host);
  }

  // Pre-condition: mu_ is held.
  [[noreturn]] void NoRoom(uint64_t bytes) const {
    throw Error(WEFT_OOM,
                std::to_string(bytes) +
                    " bytes do not fit: " + std::to_string(reserved_) + " of " +
                    std::to_string(info_.memory_bytes) + " are in use");
  }

  weft_device_info info_{};
  std::mutex mu_;
  std::unordered_map<weft_mem, Allocation> allocations_;
  uint64_t reserved_ = 0;  // in use or about to be
  uint64_t in_use_ = 0;
  uint64_t peak_ = 0;
  std::atomic<uint64_t> handles_{0};  // streams and kernels
};

// The tables of plugin P: see the head of the file for what P has.
template <typename P>
class InlineTables {
 public:
  static const weft_plugin* Query(const weft_host* host) {
    if (!Host::Accept(host)) return nullptr;
    return &kPlugin;
  }

 private:
  static InlineDevice* From(weft_device* d) {
    if (d == nullptr) throw Error(WEFT_INVALID, "no device");
    return reinterpret_cast<InlineDevice*>(d);
  }
  static InlineDevice::Stream* From(weft_stream* s) {
    if (s == nullptr) throw Error(WEFT_INVALID, "no stream");
    return reinterpret_cast<InlineDevice::Stream*>(s);
  }

  static const Registry& Kernels() {
    static const Registry* registry = [] {
      auto* r = new Registry;  // lives as long as the program
      P::Register(r);
      return r;
    }();
    return *registry;
  }

  static weft_device_info Describe(uint32_t index) {
    weft_device_info info{};
    info.struct_size = sizeof(info);
    info.flags = WEFT_DEVICE_INLINE | WEFT_DEVICE_HOST_MAPPED;
    info.alignment = 64;
    info.max_streams = 1024;
    info.numa_node = -1;
    if (!P::Describe(index, &info)) {
      throw Error(WEFT_RANGE, "no device " + std::to_string(index));
    }
    return info;
  }

  static weft_code DeviceInfo(uint32_t index, weft_device_info* out,
                              weft_status* status) {
    return Guard(status, [&] { WriteOut(out, Describe(index)); });
  }

  static weft_code Open(uint32_t index, const weft_device_options* options,
                        weft_device** out, weft_status* status) {
    return Guard(status, [&] {
      const weft_device_info info = Describe(index);
      auto device = std::make_unique<typename P::Device>();
      InlineDevice* base = device.get();
      base->info_ = info;
      const weft_device_options o = ReadIn(options);
      for (uint32_t i = 0; i < o.count; ++i) {
        const std::string_view key = View(o.options[i].key);
        if (!base->SetOption(key, View(o.options[i].value))) {
          throw Error(WEFT_INVALID,
                      "unknown option '" + std::string(key) + "'");
        }
      }
      base->Start();
      device.release();
      *out = reinterpret_cast<weft_device*>(base);
    });
  }

  static weft_code Close(weft_device* device, weft_status* status) {
    return Guard(status, [&] {
      InlineDevice* d = From(device);
      {
        std::lock_guard<std::mutex> lock(d->mu_);
        if (!d->allocations_.empty() || d->handles_.load() != 0) {
          throw Error(WEFT_BUSY, std::to_string(d->allocations_.size()) +
                                     " allocations and " +
                                     std::to_string(d->handles_.load()) +
                                     " streams and kernels are live");
        }
      }
      delete d;
    });
  }

  static weft_code MemAlloc(weft_device* device, uint64_t bytes, uint32_t kind,
                            uint64_t alignment, weft_mem* out,
                            weft_status* status) {
    return Guard(
        status, [&] { *out = From(device)->Allocate(bytes, kind, alignment); });
  }

  static weft_code MemFree(weft_device* device, weft_mem mem,
                           weft_status* status) {
    return Guard(status, [&] { From(device)->Deallocate(mem); });
  }

  static weft_code StreamOpen(weft_device* device,
                              const weft_stream_options* options,
                              weft_stream** out, weft_status* status) {
    return Guard(status, [&] {
      InlineDevice* d = From(device);
      *out = reinterpret_cast<weft_stream*>(new InlineDevice::Stream{d, {}});
      ++d->handles_;
    });
  }

  static weft_code StreamClose(weft_stream* stream, weft_status* status) {
    return Guard(status, [&] {
      InlineDevice::Stream* s = From(stream);
      --s->device->handles_;
      delete s;
    });
  }

  static weft_code Copy(weft_stream* stream, const weft_place* dst,
                        const weft_place* src, uint64_t bytes,
                        weft_status* status) {
    return Guard(status, [&] {
      InlineDevice* d = From(stream)->device;
      char* to = d->Resolve(*dst, bytes);
      const char* from = d->Resolve(*src, bytes);
      if (bytes == 0) return;
      if (to < from + bytes && from < to + bytes) {
        throw Error(WEFT_INVALID, "the sides of a copy overlap");
      }
      std::memcpy(to, from, bytes);
    });
  }

  static weft_code Mark(weft_stream* stream, uint64_t* tick,
                        weft_status* status) {
    return Guard(status, [&] { *tick = ++From(stream)->tick; });
  }

  static weft_code Poll(weft_stream* stream, uint64_t* done,
                        weft_status* status) {
    return Guard(status, [&] { *done = From(stream)->tick.load(); });
  }

  static weft_code Wait(weft_stream* stream, uint64_t tick, uint64_t timeout_ns,
                        weft_status* status) {
    return Guard(status, [&] {
      if (tick > From(stream)->tick.load()) {
        throw Error(WEFT_INVALID, "a tick that was never marked");
      }
    });
  }

  static weft_code KernelMatch(weft_device* device, const weft_op_desc* desc,
                               weft_match* out, weft_status* status) {
    try {
      weft_match answer{};
      if (!Kernels().Match(Op(desc), &answer)) {
        return Fail(status, WEFT_UNSUPPORTED, "");
      }
      WriteOut(out, answer);
      return Ok(status);
    } catch (...) {
      return FailCurrent(status);
    }
  }

  // The handle of a kernel: the kernel first, so that a launch reads one line.
  struct OpenKernel {
    std::unique_ptr<Kernel> kernel;
    InlineDevice* device;
  };

  static weft_code KernelOpen(weft_device* device, const weft_op_desc* desc,
                              weft_kernel** out, weft_status* status) {
    return Guard(status, [&] {
      InlineDevice* d = From(device);
      auto* open = new OpenKernel{Kernels().Create(Op(desc)), d};
      ++d->handles_;
      *out = reinterpret_cast<weft_kernel*>(open);
    });
  }

  static weft_code KernelLaunch(weft_kernel* kernel, weft_stream* stream,
                                const weft_buffer* inputs,
                                const weft_buffer* outputs,
                                const weft_buffer* workspace,
                                weft_status* status) noexcept {
    try {
      reinterpret_cast<OpenKernel*>(kernel)->kernel->Launch(
          Call(inputs, outputs, workspace));
      return Ok(status);
    } catch (...) {
      return FailCurrent(status);
    }
  }

  static weft_code KernelClose(weft_kernel* kernel, weft_status* status) {
    return Guard(status, [&] {
      auto* open = reinterpret_cast<OpenKernel*>(kernel);
      if (open == nullptr) throw Error(WEFT_INVALID, "no kernel");
      --open->device->handles_;
      delete open;
    });
  }

  static weft_code HostMap(weft_device* device, weft_mem mem, uint64_t offset,
                           uint64_t bytes, void** out, weft_status* status) {
    return Guard(status,
                 [&] { *out = From(device)->Resolve(mem, offset, bytes); });
  }

  static weft_code MemInfo(weft_device* device, weft_mem_info* out,
                           weft_status* status) {
    return Guard(status, [&] {
      InlineDevice* d = From(device);
      weft_mem_info info{};
      {
        std::lock_guard<std::mutex> lock(d->mu_);
        info.bytes_in_use = d->in_use_;
        info.peak_bytes = d->peak_;
        info.allocations = d->allocations_.size();
      }
      WriteOut(out, info);
    });
  }

  static weft_code HostSignal(weft_stream* stream, uint32_t* word,
                              weft_status* status) {
    return Guard(status, [&] {
      From(stream);
      __atomic_fetch_add(word, 1, __ATOMIC_RELEASE);
      syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
    });
  }

  static weft_code WaitTick(weft_stream* stream, weft_stream* other,
                            uint64_t tick, weft_status* status) {
    return Wait(other, tick, 0, status);
  }

  static constexpr weft_device_api kDevice = {sizeof(weft_device_api),
                                              0,
                                              &DeviceInfo,
                                              &Open,
                                              &Close,
                                              &MemAlloc,
                                              &MemFree,
                                              &StreamOpen,
                                              &StreamClose,
                                              &Copy,
                                              &Mark,
                                              &Poll,
                                              &Wait};
  static constexpr weft_compute_api kCompute = {sizeof(weft_compute_api),
                                                0,
                                                &KernelMatch,
                                                &KernelOpen,
                                                &KernelLaunch,
                                                &KernelClose};
  static constexpr weft_mem2_api kMem2 = {sizeof(weft_mem2_api), 0, &HostMap,
                                          &MemInfo};
  static constexpr weft_sync2_api kSync2 = {sizeof(weft_sync2_api), 0,
                                            &HostSignal, &WaitTick};
  static constexpr weft_section kSections[] = {
      {WEFT_SECTION_DEVICE, 0, &kDevice},
      {WEFT_SECTION_COMPUTE, 0, &kCompute},
      {WEFT_SECTION_MEM2, 0, &kMem2},
      {WEFT_SECTION_SYNC2, 0, &kSync2}};
  static constexpr weft_plugin kPlugin = {
      sizeof(weft_plugin),
      WEFT_PLUGIN_MAGIC,
      WEFT_ABI_MAJOR,
      WEFT_ABI_MINOR,
      {P::kName, sizeof(P::kName) - 1},
      {P::kVendor, sizeof(P::kVendor) - 1},
      {P::kVersion, sizeof(P::kVersion) - 1},
      4,
      kSections};
};

}  // namespace weft_sdk

// The note and the entry of plugin P. The manifest's roles are then "device",
// "compute", "mem2", "sync2".
#define WEFT_INLINE_PLUGIN(P, isa)                                             \
  WEFT_PLUGIN_NOTE((1u << WEFT_SECTION_DEVICE) |                               \
                       (1u << WEFT_SECTION_COMPUTE) |                          \
                       (1u << WEFT_SECTION_MEM2) | (1u << WEFT_SECTION_SYNC2), \
                   isa)                                                        \
  WEFT_PLUGIN_ENTRY(host) { return weft_sdk::InlineTables<P>::Query(host); }

#endif  // WEFT_PLUGINS_SDK_WEFT_INLINE_HPP_
