// The facade over plugins that are linked in: written with the SDK, so this
// tests the SDK as well, and hand-made tables where the SDK would not do the
// wrong thing.
#include "plugins/host/device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "core/base/error.h"
#include "plugins/host/op_desc.h"
#include "plugins/sdk/weft_plugin.hpp"

namespace weft {
namespace {

// ---- A small plugin --------------------------------------------------------

class Relu : public weft_sdk::Kernel {
 public:
  static bool Match(const weft_sdk::Op& op, weft_match* answer) {
    answer->workspace_bytes = 64;
    answer->in_place = 1;
    answer->cost_ns = 7;
    return op.all(WEFT_F32) && op.in(0).same_dims(op.out(0));
  }
  explicit Relu(const weft_sdk::Op& op) : n_(op.out(0).numel()) {}
  void Launch(const weft_sdk::Call& call) const override {
    const float* x = call.in<float>(0);
    float* y = call.out<float>(0);
    for (int64_t i = 0; i < n_; ++i) y[i] = x[i] > 0 ? x[i] : 0;
  }

 private:
  int64_t n_;
};

// Throws what the attribute says.
class Thrower : public weft_sdk::Kernel {
 public:
  static bool Match(const weft_sdk::Op& op, weft_match*) { return true; }
  explicit Thrower(const weft_sdk::Op& op) : what_(op.String("what")) {}
  void Launch(const weft_sdk::Call& call) const override {
    if (what_ == "error") throw weft_sdk::Error(WEFT_CORRUPT, "bad tile 3");
    if (what_ == "oom") throw weft_sdk::Error(WEFT_OOM, "no scratch");
    if (what_ == "bad_alloc") throw std::bad_alloc();
    if (what_ == "standard") throw std::runtime_error("standard words");
    throw 42;
  }

 private:
  std::string what_;
};

// How the next allocations of a ToyDevice fail.
enum class Obtaining { kWell, kNothing, kThrows };
Obtaining obtaining = Obtaining::kWell;

class ToyDevice : public weft_sdk::InlineDevice {
 public:
  bool SetOption(std::string_view key, std::string_view value) override {
    return key == "known";
  }

