// The run-time's view of a device: C++ objects over the tables of a plugin.
//
//   WEFT_ASSIGN_OR_RETURN(auto device, Device::Open(plugin, 0, {}));
//   WEFT_ASSIGN_OR_RETURN(weft_mem mem, device->Alloc(4096));
//   WEFT_ASSIGN_OR_RETURN(auto stream, device->OpenStream());
//   WEFT_RETURN_IF_ERROR(stream->Copy(AtDevice(mem), AtHost(data), 4096));
//   WEFT_RETURN_IF_ERROR(stream->Sync());
//   WEFT_ASSIGN_OR_RETURN(auto kernel, device->OpenKernel(desc));
//   WEFT_RETURN_IF_ERROR(kernel->Launch(*stream, inputs, outputs));
//
// A failure becomes a typed error that names the plugin, the device, the call
// and what the plugin said: kOutOfMemory for WEFT_OOM, kCancelled for
// WEFT_CANCELED, else kDeviceFailed. What a plugin leaves out has a default
// here: memory counters are kept by Device, an order between streams is made by
// a wait.
//
// A call that succeeds makes no absl::Status with a payload and clears no
// message: Launch() costs an indirect call and a branch.
//
// Threading: Device is thread-safe, but for Open and Close. Of a Stream, Copy,
// Launch, Mark, HostSignal, WaitTick and Sync must not overlap; Poll and Wait
// may, from any thread. A Kernel may be launched on several streams at
// once. Ownership: streams and kernels must be destroyed before their device.
#ifndef WEFT_PLUGINS_HOST_DEVICE_H_
#define WEFT_PLUGINS_HOST_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"
#include "plugins/abi/weft_plugin.h"
#include "plugins/host/plugin.h"

namespace weft {

class Device;
class Kernel;
class Stream;

struct DeviceInfo {
  std::string name;
  std::string uuid;
  uint64_t memory_bytes = 0;
  uint32_t alignment = 1;    // of every allocation and sub-buffer
  uint32_t max_streams = 2;  // at least 2
  int32_t numa_node = -1;
  bool is_inline = false;    // no ticks needed: work is done on return
  bool host_mapped = false;  // HostMap works on all its memory
  bool host_memory = false;  // its memory is this process's own, mapped or not
  bool notifies = false;     // HostHooks::notify comes after each tick
};

struct KernelMatch {
  bool needs_dense = false;  // with dense operands it would fit
  uint64_t workspace_bytes = 0;
  uint32_t host_in = 0;   // bit i: input i must lie in host memory
  uint32_t host_out = 0;  // bit i: output i must lie in host memory
  uint32_t in_place = 0;  // bit i: output 0 may be input i's memory
  bool deterministic = true;
  uint64_t cost_ns = 0;  // 0: unknown
};

struct MemInfo {
  uint64_t bytes_in_use = 0;
  uint64_t peak_bytes = 0;
  uint64_t allocations = 0;
};

inline weft_place AtDevice(weft_mem mem, uint64_t offset = 0) {
  return weft_place{mem, offset, nullptr};
}
inline weft_place AtHost(const void* pointer) {
  return weft_place{0, 0, const_cast<void*>(pointer)};
}

// Which plugin and device a call went to: for messages, and for the tables.
struct DeviceContext {
  const Plugin* plugin = nullptr;
  uint32_t index = 0;
  weft_device* handle = nullptr;

  // The typed error for `code` of `call`. Pre-condition: code != WEFT_OK.
  absl::Status Fail(absl::string_view call, weft_code code,
                    const weft_status& status) const;
};

// An in-order queue of work.
class Stream {
 public:
  ~Stream();  // drains and closes
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  absl::Status Copy(const weft_place& dst, const weft_place& src,
                    uint64_t bytes) {
    weft_code code = copy_(handle_, &dst, &src, bytes, &status_);
    if (ABSL_PREDICT_TRUE(code == WEFT_OK)) return absl::OkStatus();
    return context_.Fail("copy", code, status_);
  }

  // Names all work submitted so far. Inline devices need no marks.
  absl::Status Mark(uint64_t* tick) {
    weft_code code = mark_(handle_, tick, &status_);
    if (ABSL_PREDICT_TRUE(code == WEFT_OK)) return absl::OkStatus();
    return context_.Fail("stream_mark", code, status_);
  }

  // The last tick that is done. An error of the stream comes again and again.
  absl::Status Poll(uint64_t* done) {
    weft_status status;  // the message stays as it is: clearing costs more
    status.struct_size = sizeof(status);
    status.vendor_code = 0;
    status.message[0] = '\0';
    weft_code code = poll_(handle_, done, &status);
    if (ABSL_PREDICT_TRUE(code == WEFT_OK)) return absl::OkStatus();
    return context_.Fail("stream_poll", code, status);
  }

  // True where `tick` is done, false after `timeout_ns`.
  absl::StatusOr<bool> Wait(uint64_t tick, uint64_t timeout_ns);

  // How long Sync and WaitTick wait where the caller does not say: far more
  // than any work takes, so that a device that hangs is an error.
  static constexpr uint64_t kLongWaitNs = 300'000'000'000;

  // Mark, and wait until it is done. After `timeout_ns` kDeviceFailed, which
  // names the device and the tick; the work is then still under way, and what
  // it uses must stay (`busy`, where not null, is set). The same where Mark
  // fails.
  absl::Status Sync(uint64_t timeout_ns = kLongWaitNs, bool* busy = nullptr);

