#include "runtime/testing/fake_plugin.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/base/mutex.h"
#include "glog/logging.h"
#include "plugins/abi/weft_plugin.h"

// The incomplete types of the ABI, completed for this plugin.
struct weft_device {
  uint32_t index = 0;
  weft::Mutex mu;
  std::set<weft_mem> memory WEFT_GUARDED_BY(mu);
  weft_mem_info info WEFT_GUARDED_BY(mu) = {};
};

struct weft_stream {
  weft_device* device = nullptr;
  weft::Mutex mu;
  std::deque<std::function<weft_code()>> queue WEFT_GUARDED_BY(mu);
  uint64_t submitted WEFT_GUARDED_BY(mu) = 0;
  uint64_t done WEFT_GUARDED_BY(mu) = 0;
  weft_code poison WEFT_GUARDED_BY(mu) = WEFT_OK;
  std::mt19937_64 random WEFT_GUARDED_BY(mu);
  // Of the plugin that notifies.
  uint64_t token = 0;
  bool closing WEFT_GUARDED_BY(mu) = false;
  weft::CondVar changed;
  std::thread thread;
};

struct weft_kernel {
  uint32_t op = 0;
  uint32_t inputs = 0;
  uint64_t elements = 1;
};

namespace weft::runtime::testing {
namespace {

thread_local int inside = 0;

// Lives while a thread is inside the plugin.
struct Inside {
  Inside() { ++inside; }
  ~Inside() { --inside; }
};

struct Block {
  uint64_t bytes = 0;
  std::unique_ptr<char[]> data;
};

struct Global {
  Mutex mu;
  CondVar cv;
  FakeOptions options WEFT_GUARDED_BY(mu);
  int64_t launches WEFT_GUARDED_BY(mu) = 0;
  int64_t streams WEFT_GUARDED_BY(mu) = 0;
  int64_t copies WEFT_GUARDED_BY(mu) = 0;
  int64_t maps WEFT_GUARDED_BY(mu) = 0;
  int blocked WEFT_GUARDED_BY(mu) = 0;
  bool released WEFT_GUARDED_BY(mu) = false;
};

Global& G() {
  static Global* global = new Global();
  return *global;
}

weft_code Fail(weft_status* status, weft_code code, const char* text) {
  status->code = code;
  if (code != WEFT_OK) {
    strncpy(status->message, text, sizeof(status->message) - 1);
    status->message[sizeof(status->message) - 1] = '\0';
  }
  return code;
}
weft_code Ok(weft_status* status) { return Fail(status, WEFT_OK, ""); }

char* Address(const weft_place& place) {
  if (place.mem == 0) return static_cast<char*>(place.host);
  return reinterpret_cast<Block*>(place.mem)->data.get() + place.offset;
}

// ---- Work -----------------------------------------------------------------

// Returns once the test lets it.
void BlockIfAsked(uint32_t op) {
  MutexLock lock(&G().mu);
  if (op != WEFT_OP_NEG || !G().options.block_neg) return;
  ++G().blocked;
  G().cv.NotifyAll();
  while (!G().released) G().cv.WaitFor(&G().mu, std::chrono::seconds(1));
}

weft_code Compute(const weft_kernel& kernel, const std::vector<weft_place>& in,
                  const weft_place& out, bool fail) {
  BlockIfAsked(kernel.op);
  if (fail) return WEFT_INTERNAL;
  std::vector<std::vector<float>> x;
  for (const weft_place& place : in) {
    x.emplace_back(kernel.elements);
    memcpy(x.back().data(), Address(place), kernel.elements * sizeof(float));
  }
  std::vector<float> y(kernel.elements);
  for (uint64_t i = 0; i < kernel.elements; ++i) {
    switch (kernel.op) {
      case WEFT_OP_ADD:
        y[i] = x[0][i] + x[1][i];
        break;
      case WEFT_OP_SUB:
        y[i] = x[0][i] - x[1][i];
        break;
      case WEFT_OP_MUL:
        y[i] = x[0][i] * x[1][i];
        break;
      default:
        y[i] = -x[0][i];
    }
  }
  memcpy(Address(out), y.data(), kernel.elements * sizeof(float));
  return WEFT_OK;
}

bool Hangs() {
  MutexLock lock(&G().mu);
  return G().options.hang;
}

// Does up to `n` entries of the queue.
void Work(weft_stream* stream, uint64_t n)
    WEFT_EXCLUSIVE_LOCKS_REQUIRED(stream->mu) {
  if (stream->thread.joinable() || Hangs()) return;
  for (; n != 0 && !stream->queue.empty(); --n) {
    weft_code code = WEFT_OK;
    if (stream->poison == WEFT_OK) code = stream->queue.front()();
    if (code != WEFT_OK) stream->poison = code;
    stream->queue.pop_front();
    ++stream->done;
  }
}

weft_code Submit(weft_stream* stream, std::function<weft_code()> work,
                 weft_status* status) {
  if (stream->device->index == 0) {
    weft_code code = work();
    return Fail(status, code, "the fake was told to fail");
  }
  MutexLock lock(&stream->mu);
  if (stream->poison != WEFT_OK) {
    return Fail(status, stream->poison, "the fake was told to fail");
  }
  stream->queue.push_back(std::move(work));
  ++stream->submitted;
  stream->changed.NotifyAll();
  return Ok(status);
}

// ---- Device section -------------------------------------------------------

weft_code DeviceInfo(uint32_t index, weft_device_info* out,
                     weft_status* status) {
  if (index > 1) return Fail(status, WEFT_RANGE, "two devices");
  out->flags = index == 0 ? WEFT_DEVICE_INLINE | WEFT_DEVICE_HOST_MAPPED : 0;
  strncpy(out->name, "fake", sizeof(out->name) - 1);
  out->memory_bytes = 1 << 26;
  out->alignment = 64;
  out->max_streams = 64;
  return Ok(status);
}

weft_code DeviceOpen(uint32_t index, const weft_device_options*,
                     weft_device** out, weft_status* status) {
  *out = new weft_device();
  (*out)->index = index;
  return Ok(status);
}

weft_code DeviceClose(weft_device* device, weft_status* status) {
  bool live;
  {
    MutexLock lock(&device->mu);
    live = !device->memory.empty();
  }
  if (live) return Fail(status, WEFT_BUSY, "memory is live");
  delete device;
  return Ok(status);
}

weft_code MemAlloc(weft_device* device, uint64_t bytes, uint32_t, uint64_t,
                   weft_mem* out, weft_status* status) {
  MutexLock lock(&device->mu);
  if (device->info.bytes_in_use + bytes > 1 << 26) {
    return Fail(status, WEFT_OOM, "the fake has 64 MiB");
  }
  auto block = std::make_unique<Block>();
  block->bytes = bytes;
  block->data.reset(new char[bytes]);
  memset(block->data.get(), 0x7e, bytes);
  *out = reinterpret_cast<weft_mem>(block.release());
  device->memory.insert(*out);
  device->info.bytes_in_use += bytes;
  device->info.peak_bytes =
      std::max(device->info.peak_bytes, device->info.bytes_in_use);
  ++device->info.allocations;
  return Ok(status);
}

weft_code MemFree(weft_device* device, weft_mem mem, weft_status* status) {
  MutexLock lock(&device->mu);
  if (device->memory.erase(mem) == 0) {
    return Fail(status, WEFT_INVALID, "no such memory");
  }
  auto* block = reinterpret_cast<Block*>(mem);
  device->info.bytes_in_use -= block->bytes;
  delete block;
  return Ok(status);
}

weft_code StreamOpen(weft_device* device, const weft_stream_options*,
                     weft_stream** out, weft_status* status) {
  uint64_t seed;
  {
    MutexLock lock(&G().mu);
    if (G().streams++ == G().options.fail_stream) {
      return Fail(status, WEFT_INTERNAL, "the fake was told to fail");
    }
    seed = G().options.seed;
  }
  *out = new weft_stream();
  (*out)->device = device;
  MutexLock lock(&(*out)->mu);
  (*out)->random.seed(seed);
  return Ok(status);
}

weft_code StreamClose(weft_stream* stream, weft_status* status) {
  {
    MutexLock lock(&stream->mu);
    Work(stream, ~uint64_t{0});
  }
  delete stream;
  return Ok(status);
}

weft_code Copy(weft_stream* stream, const weft_place* dst,
               const weft_place* src, uint64_t bytes, weft_status* status) {
  Inside here;
  bool fail;
  {
    MutexLock lock(&G().mu);
    fail = G().copies++ == G().options.fail_copy;
  }
  if (fail) return Fail(status, WEFT_INTERNAL, "the fake was told to fail");
  return Submit(
      stream,
      [to = *dst, from = *src, bytes] {
        memmove(Address(to), Address(from), bytes);
        return WEFT_OK;
      },
      status);
}

weft_code StreamMark(weft_stream* stream, uint64_t* tick, weft_status* status) {
  Inside here;
  bool fail;
  {
    MutexLock lock(&G().mu);
    fail = G().options.fail_mark;
  }
  if (fail) return Fail(status, WEFT_INTERNAL, "the fake was told to fail");
  MutexLock lock(&stream->mu);
  // A mark is work too, so ticks grow strictly.
  stream->queue.push_back([] { return WEFT_OK; });
  *tick = ++stream->submitted;
  stream->changed.NotifyAll();
  return Ok(status);
}

weft_code StreamPoll(weft_stream* stream, uint64_t* done, weft_status* status) {
  Inside here;
  MutexLock lock(&stream->mu);
  Work(stream, stream->random() % 4);
  *done = stream->done;
  return Fail(status, stream->poison, "the fake was told to fail");
}

weft_code StreamWait(weft_stream* stream, uint64_t tick, uint64_t,
                     weft_status* status) {
  Inside here;
  MutexLock lock(&stream->mu);
  if (Hangs() && stream->done < tick) {
    return Fail(status, WEFT_TIMEOUT, "the fake hangs");
  }
  while (stream->done < tick && !stream->queue.empty()) Work(stream, 1);
  return Fail(status, stream->poison, "the fake was told to fail");
}

// ---- The plugin that notifies ---------------------------------------------

constexpr uint64_t kHourNs = 3'600'000'000'000;

std::atomic<const weft_host_services*> services{nullptr};

// Does the queue's entries one by one, not holding the lock meanwhile.
void Serve(weft_stream* stream) {
  while (true) {
    std::function<weft_code()> work;
    bool poisoned;
    {
      MutexLock lock(&stream->mu);
      while (stream->queue.empty() && !stream->closing) {
        stream->changed.WaitFor(&stream->mu, std::chrono::seconds(1));
      }
      if (stream->queue.empty()) return;
      work = std::move(stream->queue.front());
      stream->queue.pop_front();
      poisoned = stream->poison != WEFT_OK;
    }
    const weft_code code = poisoned ? WEFT_OK : work();
    {
      MutexLock lock(&stream->mu);
      if (code != WEFT_OK) stream->poison = code;
      ++stream->done;
      stream->changed.NotifyAll();
    }
    const weft_host_services* host = services.load();
    host->notify(host->context, stream->token);
  }
}

weft_code NotifyingInfo(uint32_t index, weft_device_info* out,
                        weft_status* status) {
  const weft_code code = DeviceInfo(index, out, status);
  if (code == WEFT_OK && index == 1) out->flags |= WEFT_DEVICE_NOTIFIES;
  return code;
}

weft_code NotifyingOpen(weft_device* device, const weft_stream_options* options,
                        weft_stream** out, weft_status* status) {
  const weft_code code = StreamOpen(device, options, out, status);
  if (code != WEFT_OK || device->index == 0) return code;
  (*out)->token = options->notify_token;
  (*out)->thread = std::thread(&Serve, *out);
  return code;
}

weft_code NotifyingClose(weft_stream* stream, weft_status* status) {
  if (stream->thread.joinable()) {
    {
      MutexLock lock(&stream->mu);
      stream->closing = true;
      stream->changed.NotifyAll();
    }
    stream->thread.join();
  }
  return StreamClose(stream, status);
}

weft_code NotifyingWait(weft_stream* stream, uint64_t tick, uint64_t timeout_ns,
                        weft_status* status) {
  if (!stream->thread.joinable()) {
    return StreamWait(stream, tick, timeout_ns, status);
  }
  // Beyond an hour it is no time but a wish.
  const auto end =
      std::chrono::steady_clock::now() +
      std::chrono::nanoseconds(std::min<uint64_t>(timeout_ns, kHourNs));
  MutexLock lock(&stream->mu);
  while (stream->done < tick) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left.count() <= 0) return Fail(status, WEFT_TIMEOUT, "not yet");
    stream->changed.WaitFor(&stream->mu, left);
  }
  return Fail(status, stream->poison, "the fake was told to fail");
}