 protected:
  void* Obtain(uint64_t bytes, uint64_t alignment) override {
    if (obtaining == Obtaining::kThrows) throw std::bad_alloc();
    if (obtaining == Obtaining::kNothing) return nullptr;
    return InlineDevice::Obtain(bytes, alignment);
  }
};

struct Toy {
  static constexpr char kName[] = "toy";
  static constexpr char kVendor[] = "acme";
  static constexpr char kVersion[] = "9";
  using Device = ToyDevice;
  static bool Describe(uint32_t index, weft_device_info* info) {
    if (index > 1) return false;
    weft_sdk::SetText(info->name, "toy device");
    info->memory_bytes = 1 << 20;
    return true;
  }
  static void Register(weft_sdk::Registry* kernels) {
    kernels->Add<Relu>(WEFT_OP_RELU).Add<Thrower>(WEFT_OP_TANH);
  }
};

const Plugin& ToyPlugin() {
  static const Plugin* plugin =
      Plugin::Adopt(&weft_sdk::InlineTables<Toy>::Query, "toy", {}).value();
  return *plugin;
}

std::unique_ptr<Device> OpenToy() {
  return Device::Open(ToyPlugin(), 0).value();
}

void ExpectCode(const absl::Status& status, ErrorCode code,
                const std::string& part) {
  EXPECT_TRUE(IsError(status, code)) << status;
  EXPECT_NE(status.message().find(part), std::string::npos) << status;
}

// ---- Work ------------------------------------------------------------------

TEST(DeviceTest, MovesAndComputes) {
  std::unique_ptr<Device> device = OpenToy();
  EXPECT_EQ(device->Name(), "toy:0");
  EXPECT_TRUE(device->info().is_inline);
  EXPECT_TRUE(device->info().host_mapped);
  EXPECT_TRUE(device->info().host_memory);
  auto stream = device->OpenStream().value();
  OpDesc desc(WEFT_OP_RELU);
  desc.In(WEFT_F32, {2, 2}).Out(WEFT_F32, {2, 2});
  KernelMatch match = device->Match(desc.desc()).value().value();
  EXPECT_FALSE(match.needs_dense);
  EXPECT_EQ(match.workspace_bytes, 64u);
  EXPECT_EQ(match.in_place, 1u);
  EXPECT_EQ(match.cost_ns, 7u);
  auto kernel = device->OpenKernel(desc.desc()).value();
  const weft_mem x = device->Alloc(16).value();
  const weft_mem y = device->Alloc(16).value();
  const float in[4] = {-1, 2, -3, 4};
  float out[4] = {};
  ASSERT_TRUE(stream->Copy(AtDevice(x), AtHost(in), 16).ok());
  const weft_buffer a = AtDevice(x);
  const weft_buffer b = AtDevice(y);
  ASSERT_TRUE(kernel->Launch(*stream, &a, &b).ok());
  ASSERT_TRUE(stream->Copy(AtHost(out), AtDevice(y), 16).ok());
  ASSERT_TRUE(stream->Sync().ok());
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[3], 4);
  const float* mapped =
      static_cast<const float*>(device->HostMap(y, 4, 8).value());
  EXPECT_EQ(mapped[0], 2);
  EXPECT_TRUE(device->Free(x).ok());
  EXPECT_TRUE(device->Free(y).ok());
}

TEST(DeviceTest, MatchIsHonest) {
  std::unique_ptr<Device> device = OpenToy();
  OpDesc other(WEFT_OP_CONV);
  EXPECT_FALSE(device->Match(other.desc()).value().has_value());
  ExpectCode(device->OpenKernel(other.desc()).status(), ErrorCode::kNoKernel,
             "toy:0");
  OpDesc type(WEFT_OP_RELU);
  type.In(WEFT_I32, {2}).Out(WEFT_I32, {2});
  EXPECT_FALSE(device->Match(type.desc()).value().has_value());
  // With gaps between the elements: the host must make it dense.
  OpDesc strided(WEFT_OP_RELU);
  strided.In(WEFT_F32, {2, 2}, {1, 2}).Out(WEFT_F32, {2, 2});
  EXPECT_TRUE(device->Match(strided.desc()).value()->needs_dense);
  ExpectCode(device->OpenKernel(strided.desc()).status(),
             ErrorCode::kDeviceFailed, "dense");
  // Missing operands are an answer, not a crash.
  OpDesc bare(WEFT_OP_RELU);
  ExpectCode(device->Match(bare.desc()).status(), ErrorCode::kDeviceFailed,
             "operand is missing");
}

TEST(DeviceTest, UnknownFlagsAreRefused) {
  std::unique_ptr<Device> device = OpenToy();
  OpDesc flags(WEFT_OP_RELU);
  flags.In(WEFT_F32, {2}, {}, /*flags=*/2).Out(WEFT_F32, {2});
  ExpectCode(device->Match(flags.desc()).status(), ErrorCode::kDeviceFailed,
             "unknown flags");
  OpDesc good(WEFT_OP_RELU);
  good.In(WEFT_F32, {2}).Out(WEFT_F32, {2});
  weft_op_desc desc = good.desc();
  desc.flags = 1;
  ExpectCode(device->Match(desc).status(), ErrorCode::kDeviceFailed,
             "unknown flags");
}

// ---- Failures --------------------------------------------------------------

TEST(DeviceTest, WhatAKernelThrowsBecomesAnError) {
  std::unique_ptr<Device> device = OpenToy();
  auto stream = device->OpenStream().value();
  const std::tuple<std::string, ErrorCode, std::string> cases[] = {
      {"error", ErrorCode::kDeviceFailed,
       "toy:0, kernel_launch: CORRUPT: bad tile 3"},
      {"oom", ErrorCode::kOutOfMemory, "no scratch"},
      {"bad_alloc", ErrorCode::kOutOfMemory, "out of host memory"},
      {"standard", ErrorCode::kDeviceFailed, "INTERNAL: standard words"},
      {"int", ErrorCode::kDeviceFailed, "unknown exception"}};
  for (const auto& [what, code, part] : cases) {
    OpDesc desc(WEFT_OP_TANH);
    desc.Set("what", what);
    auto kernel = device->OpenKernel(desc.desc()).value();
    ExpectCode(kernel->Launch(*stream, nullptr, nullptr), code, part);
  }
}

TEST(DeviceTest, NoSuchDeviceOrOption) {
  ExpectCode(Device::Open(ToyPlugin(), 7).status(), ErrorCode::kDeviceNotFound,
             "has no device 7; it has 2");
  ExpectCode(Device::Open(ToyPlugin(), 0, {{"knwon", "1"}}).status(),
             ErrorCode::kBadValue,
             "device_open refused its arguments (options: knwon=1): unknown "
             "option 'knwon'");
  EXPECT_TRUE(Device::Open(ToyPlugin(), 1, {{"known", "1"}}).ok());
}

TEST(DeviceTest, OutOfMemoryChangesNothing) {
  std::unique_ptr<Device> device = OpenToy();
  const weft_mem half = device->Alloc(1 << 19).value();
  ExpectCode(device->Alloc((1 << 19) + 1).status(), ErrorCode::kOutOfMemory,
             "524289 bytes asked for, 524288 in use");
  ExpectCode(device->Alloc(UINT64_MAX).status(), ErrorCode::kOutOfMemory, "");
  EXPECT_EQ(device->GetMemInfo()->bytes_in_use, 1u << 19);
  // Exactly what is left still fits, and again after it was freed.
  for (int i = 0; i < 3; ++i) {
    const weft_mem rest = device->Alloc(1 << 19).value();
    EXPECT_TRUE(device->Free(rest).ok());
  }
  EXPECT_TRUE(device->Free(half).ok());
  EXPECT_EQ(device->GetMemInfo()->bytes_in_use, 0u);
  EXPECT_EQ(device->GetMemInfo()->peak_bytes, 1u << 20);
  EXPECT_EQ(device->GetMemInfo()->allocations, 0u);
}

TEST(DeviceTest, WhatCouldNotBeObtainedIsNotInUse) {
  std::unique_ptr<Device> device = OpenToy();
  for (Obtaining how : {Obtaining::kNothing, Obtaining::kThrows}) {
    obtaining = how;
    for (int i = 0; i < 3; ++i) {  // more than the device has, in sum
      ExpectCode(device->Alloc(1 << 19).status(), ErrorCode::kOutOfMemory, "");
    }
    obtaining = Obtaining::kWell;
    EXPECT_EQ(device->GetMemInfo()->bytes_in_use, 0u);
    // Nor ever was.
    if (how == Obtaining::kNothing) {
      EXPECT_EQ(device->GetMemInfo()->peak_bytes, 0u);
    }
    const weft_mem all = device->Alloc(1 << 20).value();
    EXPECT_TRUE(device->Free(all).ok());
  }
}

TEST(DeviceTest, NoHandleIsAnError) {
  const weft_device_api& device = ToyPlugin().device();
  weft_status status{};
  status.struct_size = sizeof(status);
  uint64_t tick = 0;
  uint32_t word = 0;
  EXPECT_EQ(device.stream_mark(nullptr, &tick, &status), WEFT_INVALID);
  EXPECT_EQ(device.stream_poll(nullptr, &tick, &status), WEFT_INVALID);
  EXPECT_EQ(device.stream_wait(nullptr, 1, 0, &status), WEFT_INVALID);
  EXPECT_EQ(device.stream_close(nullptr, &status), WEFT_INVALID);
  EXPECT_STREQ(status.message, "no stream");
  EXPECT_EQ(ToyPlugin().sync2().host_signal(nullptr, &word, &status),
            WEFT_INVALID);
  EXPECT_EQ(word, 0u);
  EXPECT_EQ(ToyPlugin().compute().kernel_close(nullptr, &status), WEFT_INVALID);
  EXPECT_EQ(device.device_close(nullptr, &status), WEFT_INVALID);
}

TEST(DeviceTest, AllocationsAreAlignedAndDistinct) {
  std::unique_ptr<Device> device = OpenToy();
  std::vector<weft_mem> all;
  for (uint64_t alignment : {0, 1, 64, 4096}) {
    for (uint64_t bytes : {0, 1, 63, 65}) {
      all.push_back(device->Alloc(bytes, WEFT_MEM_DEVICE, alignment).value());
      void* at = device->HostMap(all.back(), 0, bytes).value();
      const uint64_t least = std::max<uint64_t>(alignment, 64);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(at) % least, 0u);
    }
  }
  EXPECT_EQ(std::set<weft_mem>(all.begin(), all.end()).size(), all.size());
  for (weft_mem mem : all) EXPECT_TRUE(device->Free(mem).ok());
  ExpectCode(device->Alloc(8, WEFT_MEM_DEVICE, 48).status(),
             ErrorCode::kDeviceFailed, "power of two");
  ExpectCode(device->Alloc(8, /*kind=*/9).status(), ErrorCode::kDeviceFailed,
             "kind");
}

