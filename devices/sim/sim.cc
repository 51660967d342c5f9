// The tables of the simulated device. See README.md for its options.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "devices/sim/kernels.h"
#include "devices/sim/sim_device.h"
#include "plugins/sdk/weft_plugin.hpp"

namespace weft_sim {
namespace {

using weft_sdk::Error;
using weft_sdk::Guard;
using weft_sdk::ReadIn;
using weft_sdk::View;
using weft_sdk::WriteOut;

constexpr uint32_t kDevices = 2;
constexpr uint32_t kAlignment = 256;

Device* From(weft_device* d) { return reinterpret_cast<Device*>(d); }
Stream* From(weft_stream* s) { return reinterpret_cast<Stream*>(s); }

// What a launch needs; work in a queue shares it, so that it may be closed.
struct OpenKernel {
  std::unique_ptr<weft_sdk::Kernel> kernel;
  std::vector<uint64_t> in_bytes;  // 0 where absent
  std::vector<uint64_t> out_bytes;
  uint64_t workspace_bytes;
};
struct KernelHandle {
  std::shared_ptr<const OpenKernel> open;
  Device* device;
};
KernelHandle* From(weft_kernel* k) {
  return reinterpret_cast<KernelHandle*>(k);
}

const weft_sdk::Registry& Kernels() {
  static const weft_sdk::Registry* registry = [] {
    auto* r = new weft_sdk::Registry;
    RegisterKernels(r);
    return r;
  }();
  return *registry;
}

// ---- Device ----------------------------------------------------------------

void CheckIndex(uint32_t index) {
  if (index >= kDevices) {
    throw Error(WEFT_RANGE, "no device " + std::to_string(index));
  }
}

weft_code DeviceInfo(uint32_t index, weft_device_info* out,
                     weft_status* status) {
  return Guard(status, [&] {
    CheckIndex(index);
    weft_device_info info{};
    info.flags = WEFT_DEVICE_NOTIFIES | WEFT_DEVICE_HOST_MEMORY;
    weft_sdk::SetText(info.name, "simulated device");
    weft_sdk::SetText(info.uuid, "sim-" + std::to_string(index));
    info.memory_bytes = Options().memory_bytes;
    info.alignment = kAlignment;
    info.max_streams = 64;
    info.numa_node = -1;
    WriteOut(out, info);
  });
}

weft_code DeviceOpen(uint32_t index, const weft_device_options* options,
                     weft_device** out, weft_status* status) {
  return Guard(status, [&] {
    CheckIndex(index);
    Options parsed;
    const weft_device_options o = ReadIn(options);
    for (uint32_t i = 0; i < o.count; ++i) {
      const std::string_view key = View(o.options[i].key);
      if (!parsed.Set(key, View(o.options[i].value))) {
        throw Error(WEFT_INVALID, "unknown option '" + std::string(key) + "'");
      }
    }
    *out = reinterpret_cast<weft_device*>(new Device(parsed));
  });
}

weft_code DeviceClose(weft_device* device, weft_status* status) {
  return Guard(status, [&] {
    Device* d = From(device);
    if (d->handles.load() != 0 || d->LiveBlocks() != 0) {
      throw Error(WEFT_BUSY, std::to_string(d->LiveBlocks()) +
                                 " allocations and " +
                                 std::to_string(d->handles.load()) +
                                 " streams and kernels are live");
    }
    delete d;
  });
}

weft_code MemAlloc(weft_device* device, uint64_t bytes, uint32_t kind,
                   uint64_t alignment, weft_mem* out, weft_status* status) {
  return Guard(status, [&] {
    if (kind != WEFT_MEM_DEVICE && kind != WEFT_MEM_HOST) {
      throw Error(WEFT_INVALID, "unknown kind of memory");
    }
    if ((alignment & (alignment - 1)) != 0) {
      throw Error(WEFT_INVALID, "alignment is not a power of two");
    }
    *out = From(device)->Allocate(bytes);
  });
}

weft_code MemFree(weft_device* device, weft_mem mem, weft_status* status) {
  return Guard(status, [&] { From(device)->Free(mem); });
}

// ---- Streams ---------------------------------------------------------------

weft_code StreamOpen(weft_device* device, const weft_stream_options* options,
                     weft_stream** out, weft_status* status) {
  return Guard(status, [&] {
    From(device)->CheckAlive();
    *out = reinterpret_cast<weft_stream*>(
        new Stream(From(device), ReadIn(options).notify_token));
  });
}

weft_code StreamClose(weft_stream* stream, weft_status* status) {
  return Guard(status, [&] { delete From(stream); });
}

weft_code Copy(weft_stream* stream, const weft_place* dst,
               const weft_place* src, uint64_t bytes, weft_status* status) {
  return Guard(status, [&] {
    Device* device = From(stream)->device();
    // std::function copies what it holds, and an operand cannot be copied.
    auto sides = std::make_shared<std::pair<Operand, Operand>>(
        device->Resolve(*dst, bytes), device->Resolve(*src, bytes));
    const char* to = sides->first.address();
    const char* from = sides->second.address();
    if (bytes != 0 && to < from + bytes && from < to + bytes) {
      throw Error(WEFT_INVALID, "the sides of a copy overlap");
    }
    From(stream)->Submit([device, sides, bytes] {
      if (device->NextCopyFails()) {
        throw Error(WEFT_INTERNAL, "the copy fails on request");
      }
      if (bytes == 0) return;
      std::memcpy(sides->first.address(), sides->second.address(), bytes);
    });
  });
}

weft_code StreamMark(weft_stream* stream, uint64_t* tick, weft_status* status) {
  return Guard(status, [&] { *tick = From(stream)->Mark(); });
}

weft_code StreamPoll(weft_stream* stream, uint64_t* done, weft_status* status) {
  return Guard(status, [&] {
    Progress& progress = *From(stream)->progress();
    *done = progress.done();
    progress.Check();
    From(stream)->device()->CheckAlive();
  });
}

weft_code StreamWait(weft_stream* stream, uint64_t tick, uint64_t timeout_ns,
                     weft_status* status) {
  return Guard(status, [&] {
    From(stream)->CheckMarked(tick);
    Progress& progress = *From(stream)->progress();
    if (!progress.WaitFor(tick, timeout_ns)) {
      throw Error(WEFT_TIMEOUT, "");
    }
    progress.Check();
    From(stream)->device()->CheckAlive();
  });
}

// ---- Kernels ---------------------------------------------------------------

weft_code KernelMatch(weft_device* device, const weft_op_desc* desc,
                      weft_match* out, weft_status* status) {
  return Guard(status, [&] {
    weft_match answer{};
    if (!From(device)->options().computes ||
        !Kernels().Match(weft_sdk::Op(desc), &answer)) {
      throw Error(WEFT_UNSUPPORTED, "");
    }
    WriteOut(out, answer);
  });
}

weft_code KernelOpen(weft_device* device, const weft_op_desc* desc,
                     weft_kernel** out, weft_status* status) {
  return Guard(status, [&] {
    if (!From(device)->options().computes) {
      throw Error(WEFT_UNSUPPORTED, "the device was opened as tier T0");
    }
    const weft_sdk::Op op(desc);
    auto open = std::make_shared<OpenKernel>();
    open->kernel = Kernels().Create(op);
    for (int i = 0; i < op.num_in(); ++i) {
      open->in_bytes.push_back(op.has_in(i) ? op.in(i).bytes() : 0);
    }
    for (int i = 0; i < op.num_out(); ++i) {
      open->out_bytes.push_back(op.out(i).bytes());
    }
    weft_match answer{};
    Kernels().Match(op, &answer);
    open->workspace_bytes = answer.workspace_bytes;
    auto* handle = new KernelHandle{std::move(open), From(device)};
    ++handle->device->handles;
    *out = reinterpret_cast<weft_kernel*>(handle);
  });
}

// The operands of a launch, resolved when it is submitted.
struct Launch {
  std::shared_ptr<const OpenKernel> open;
  std::vector<Operand> operands;
  std::vector<weft_buffer> in, out;
  weft_buffer workspace{};
};

weft_code KernelLaunch(weft_kernel* kernel, weft_stream* stream,
                       const weft_buffer* inputs, const weft_buffer* outputs,
                       const weft_buffer* workspace, weft_status* status) {
  return Guard(status, [&] {
    Device* device = From(stream)->device();
    auto launch = std::make_shared<Launch>();
    launch->open = From(kernel)->open;
    auto resolve = [&](const weft_buffer& b, uint64_t bytes) {
      // An absent operand is all zero and stays so.
      if (b.mem == 0 && b.host == nullptr && bytes == 0) return weft_buffer{};
      if (b.mem == 0) {
        throw Error(WEFT_INVALID, "an operand is not in device memory");
      }
      launch->operands.push_back(device->Resolve(b, bytes));
      return weft_buffer{0, 0, launch->operands.back().address()};
    };
    for (size_t i = 0; i < launch->open->in_bytes.size(); ++i) {
      launch->in.push_back(resolve(inputs[i], launch->open->in_bytes[i]));
    }
    for (size_t i = 0; i < launch->open->out_bytes.size(); ++i) {
      launch->out.push_back(resolve(outputs[i], launch->open->out_bytes[i]));
    }
    if (launch->open->workspace_bytes != 0) {
      if (workspace == nullptr) throw Error(WEFT_INVALID, "no workspace");
      launch->workspace = resolve(*workspace, launch->open->workspace_bytes);
    }
    From(stream)->Submit([device, launch] {
      if (device->NextLaunchFails()) {
        throw Error(WEFT_INTERNAL, "the launch fails on request");
      }
      launch->open->kernel->Launch(weft_sdk::Call(
          launch->in.data(), launch->out.data(), &launch->workspace));
    });
  });
}

weft_code KernelClose(weft_kernel* kernel, weft_status* status) {
  return Guard(status, [&] {
    --From(kernel)->device->handles;
    delete From(kernel);
  });
}

// ---- Optional sections -----------------------------------------------------

weft_code MemInfo(weft_device* device, weft_mem_info* out,
                  weft_status* status) {
  return Guard(status, [&] { WriteOut(out, From(device)->Usage()); });
}

weft_code HostSignal(weft_stream* stream, uint32_t* word, weft_status* status) {
  return Guard(status, [&] {
    From(stream)->SubmitAlways([word] {
      __atomic_fetch_add(word, 1, __ATOMIC_RELEASE);
      syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
    });
  });
}

weft_code WaitTick(weft_stream* stream, weft_stream* other, uint64_t tick,
                   weft_status* status) {
  return Guard(status, [&] {
    From(other)->CheckMarked(tick);
    From(stream)->SubmitAlways([progress = From(other)->progress(), tick] {
      progress->WaitFor(tick, std::nullopt);
    });
  });
}

constexpr weft_device_api kDevice = {sizeof(weft_device_api),
                                     0,
                                     &DeviceInfo,
                                     &DeviceOpen,
                                     &DeviceClose,
                                     &MemAlloc,
                                     &MemFree,
                                     &StreamOpen,
                                     &StreamClose,
                                     &Copy,
                                     &StreamMark,
                                     &StreamPoll,
                                     &StreamWait};
constexpr weft_compute_api kCompute = {sizeof(weft_compute_api),
                                       0,
                                       &KernelMatch,
                                       &KernelOpen,
                                       &KernelLaunch,
                                       &KernelClose};
// No host_map: the host cannot reach this memory.
constexpr weft_mem2_api kMem2 = {sizeof(weft_mem2_api), 0, nullptr, &MemInfo};
constexpr weft_sync2_api kSync2 = {sizeof(weft_sync2_api), 0, &HostSignal,
                                   &WaitTick};
constexpr weft_section kSections[] = {{WEFT_SECTION_DEVICE, 0, &kDevice},
                                      {WEFT_SECTION_COMPUTE, 0, &kCompute},
                                      {WEFT_SECTION_MEM2, 0, &kMem2},
                                      {WEFT_SECTION_SYNC2, 0, &kSync2}};
constexpr weft_plugin kPlugin = {sizeof(weft_plugin),
                                 WEFT_PLUGIN_MAGIC,
                                 WEFT_ABI_MAJOR,
                                 WEFT_ABI_MINOR,
                                 {"sim", 3},
                                 {"weft", 4},
                                 {"1.0", 3},
                                 4,
                                 kSections};

}  // namespace
}  // namespace weft_sim

WEFT_PLUGIN_NOTE((1u << WEFT_SECTION_DEVICE) | (1u << WEFT_SECTION_COMPUTE) |
                     (1u << WEFT_SECTION_MEM2) | (1u << WEFT_SECTION_SYNC2),
                 WEFT_ISA_BASELINE)
WEFT_PLUGIN_ENTRY(host) {
  return weft_sdk::Host::Accept(host) ? &weft_sim::kPlugin : nullptr;
}