// ---- Compute section ------------------------------------------------------

bool Known(const weft_op_desc* desc) {
  switch (desc->op) {
    case WEFT_OP_ADD:
    case WEFT_OP_SUB:
    case WEFT_OP_MUL:
      return desc->input_count == 2 && desc->output_count == 1;
    case WEFT_OP_NEG:
      return desc->input_count == 1 && desc->output_count == 1;
  }
  return false;
}

weft_code KernelMatch(weft_device*, const weft_op_desc* desc, weft_match* out,
                      weft_status* status) {
  if (!Known(desc)) return Fail(status, WEFT_UNSUPPORTED, "unknown op");
  out->fit = WEFT_FIT_EXACT;
  out->determinism = WEFT_DETERMINISTIC;
  return Ok(status);
}

weft_code KernelOpen(weft_device*, const weft_op_desc* desc, weft_kernel** out,
                     weft_status* status) {
  if (!Known(desc)) return Fail(status, WEFT_UNSUPPORTED, "unknown op");
  *out = new weft_kernel();
  (*out)->op = desc->op;
  (*out)->inputs = desc->input_count;
  for (uint32_t d = 0; d < desc->outputs[0].rank; ++d) {
    (*out)->elements *= static_cast<uint64_t>(desc->outputs[0].dims[d]);
  }
  return Ok(status);
}