TEST(DeviceTest, BoundsAndStaleMemoryAreRefused) {
  std::unique_ptr<Device> device = OpenToy();
  auto stream = device->OpenStream().value();
  const weft_mem mem = device->Alloc(16).value();
  char host[64] = {};
  auto copy = [&](weft_place dst, weft_place src, uint64_t n) {
    return stream->Copy(dst, src, n);
  };
  EXPECT_TRUE(copy(AtDevice(mem, 16), AtHost(host), 0).ok());
  ExpectCode(copy(AtDevice(mem), AtHost(host), 17), ErrorCode::kDeviceFailed,
             "RANGE: bytes 0 + 17 of an allocation of 16");
  ExpectCode(copy(AtHost(host), AtDevice(mem, 8), 9), ErrorCode::kDeviceFailed,
             "RANGE");
  ExpectCode(copy(AtHost(host), AtDevice(mem, UINT64_MAX), 2),
             ErrorCode::kDeviceFailed, "RANGE");
  ExpectCode(copy(AtDevice(mem, 4), AtDevice(mem), 8), ErrorCode::kDeviceFailed,
             "overlap");
  ExpectCode(copy(AtDevice(mem), AtHost(nullptr), 8), ErrorCode::kDeviceFailed,
             "neither");
  ExpectCode(device->HostMap(mem, 9, 8).status(), ErrorCode::kDeviceFailed,
             "RANGE");
  EXPECT_TRUE(device->Free(mem).ok());
  ExpectCode(device->Free(mem), ErrorCode::kDeviceFailed, "already freed");
  ExpectCode(device->Free(0), ErrorCode::kDeviceFailed, "unknown");
  ExpectCode(copy(AtDevice(mem), AtHost(host), 1), ErrorCode::kDeviceFailed,
             "already freed");
}