  // Bumps *word, a futex word, when the work submitted so far is done.
  // Pre-condition: has_host_signal().
  bool has_host_signal() const { return host_signal_ != nullptr; }
  absl::Status HostSignal(uint32_t* word);

  // True where the device wakes the owner of the stream's token after each
  // tick.
  bool notifies() const { return notifies_; }

  // Work submitted from now on starts after `tick` of `other`. Where the plugin
  // cannot, the calling thread waits for the tick instead; after `timeout_ns`
  // kDeviceFailed, and nothing has changed.
  absl::Status WaitTick(Stream& other, uint64_t tick,
                        uint64_t timeout_ns = kLongWaitNs);

  weft_stream* handle() const { return handle_; }
  const DeviceContext& context() const { return context_; }

 private:
  friend class Device;
  friend class Kernel;
  Stream(const DeviceContext& context, weft_stream* handle, bool notifies);
  absl::Status TimedOut(absl::string_view call, uint64_t tick,
                        uint64_t timeout_ns) const;

  decltype(weft_device_api::copy) copy_;
  decltype(weft_device_api::stream_mark) mark_;
  decltype(weft_device_api::stream_poll) poll_;
  weft_stream* const handle_;
  // Of the calls that do not overlap; written by the plugin, read only on an
  // error.
  weft_status status_;
  decltype(weft_device_api::stream_wait) wait_;
  decltype(weft_sync2_api::host_signal) host_signal_;
  decltype(weft_sync2_api::stream_wait_tick) wait_tick_;
  const bool notifies_;
  const DeviceContext context_;
};

// One op with fixed shapes, ready to launch. Immutable.
class Kernel {
 public:
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  // Arrays as long as the description said; `workspace` may be null where none
  // was asked for. Where the device is not inline, operands must stay until a
  // later tick is done.
  absl::Status Launch(Stream& stream, const weft_buffer* inputs,
                      const weft_buffer* outputs,
                      const weft_buffer* workspace = nullptr) const {
    weft_code code = launch_(handle_, stream.handle_, inputs, outputs,
                             workspace, &stream.status_);
    if (ABSL_PREDICT_TRUE(code == WEFT_OK)) return absl::OkStatus();
    return LaunchError(stream, code);
  }

  weft_kernel* handle() const { return handle_; }

 private:
  friend class Device;
  Kernel(const DeviceContext& context, weft_kernel* handle);
  absl::Status LaunchError(const Stream& stream, weft_code code) const;

  decltype(weft_compute_api::kernel_launch) launch_;
  weft_kernel* const handle_;
  const DeviceContext context_;
};

class Device {
 public:
  using Options = std::vector<std::pair<std::string, std::string>>;

  // What the device says of itself; creates no device state. kDeviceNotFound
  // for an index that the plugin does not have.
  static absl::StatusOr<DeviceInfo> Info(const Plugin& plugin, uint32_t index);

  static absl::StatusOr<std::unique_ptr<Device>> Open(
      const Plugin& plugin, uint32_t index, const Options& options = {});

  // Closes; a device with live handles is left open and logged.
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // kDeviceFailed where streams, kernels or memory are live (WEFT_BUSY); the
  // device then stays open. After success the object is only to be destroyed.
  absl::Status Close();

  const DeviceInfo& info() const { return info_; }
  const Plugin& plugin() const { return *context_.plugin; }
  uint32_t index() const { return context_.index; }
  std::string Name() const;  // "cpu:0"

  // `kind` is WEFT_MEM_*; alignment 0 is the device's own. kOutOfMemory names
  // the bytes asked for and in use; the plugin itself knows the limit.
  absl::StatusOr<weft_mem> Alloc(uint64_t bytes,
                                 uint32_t kind = WEFT_MEM_DEVICE,
                                 uint64_t alignment = 0);
  // The caller has waited for all work on it.
  absl::Status Free(weft_mem mem);

  // `notify_token` comes back through HostHooks::notify; 0 is none.
  absl::StatusOr<std::unique_ptr<Stream>> OpenStream(int32_t priority = 0,
                                                     uint64_t notify_token = 0);

  // A pointer to [offset, offset + bytes) for the host; null where the device
  // does not map memory.
  absl::StatusOr<void*> HostMap(weft_mem mem, uint64_t offset, uint64_t bytes);

  // From the plugin, or counted here where it does not say.
  absl::StatusOr<MemInfo> GetMemInfo();

  // Nothing where the device has no kernel for `desc`: a normal answer.
  absl::StatusOr<std::optional<KernelMatch>> Match(const weft_op_desc& desc);
  absl::StatusOr<std::unique_ptr<Kernel>> OpenKernel(const weft_op_desc& desc);

  weft_device* handle() const { return context_.handle; }

 private:
  Device(const DeviceContext& context, DeviceInfo info);

  const DeviceInfo info_;
  DeviceContext context_;
  mutable Mutex mu_;
  // Sizes, for messages and the default of mem_info.
  std::map<weft_mem, uint64_t> sizes_ WEFT_GUARDED_BY(mu_);
  MemInfo counted_ WEFT_GUARDED_BY(mu_);
};

}  // namespace weft

#endif  // WEFT_PLUGINS_HOST_DEVICE_H_