weft_code KernelLaunch(weft_kernel* kernel, weft_stream* stream,
                       const weft_buffer* inputs, const weft_buffer* outputs,
                       const weft_buffer*, weft_status* status) {
  Inside here;
  bool fail;
  {
    MutexLock lock(&G().mu);
    fail = G().launches++ == G().options.fail_launch;
  }
  std::vector<weft_place> in(inputs, inputs + kernel->inputs);
  return Submit(
      stream,
      [kernel = *kernel, in = std::move(in), out = outputs[0], fail] {
        return Compute(kernel, in, out, fail);
      },
      status);
}

weft_code KernelClose(weft_kernel* kernel, weft_status* status) {
  delete kernel;
  return Ok(status);
}

// ---- mem2, sync2 ----------------------------------------------------------

weft_code HostMap(weft_device* device, weft_mem mem, uint64_t offset, uint64_t,
                  void** out, weft_status* status) {
  if (device->index != 0) return Fail(status, WEFT_UNSUPPORTED, "private");
  bool fail;
  {
    MutexLock lock(&G().mu);
    fail = G().maps++ == G().options.fail_map;
  }
  if (fail) return Fail(status, WEFT_INTERNAL, "the fake was told to fail");
  *out = reinterpret_cast<Block*>(mem)->data.get() + offset;
  return Ok(status);
}