TEST(DeviceTest, CloseWithLiveHandlesIsBusy) {
  std::unique_ptr<Device> device = OpenToy();
  const weft_mem mem = device->Alloc(1).value();
  ExpectCode(device->Close(), ErrorCode::kDeviceFailed, "BUSY: 1 allocations");
  EXPECT_TRUE(device->Free(mem).ok());
  auto stream = device->OpenStream().value();
  ExpectCode(device->Close(), ErrorCode::kDeviceFailed, "BUSY");
  stream.reset();
  OpDesc desc(WEFT_OP_TANH);
  auto kernel = device->OpenKernel(desc.desc()).value();
  ExpectCode(device->Close(), ErrorCode::kDeviceFailed, "BUSY");
  kernel.reset();
  EXPECT_TRUE(device->Close().ok());
}

TEST(DeviceTest, OpensAndClosesManyTimes) {
  for (int i = 0; i < 1000; ++i) {
    std::unique_ptr<Device> device = OpenToy();
    auto stream = device->OpenStream().value();
    const weft_mem mem = device->Alloc(100).value();
    ASSERT_TRUE(device->Free(mem).ok());
    stream.reset();
    ASSERT_TRUE(device->Close().ok());
  }
}

TEST(DeviceTest, TicksGrow) {
  std::unique_ptr<Device> device = OpenToy();
  auto stream = device->OpenStream().value();
  auto other = device->OpenStream().value();
  uint64_t last = 0;
  for (int i = 0; i < 100; ++i) {
    uint64_t tick = 0;
    uint64_t done = 0;
    ASSERT_TRUE(stream->Mark(&tick).ok());
    EXPECT_GT(tick, last);
    ASSERT_TRUE(stream->Poll(&done).ok());
    EXPECT_EQ(done, tick);
    EXPECT_TRUE(stream->Wait(tick, 0).value());
    EXPECT_TRUE(other->WaitTick(*stream, tick).ok());
    last = tick;
  }
  ExpectCode(stream->Wait(last + 1, 0).status(), ErrorCode::kDeviceFailed,
             "never marked");
  uint32_t word = 5;
  ASSERT_TRUE(stream->has_host_signal());
  EXPECT_TRUE(stream->HostSignal(&word).ok());
  EXPECT_EQ(word, 6u);
}

