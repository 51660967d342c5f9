#include "plugins/host/device.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "glog/logging.h"
#include "plugins/host/abi_call.h"

namespace weft {
namespace {

std::string DeviceName(const Plugin& plugin, uint32_t index) {
  return absl::StrCat(plugin.name(), ":", index);
}

}  // namespace

// ---- DeviceContext ---------------------------------------------------------

absl::Status DeviceContext::Fail(absl::string_view call, weft_code code,
                                 const weft_status& status) const {
  ErrorCode error = ErrorCode::kDeviceFailed;
  if (code == WEFT_OOM) error = ErrorCode::kOutOfMemory;
  if (code == WEFT_CANCELED) error = ErrorCode::kCancelled;
  // A stream that has a thread of its own, where the system has none left.
  if (code == WEFT_AGAIN && call == "stream_open") error = ErrorCode::kNoThread;
  std::string message =
      absl::StrCat("device ", DeviceName(*plugin, index), ", ", call, ": ",
                   CodeName(code), ": ", Text(status.message));
  if (status.vendor_code != 0) {
    absl::StrAppend(&message, " (vendor code ", status.vendor_code, ")");
  }
  return MakeError(error, message);
}

// ---- Device ----------------------------------------------------------------

absl::StatusOr<DeviceInfo> Device::Info(const Plugin& plugin, uint32_t index) {
  DeviceContext context{&plugin, index, nullptr};
  if (!plugin.has_device()) {
    return MakeError(ErrorCode::kDeviceNotFound,
                     absl::StrCat("plugin '", plugin.name(),
                                  "' is a transport, not a device"));
  }
  auto raw = NewStruct<weft_device_info>();
  raw.alignment = 1;
  raw.max_streams = 2;
  raw.numa_node = -1;
  weft_status status = NewStatus();
  const weft_code code = plugin.device().device_info(index, &raw, &status);
  if (code == WEFT_RANGE) {
    return MakeError(ErrorCode::kDeviceNotFound,
                     absl::StrCat("plugin '", plugin.name(), "' has no device ",
                                  index, "; it has ", plugin.DeviceCount()));
  }
  if (code != WEFT_OK) return context.Fail("device_info", code, status);
  if (raw.alignment == 0 || (raw.alignment & (raw.alignment - 1)) != 0) {
    return MakeError(ErrorCode::kDeviceFailed,
                     absl::StrCat("device ", DeviceName(plugin, index),
                                  " claims the alignment ", raw.alignment,
                                  ", which is not a power of two"));
  }
  if (raw.max_streams < 2) {
    return MakeError(
        ErrorCode::kDeviceFailed,
        absl::StrCat("device ", DeviceName(plugin, index), " offers ",
                     raw.max_streams, " streams; two are the least"));
  }
  DeviceInfo info;
  info.name = Text(raw.name);
  info.uuid = Text(raw.uuid);
  info.memory_bytes = raw.memory_bytes;
  info.alignment = raw.alignment;
  info.max_streams = raw.max_streams;
  info.numa_node = raw.numa_node;
  info.is_inline = (raw.flags & WEFT_DEVICE_INLINE) != 0;
  // A claim without the function behind it is worth nothing.
  info.host_mapped = (raw.flags & WEFT_DEVICE_HOST_MAPPED) != 0 &&
                     plugin.mem2().host_map != nullptr;
  info.host_memory =
      info.host_mapped || (raw.flags & WEFT_DEVICE_HOST_MEMORY) != 0;
  info.notifies = (raw.flags & WEFT_DEVICE_NOTIFIES) != 0;
  return info;
}

absl::StatusOr<std::unique_ptr<Device>> Device::Open(const Plugin& plugin,
                                                     uint32_t index,
                                                     const Options& options) {
  WEFT_ASSIGN_OR_RETURN(DeviceInfo info, Info(plugin, index));
  const std::vector<weft_key_value> pairs = KeyValues(options);
  auto raw = NewStruct<weft_device_options>();
  raw.count = static_cast<uint32_t>(pairs.size());
  raw.options = pairs.data();
  DeviceContext context{&plugin, index, nullptr};
  weft_status status = NewStatus();
  const weft_code code =
      plugin.device().device_open(index, &raw, &context.handle, &status);
  if (code == WEFT_INVALID && !options.empty()) {
    // Most likely one of these, but the plugin alone knows.
    return MakeError(
        ErrorCode::kBadValue,
        absl::StrCat("device ", DeviceName(plugin, index),
                     ": device_open refused its arguments (options: ",
                     absl::StrJoin(options, ", ", absl::PairFormatter("=")),
                     "): ", Text(status.message)));
  }
  if (code != WEFT_OK) return context.Fail("device_open", code, status);
  return std::unique_ptr<Device>(new Device(context, std::move(info)));
}

Device::Device(const DeviceContext& context, DeviceInfo info)
    : info_(std::move(info)), context_(context) {}

Device::~Device() {
  absl::Status closed = Close();
  if (!closed.ok()) LOG(ERROR) << "left open: " << closed.message();
}

absl::Status Device::Close() {
  if (context_.handle == nullptr) return absl::OkStatus();
  weft_status status = NewStatus();
  const weft_code code =
      plugin().device().device_close(context_.handle, &status);
  if (code != WEFT_OK) return context_.Fail("device_close", code, status);
  context_.handle = nullptr;
  return absl::OkStatus();
}

std::string Device::Name() const { return DeviceName(plugin(), index()); }

absl::StatusOr<weft_mem> Device::Alloc(uint64_t bytes, uint32_t kind,
                                       uint64_t alignment) {
  if (alignment == 0) alignment = info_.alignment;
  weft_mem mem = 0;
  weft_status status = NewStatus();
  const weft_code code = plugin().device().mem_alloc(
      context_.handle, bytes, kind, alignment, &mem, &status);
  if (code == WEFT_OOM) {
    MutexLock lock(&mu_);
    return Annotate(context_.Fail("mem_alloc", code, status),
                    absl::StrCat(bytes, " bytes asked for, ",
                                 counted_.bytes_in_use, " in use"));
  }
  if (code != WEFT_OK) return context_.Fail("mem_alloc", code, status);
  if (mem == 0) {
    return MakeError(ErrorCode::kDeviceFailed,
                     absl::StrCat("device ", Name(),
                                  ", mem_alloc: succeeded with the id 0"));
  }
  MutexLock lock(&mu_);
  sizes_[mem] = bytes;
  counted_.bytes_in_use += bytes;
  counted_.peak_bytes = std::max(counted_.peak_bytes, counted_.bytes_in_use);
  ++counted_.allocations;
  return mem;
}

absl::Status Device::Free(weft_mem mem) {
  // Forgotten first: once it is free, another thread may get the same id.
  uint64_t bytes = 0;
  bool known = false;
  {
    MutexLock lock(&mu_);
    auto it = sizes_.find(mem);
    if (it != sizes_.end()) {
      known = true;
      bytes = it->second;
      sizes_.erase(it);
    }
  }
  weft_status status = NewStatus();
  const weft_code code =
      plugin().device().mem_free(context_.handle, mem, &status);
  MutexLock lock(&mu_);
  if (code != WEFT_OK) {
    if (known) sizes_[mem] = bytes;
    return context_.Fail("mem_free", code, status);
  }
  if (known) {
    counted_.bytes_in_use -= bytes;
    --counted_.allocations;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Stream>> Device::OpenStream(
    int32_t priority, uint64_t notify_token) {
  auto options = NewStruct<weft_stream_options>();
  options.priority = priority;
  // A device that is polled all the same would only wake the worker in vain.
  options.notify_token = info_.notifies ? notify_token : 0;
  weft_stream* handle = nullptr;
  weft_status status = NewStatus();
  const weft_code code = plugin().device().stream_open(
      context_.handle, &options, &handle, &status);
  if (code != WEFT_OK) return context_.Fail("stream_open", code, status);
  return std::unique_ptr<Stream>(
      new Stream(context_, handle, options.notify_token != 0));
}

absl::StatusOr<void*> Device::HostMap(weft_mem mem, uint64_t offset,
                                      uint64_t bytes) {
  auto* host_map = plugin().mem2().host_map;
  if (host_map == nullptr) return nullptr;
  void* pointer = nullptr;
  weft_status status = NewStatus();
  const weft_code code =
      host_map(context_.handle, mem, offset, bytes, &pointer, &status);
  if (code == WEFT_UNSUPPORTED) return nullptr;
  if (code != WEFT_OK) return context_.Fail("host_map", code, status);
  return pointer;
}

absl::StatusOr<MemInfo> Device::GetMemInfo() {
  auto* mem_info = plugin().mem2().mem_info;
  if (mem_info != nullptr) {
    auto raw = NewStruct<weft_mem_info>();
    weft_status status = NewStatus();
    const weft_code code = mem_info(context_.handle, &raw, &status);
    if (code == WEFT_OK) {
      return MemInfo{raw.bytes_in_use, raw.peak_bytes, raw.allocations};
    }
    if (code != WEFT_UNSUPPORTED) {
      return context_.Fail("mem_info", code, status);
    }
  }
  MutexLock lock(&mu_);
  return counted_;
}

absl::StatusOr<std::optional<KernelMatch>> Device::Match(
    const weft_op_desc& desc) {
  auto* kernel_match = plugin().compute().kernel_match;
  if (kernel_match == nullptr) return std::optional<KernelMatch>();
  auto raw = NewStruct<weft_match>();
  weft_status status = NewStatus();
  const weft_code code = kernel_match(context_.handle, &desc, &raw, &status);
  if (code == WEFT_UNSUPPORTED) return std::optional<KernelMatch>();
  if (code != WEFT_OK) return context_.Fail("kernel_match", code, status);
  // A fit that this host does not know is one that it cannot use.
  if (raw.fit != WEFT_FIT_EXACT && raw.fit != WEFT_FIT_NEEDS_DENSE) {
    return std::optional<KernelMatch>();
  }
  KernelMatch match;
  match.needs_dense = raw.fit == WEFT_FIT_NEEDS_DENSE;
  match.workspace_bytes = raw.workspace_bytes;
  match.host_in = raw.host_in;
  match.host_out = raw.host_out;
  match.in_place = raw.in_place;
  match.deterministic = raw.determinism == WEFT_DETERMINISTIC;
  match.cost_ns = raw.cost_ns;
  return std::optional<KernelMatch>(match);
}

absl::StatusOr<std::unique_ptr<Kernel>> Device::OpenKernel(
    const weft_op_desc& desc) {
  auto* kernel_open = plugin().compute().kernel_open;
  if (kernel_open == nullptr) return Missing(plugin(), "kernel_open");
  weft_kernel* handle = nullptr;
  weft_status status = NewStatus();
  const weft_code code = kernel_open(context_.handle, &desc, &handle, &status);
  if (code == WEFT_UNSUPPORTED) {
    return MakeError(
        ErrorCode::kNoKernel,
        absl::StrCat("device ", Name(), " has no kernel for op ", desc.op));
  }
  if (code != WEFT_OK) return context_.Fail("kernel_open", code, status);
  return std::unique_ptr<Kernel>(new Kernel(context_, handle));
}

// ---- Stream ----------------------------------------------------------------

Stream::Stream(const DeviceContext& context, weft_stream* handle, bool notifies)
    : copy_(context.plugin->device().copy),
      mark_(context.plugin->device().stream_mark),
      poll_(context.plugin->device().stream_poll),
      handle_(handle),
      status_(NewStatus()),
      wait_(context.plugin->device().stream_wait),
      host_signal_(context.plugin->sync2().host_signal),
      wait_tick_(context.plugin->sync2().stream_wait_tick),
      notifies_(notifies),
      context_(context) {}

Stream::~Stream() {
  weft_status status = NewStatus();
  const weft_code code =
      context_.plugin->device().stream_close(handle_, &status);
  if (code != WEFT_OK) {
    LOG(ERROR) << context_.Fail("stream_close", code, status).message();
  }
}

absl::StatusOr<bool> Stream::Wait(uint64_t tick, uint64_t timeout_ns) {
  weft_status status = NewStatus();
  const weft_code code = wait_(handle_, tick, timeout_ns, &status);
  if (code == WEFT_OK) return true;
  if (code == WEFT_TIMEOUT) return false;
  return context_.Fail("stream_wait", code, status);
}

absl::Status Stream::TimedOut(absl::string_view call, uint64_t tick,
                              uint64_t timeout_ns) const {
  return MakeError(
      ErrorCode::kDeviceFailed,
      absl::StrCat("device ", DeviceName(*context_.plugin, context_.index),
                   ", ", call, ": tick ", tick, " is not done after ",
                   timeout_ns / 1'000'000, " ms"));
}

absl::Status Stream::Sync(uint64_t timeout_ns, bool* busy) {
  uint64_t tick = 0;
  if (absl::Status marked = Mark(&tick); !marked.ok()) {
    // Without a tick nobody can tell when the work before it ends.
    if (busy != nullptr) *busy = true;
    return marked;
  }
  WEFT_ASSIGN_OR_RETURN(const bool done, Wait(tick, timeout_ns));
  if (done) return absl::OkStatus();
  if (busy != nullptr) *busy = true;
  return TimedOut("stream_wait", tick, timeout_ns);
}

absl::Status Stream::HostSignal(uint32_t* word) {
  if (host_signal_ == nullptr) return Missing(*context_.plugin, "host_signal");
  const weft_code code = host_signal_(handle_, word, &status_);
  if (ABSL_PREDICT_TRUE(code == WEFT_OK)) return absl::OkStatus();
  return context_.Fail("host_signal", code, status_);
}

absl::Status Stream::WaitTick(Stream& other, uint64_t tick,
                              uint64_t timeout_ns) {
  if (wait_tick_ != nullptr && context_.handle == other.context_.handle) {
    const weft_code code = wait_tick_(handle_, other.handle_, tick, &status_);
    if (code == WEFT_OK) return absl::OkStatus();
    if (code != WEFT_UNSUPPORTED) {
      return context_.Fail("stream_wait_tick", code, status_);
    }
  }
  WEFT_ASSIGN_OR_RETURN(const bool done, other.Wait(tick, timeout_ns));
  if (done) return absl::OkStatus();
  return other.TimedOut("stream_wait", tick, timeout_ns);
}

// ---- Kernel ----------------------------------------------------------------

Kernel::Kernel(const DeviceContext& context, weft_kernel* handle)
    : launch_(context.plugin->compute().kernel_launch),
      handle_(handle),
      context_(context) {}

Kernel::~Kernel() {
  weft_status status = NewStatus();
  const weft_code code =
      context_.plugin->compute().kernel_close(handle_, &status);
  if (code != WEFT_OK) {
    LOG(ERROR) << context_.Fail("kernel_close", code, status).message();
  }
}

absl::Status Kernel::LaunchError(const Stream& stream, weft_code code) const {
  return context_.Fail("kernel_launch", code, stream.status_);
}

}  // namespace weft