weft_code GetMemInfo(weft_device* device, weft_mem_info* out,
                     weft_status* status) {
  MutexLock lock(&device->mu);
  out->bytes_in_use = device->info.bytes_in_use;
  out->peak_bytes = device->info.peak_bytes;
  out->allocations = device->info.allocations;
  return Ok(status);
}

weft_code HostSignal(weft_stream* stream, uint32_t* word, weft_status* status) {
  Inside here;
  {
    MutexLock lock(&stream->mu);
    Work(stream, ~uint64_t{0});
  }
  __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  return Ok(status);
}

const weft_device_api kDevice = {sizeof(weft_device_api),
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
const weft_device_api kNotifyingDevice = {sizeof(weft_device_api),
                                          0,
                                          &NotifyingInfo,
                                          &DeviceOpen,
                                          &DeviceClose,
                                          &MemAlloc,
                                          &MemFree,
                                          &NotifyingOpen,
                                          &NotifyingClose,
                                          &Copy,
                                          &StreamMark,
                                          &StreamPoll,
                                          &NotifyingWait};
const weft_compute_api kCompute = {sizeof(weft_compute_api),
                                   0,
                                   &KernelMatch,
                                   &KernelOpen,
                                   &KernelLaunch,
                                   &KernelClose};
const weft_mem2_api kMem2 = {sizeof(weft_mem2_api), 0, &HostMap, &GetMemInfo};
const weft_sync2_api kSync2 = {sizeof(weft_sync2_api), 0, &HostSignal, nullptr};
const weft_section kSections[] = {{WEFT_SECTION_DEVICE, 0, &kDevice},
                                  {WEFT_SECTION_COMPUTE, 0, &kCompute},
                                  {WEFT_SECTION_MEM2, 0, &kMem2},
                                  {WEFT_SECTION_SYNC2, 0, &kSync2}};
const weft_plugin kPolled = {sizeof(weft_plugin),
                             WEFT_PLUGIN_MAGIC,
                             WEFT_ABI_MAJOR,
                             WEFT_ABI_MINOR,
                             {"fake", 4},
                             {"test", 4},
                             {"1", 1},
                             3,
                             kSections};
const weft_plugin kSignals = {sizeof(weft_plugin),
                              WEFT_PLUGIN_MAGIC,
                              WEFT_ABI_MAJOR,
                              WEFT_ABI_MINOR,
                              {"fake", 4},
                              {"test", 4},
                              {"1", 1},
                              4,
                              kSections};

const weft_section kNotifyingSections[] = {
    {WEFT_SECTION_DEVICE, 0, &kNotifyingDevice},
    {WEFT_SECTION_COMPUTE, 0, &kCompute},
    {WEFT_SECTION_MEM2, 0, &kMem2}};
const weft_plugin kNotifies = {
    sizeof(weft_plugin), WEFT_PLUGIN_MAGIC, WEFT_ABI_MAJOR, WEFT_ABI_MINOR,
    {"fake", 4},         {"test", 4},       {"1", 1},       3,
    kNotifyingSections};

const Plugin& Adopt(weft_plugin_query_fn query) {
  absl::StatusOr<const Plugin*> plugin = Plugin::Adopt(query, "fake");
  CHECK(plugin.ok()) << plugin.status();
  return **plugin;
}

}  // namespace