// ---- Version skew ----------------------------------------------------------

// A struct with a claimed size of `size` and canaries behind it.
template <typename T>
class Truncated {
 public:
  explicit Truncated(uint32_t size) : size_(size) {
    std::memset(bytes_, kCanary, sizeof(bytes_));
    std::memcpy(bytes_, &size, sizeof(size));
  }
  T* get() { return reinterpret_cast<T*>(bytes_); }
  bool Intact() const {
    uint32_t size;
    std::memcpy(&size, bytes_, sizeof(size));
    if (size != size_) return false;
    for (size_t i = size_; i < sizeof(bytes_); ++i) {
      if (bytes_[i] != kCanary) return false;
    }
    return true;
  }

 private:
  static constexpr unsigned char kCanary = 0xA5;
  uint32_t size_;
  alignas(T) unsigned char bytes_[sizeof(T) + 64];
};

TEST(SkewTest, OlderHostGetsNoByteMoreThanItKnows) {
  std::unique_ptr<Device> device = OpenToy();
  const weft_device_api& api = ToyPlugin().device();
  Truncated<weft_status> status(sizeof(weft_status));
  for (uint32_t size = 8; size <= sizeof(weft_device_info); size += 4) {
    Truncated<weft_device_info> info(size);
    EXPECT_EQ(api.device_info(0, info.get(), status.get()), WEFT_OK);
    EXPECT_TRUE(info.Intact()) << size;
  }
  OpDesc desc(WEFT_OP_RELU);
  desc.In(WEFT_F32, {1}).Out(WEFT_F32, {1});
  for (uint32_t size = 8; size <= sizeof(weft_match); size += 4) {
    Truncated<weft_match> match(size);
    EXPECT_EQ(ToyPlugin().compute().kernel_match(device->handle(), &desc.desc(),
                                                 match.get(), status.get()),
              WEFT_OK);
    EXPECT_TRUE(match.Intact()) << size;
    EXPECT_EQ(match.get()->fit, WEFT_FIT_EXACT);
  }
  for (uint32_t size = 8; size <= sizeof(weft_mem_info); size += 8) {
    Truncated<weft_mem_info> info(size);
    EXPECT_EQ(
        ToyPlugin().mem2().mem_info(device->handle(), info.get(), status.get()),
        WEFT_OK);
    EXPECT_TRUE(info.Intact()) << size;
  }
  for (uint32_t size = 8; size <= sizeof(weft_status); ++size) {
    Truncated<weft_status> shorter(size);
    EXPECT_EQ(api.mem_free(device->handle(), 12345, shorter.get()),
              WEFT_INVALID);
    EXPECT_EQ(shorter.get()->code, WEFT_INVALID);
    EXPECT_TRUE(shorter.Intact()) << size;
    if (size > 17) {  // what fits of the message, with its end
      EXPECT_LT(std::strlen(shorter.get()->message), size - 16) << size;
    }
  }
}