void SetFakeOptions(const FakeOptions& options) {
  MutexLock lock(&G().mu);
  G().options = options;
  G().launches = 0;
  G().streams = 0;
  G().copies = 0;
  G().maps = 0;
  G().blocked = 0;
  G().released = false;
}

void ReleaseFake() {
  MutexLock lock(&G().mu);
  G().released = true;
  G().cv.NotifyAll();
}

int64_t FakeLaunches() {
  MutexLock lock(&G().mu);
  return G().launches;
}

bool WaitForBlockedNeg() {
  MutexLock lock(&G().mu);
  for (int i = 0; i < 30 && G().blocked == 0; ++i) {
    G().cv.WaitFor(&G().mu, std::chrono::seconds(1));
  }
  return G().blocked != 0;
}

bool InsideFake() { return inside != 0; }

const Plugin& FakePlugin(bool signals) {
  static const Plugin& polled =
      Adopt([](const weft_host*) -> const weft_plugin* { return &kPolled; });
  static const Plugin& signalling =
      Adopt([](const weft_host*) -> const weft_plugin* { return &kSignals; });
  return signals ? signalling : polled;
}

const Plugin& NotifyingFakePlugin() {
  static const Plugin& plugin =
      Adopt([](const weft_host* host) -> const weft_plugin* {
        services.store(host->services);
        return &kNotifies;
      });
  return plugin;
}

}  // namespace weft::runtime::testing