// An op whose structs are longer than the plugin's header knows.
TEST(SkewTest, NewerHostsLongerStructsAreRead) {
  struct NewTensor {
    weft_tensor known;
    uint64_t added[2];
  };
  struct NewAttr {
    weft_attr known;
    uint64_t added;
  };
  OpDesc old(WEFT_OP_TANH);
  old.In(WEFT_F32, {1}).In(WEFT_I64, {2, 3}).Set("a", int64_t{4});
  old.Set("what", std::string("standard"));
  const weft_op_desc& d = old.desc();
  NewTensor inputs[2] = {{d.inputs[0], {~0ull, ~0ull}},
                         {d.inputs[1], {~0ull, ~0ull}}};
  NewAttr attrs[2] = {{d.attrs[0], ~0ull}, {d.attrs[1], ~0ull}};
  for (NewTensor& t : inputs) t.known.struct_size = sizeof(t);
  for (NewAttr& a : attrs) a.known.struct_size = sizeof(a);
  struct {
    weft_op_desc known;
    uint64_t added = ~0ull;
  } desc{d};
  desc.known.struct_size = sizeof(desc);
  desc.known.inputs = &inputs[0].known;
  desc.known.attrs = &attrs[0].known;
  weft_sdk::Op op(&desc.known);
  EXPECT_EQ(op.in(1).dtype(), WEFT_I64);
  EXPECT_EQ(op.in(1).dims(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(op.Int("a"), 4);
  EXPECT_EQ(op.String("what"), "standard");
}

TEST(SkewTest, AttributesAreTyped) {
  OpDesc d(WEFT_OP_TANH);
  d.Set("ints", std::vector<int64_t>{1, 2})
      .Set("floats", std::vector<double>{0.5})
      .Set("strings", std::vector<std::string>{"x", "yy"})
      .Set("f", 2.5)
      .SetDType("t", WEFT_I64);
  weft_sdk::Op op(&d.desc());
  EXPECT_EQ(op.Ints("ints"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(op.Floats("floats"), std::vector<double>{0.5});
  EXPECT_EQ(op.Strings("strings"), (std::vector<std::string>{"x", "yy"}));
  EXPECT_EQ(op.Float("f"), 2.5);
  EXPECT_EQ(op.DType("t"), WEFT_I64);
  EXPECT_EQ(op.Int("absent", 3), 3);
  EXPECT_THROW(op.Int("f"), weft_sdk::Error);
}

// ---- Tables by hand --------------------------------------------------------

// The tables of Toy, to be spoilt.
struct Spoilt {
  Spoilt() {
    static HostServices* services = new HostServices("x", {});
    const weft_plugin* toy =
        weft_sdk::InlineTables<Toy>::Query(services->host());
    plugin = *toy;
    sections.assign(toy->sections, toy->sections + toy->section_count);
    device = *static_cast<const weft_device_api*>(sections[0].table);
    compute = *static_cast<const weft_compute_api*>(sections[1].table);
    mem2 = *static_cast<const weft_mem2_api*>(sections[2].table);
    sync2 = *static_cast<const weft_sync2_api*>(sections[3].table);
    sections[0].table = &device;
    sections[1].table = &compute;
    sections[2].table = &mem2;
    sections[3].table = &sync2;
  }
  absl::StatusOr<const Plugin*> Adopt() {
    plugin.sections = sections.data();
    plugin.section_count = sections.size();
    current = &plugin;
    return Plugin::Adopt([](const weft_host*) { return current; }, "spoilt");
  }

  static inline const weft_plugin* current = nullptr;
  weft_plugin plugin;
  std::vector<weft_section> sections;
  weft_device_api device;
  weft_compute_api compute;
  weft_mem2_api mem2;
  weft_sync2_api sync2;
};

TEST(TablesTest, RequiredFunctions) {
  Spoilt shorter;
  shorter.device.struct_size = offsetof(weft_device_api, stream_wait);
  ExpectCode(shorter.Adopt().status(), ErrorCode::kPluginBroken,
             "'stream_wait'");
  Spoilt null;
  null.device.copy = nullptr;
  ExpectCode(null.Adopt().status(), ErrorCode::kPluginBroken, "'copy'");
  Spoilt half;
  half.compute.kernel_close = nullptr;
  ExpectCode(half.Adopt().status(), ErrorCode::kPluginBroken, "compute");
  Spoilt torn;
  torn.device.struct_size = 3;
  ExpectCode(torn.Adopt().status(), ErrorCode::kPluginBroken, "3 bytes");
}

TEST(TablesTest, Sections) {
  Spoilt twice;
  twice.sections.push_back(twice.sections[1]);
  ExpectCode(twice.Adopt().status(), ErrorCode::kPluginBroken, "twice");
  Spoilt null;
  null.sections[2].table = nullptr;
  ExpectCode(null.Adopt().status(), ErrorCode::kPluginBroken, "is null");
  Spoilt neither;  // kernels without a device
  neither.sections.erase(neither.sections.begin());
  ExpectCode(neither.Adopt().status(), ErrorCode::kPluginBroken,
             "neither a device nor a transport");
  Spoilt newer;  // a section of a later version
  newer.sections.push_back({77, 0, &newer.device});
  newer.plugin.abi_minor = 9;
  absl::StatusOr<const Plugin*> plugin = newer.Adopt();
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  EXPECT_EQ((*plugin)->abi_minor(), 9u);
  EXPECT_NE((*plugin)->Section(77), nullptr);
  Spoilt name;
  name.plugin.name = {"Toy!", 4};
  ExpectCode(name.Adopt().status(), ErrorCode::kPluginBroken, "'Toy!'");
  Spoilt refuses;
  ExpectCode(
      Plugin::Adopt(
          [](const weft_host*) -> const weft_plugin* { return nullptr; }, "shy")
          .status(),
      ErrorCode::kPluginAbi, "shy: refuses this host");
}

// A plugin without the optional sections is a whole device all the same.
TEST(TablesTest, DefaultsForWhatIsMissing) {
  Spoilt bare;
  bare.sections.resize(1);
  const Plugin* plugin = bare.Adopt().value();
  EXPECT_FALSE(plugin->has_compute());
  std::unique_ptr<Device> device = Device::Open(*plugin, 0).value();
  EXPECT_FALSE(device->info().host_mapped);
  EXPECT_FALSE(device->info().host_memory);
  OpDesc desc(WEFT_OP_RELU);
  EXPECT_FALSE(device->Match(desc.desc()).value().has_value());
  ExpectCode(device->OpenKernel(desc.desc()).status(), ErrorCode::kPluginAbi,
             "kernel_open");
  const weft_mem a = device->Alloc(10).value();
  const weft_mem b = device->Alloc(20).value();
  EXPECT_EQ(device->HostMap(a, 0, 1).value(), nullptr);
  ASSERT_TRUE(device->Free(a).ok());
  MemInfo info = device->GetMemInfo().value();
  EXPECT_EQ(info.bytes_in_use, 20u);
  EXPECT_EQ(info.peak_bytes, 30u);
  EXPECT_EQ(info.allocations, 1u);
  auto s = device->OpenStream().value();
  auto t = device->OpenStream().value();
  EXPECT_FALSE(s->has_host_signal());
  uint64_t tick = 0;
  ASSERT_TRUE(s->Mark(&tick).ok());
  EXPECT_TRUE(t->WaitTick(*s, tick).ok());
  EXPECT_TRUE(device->Free(b).ok());
}

// Work that never ends: an error that says where, and not a wait without end.
TEST(TablesTest, WaitsHaveAnEnd) {
  Spoilt hangs;
  hangs.sections.resize(1);
  hangs.device.stream_wait = [](weft_stream*, uint64_t, uint64_t,
                                weft_status*) -> weft_code {
    return WEFT_TIMEOUT;
  };
  const Plugin* plugin = hangs.Adopt().value();
  std::unique_ptr<Device> device = Device::Open(*plugin, 0).value();
  auto s = device->OpenStream().value();
  auto t = device->OpenStream().value();
  bool busy = false;
  ExpectCode(s->Sync(5'000'000, &busy), ErrorCode::kDeviceFailed,
             "toy:0, stream_wait: tick 1 is not done after 5 ms");
  EXPECT_TRUE(busy);
  ExpectCode(t->WaitTick(*s, 1, 7'000'000), ErrorCode::kDeviceFailed,
             "tick 1 is not done after 7 ms");
}

// Work whose end nobody can name may still be under way.
TEST(TablesTest, WithoutATickTheWorkIsBusy) {
  Spoilt blind;
  blind.device.stream_mark = [](weft_stream*, uint64_t*,
                                weft_status*) -> weft_code {
    return WEFT_INTERNAL;
  };
  std::unique_ptr<Device> device =
      Device::Open(*blind.Adopt().value(), 0).value();
  auto s = device->OpenStream().value();
  bool busy = false;
  ExpectCode(s->Sync(5'000'000, &busy), ErrorCode::kDeviceFailed,
             "toy:0, stream_mark: INTERNAL");
  EXPECT_TRUE(busy);
}

// A device that does not say that it notifies gets no token to do so.
TEST(TablesTest, OnlyWhoNotifiesGetsAToken) {
  static uint64_t token;
  static uint32_t flags;
  Spoilt quiet;
  static auto* const toy_open = quiet.device.stream_open;
  static auto* const toy_info = quiet.device.device_info;
  quiet.device.stream_open = [](weft_device* d, const weft_stream_options* o,
                                weft_stream** out, weft_status* status) {
    token = o->notify_token;
    return toy_open(d, o, out, status);
  };
  quiet.device.device_info = [](uint32_t index, weft_device_info* out,
                                weft_status* status) {
    const weft_code code = toy_info(index, out, status);
    out->flags |= flags;
    return code;
  };
  const Plugin* plugin = quiet.Adopt().value();
  for (bool notifies : {false, true}) {
    flags = notifies ? WEFT_DEVICE_NOTIFIES : 0;
    std::unique_ptr<Device> device = Device::Open(*plugin, 0).value();
    auto s = device->OpenStream(/*priority=*/0, /*notify_token=*/17).value();
    EXPECT_EQ(s->notifies(), notifies);
    EXPECT_EQ(token, notifies ? 17u : 0u);
  }
}

TEST(TablesTest, OptionalSlotBeyondTheTable) {
  Spoilt older;  // mem2 of a version that had only host_map
  older.mem2.struct_size = offsetof(weft_mem2_api, mem_info);
  const Plugin* plugin = older.Adopt().value();
  EXPECT_NE(plugin->mem2().host_map, nullptr);
  EXPECT_EQ(plugin->mem2().mem_info, nullptr);
  auto device = Device::Open(*plugin, 0).value();
  EXPECT_TRUE(device->GetMemInfo().ok());
}

// ---- Host services ---------------------------------------------------------

TEST(ServicesTest, Options) {
  HostServices services("x", {{"tier", "T1"}});
  const weft_host_services& s = *services.host()->services;
  weft_string value = s.option_get(s.context, {"tier", 4});
  EXPECT_EQ(std::string(value.data, value.size), "T1");
  EXPECT_EQ(s.option_get(s.context, {"tie", 3}).data, nullptr);
  EXPECT_GT(s.now_ns(s.context), 0u);
  s.log(s.context, WEFT_LOG_INFO, {"hello", 5});
}

TEST(ServicesTest, MemoryIsCounted) {
  HostServices services("x", {});
  const weft_host_services& s = *services.host()->services;
  void* p = s.alloc(s.context, 100, 256);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 256, 0u);
  EXPECT_EQ(services.bytes_in_use(), 100u);
  int other = 0;
  s.free(s.context, &other);
  EXPECT_EQ(services.assert_failures(), 1u);
  s.free(s.context, p);
  s.free(s.context, nullptr);
  EXPECT_EQ(services.bytes_in_use(), 0u);
  EXPECT_EQ(s.alloc(s.context, 8, 24), nullptr) << "not a power of two";
  EXPECT_EQ(s.alloc(s.context, UINT64_MAX, 8), nullptr);
  s.assert_fail(s.context, {"lost a tile", 11});
  EXPECT_EQ(services.assert_failures(), 2u);
  EXPECT_EQ(services.last_assert_failure(), "lost a tile");
}

TEST(ServicesTest, ParallelForAndNotify) {
  ToyPlugin();  // the SDK has a host now
  auto sum = [] {
    std::atomic<uint64_t> total{0};
    weft_sdk::Host::ParallelFor(100, [&](uint64_t i) { total += i; });
    return total.load();
  };
  EXPECT_EQ(sum(), 4950u);
  EXPECT_EQ(weft_sdk::Host::ThreadBudget(), 1u);
  static std::atomic<int> calls;
  static std::atomic<uint64_t> token;
  HostHooks hooks;
  hooks.parallel_for = [](uint64_t n, void (*fn)(void*, uint64_t), void* arg) {
    ++calls;
    std::thread half([=] {
      for (uint64_t i = 0; i < n / 2; ++i) fn(arg, i);
    });
    for (uint64_t i = n / 2; i < n; ++i) fn(arg, i);
    half.join();
  };
  hooks.thread_budget = [] { return 2u; };
  hooks.notify = [](uint64_t t) { token = t; };
  SetHostHooks(hooks);
  EXPECT_EQ(sum(), 4950u);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(weft_sdk::Host::ThreadBudget(), 2u);
  EXPECT_THROW(weft_sdk::Host::ParallelFor(
                   100, [](uint64_t i) { throw std::runtime_error("x"); }),
               std::runtime_error);
  weft_sdk::Host::Notify(17);
  EXPECT_EQ(token, 17u);
  SetHostHooks({});
}

}  // namespace
}  // namespace weft
