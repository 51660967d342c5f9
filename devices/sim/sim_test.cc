// The queues, ticks and faults of the simulated device, through the ABI.
//
// To look at a queue that is not done, tests hold its thread: the device tells
// the host of a finished tick through `notify`, and the hook here may wait.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "plugins/host/device.h"
#include "plugins/host/op_desc.h"
#include "plugins/host/test_plugins.h"

namespace weft {
namespace {

constexpr uint64_t kLong = 20000000000;  // 20 s: never reached

const Plugin& Sim() {
  static const Plugin* plugin =
      Plugin::Load("sim", TestLoadOptions({"devices/sim"})).value();
  return *plugin;
}

std::unique_ptr<Device> OpenSim(const Device::Options& options = {}) {
  return Device::Open(Sim(), 0, options).value();
}

// Holds the stream that was opened with `kToken` after its first tick.
class Gate {
 public:
  static constexpr uint64_t kToken = 77;

  Gate() {
    current_ = this;
    HostHooks hooks;
    hooks.notify = [](uint64_t token) {
      if (token == kToken) current_->Enter();
    };
    SetHostHooks(hooks);
  }
  ~Gate() {
    Open();
    SetHostHooks({});
  }
  void AwaitArrival() {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [&] { return arrived_; });
  }
  void Open() {
    std::lock_guard<std::mutex> lock(mu_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  void Enter() {
    std::unique_lock<std::mutex> lock(mu_);
    arrived_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  static inline Gate* current_ = nullptr;
  std::mutex mu_;
  std::condition_variable changed_;
  bool arrived_ = false;
  bool open_ = false;
};

// A device with an op that adds 1 to a float, and a place for it.
class SimTest : public testing::Test {
 protected:
  void Open(const Device::Options& options = {}) {
    device_ = OpenSim(options);
    stream_ = device_->OpenStream().value();
    OpDesc desc(WEFT_OP_ADD);
    desc.In(WEFT_F32, {}).In(WEFT_F32, {}).Out(WEFT_F32, {});
    if (device_->Match(desc.desc())->has_value()) {
      add_ = device_->OpenKernel(desc.desc()).value();
    }
    x_ = device_->Alloc(4).value();
    one_ = device_->Alloc(4).value();
  }
  void TearDown() override {
    if (device_ == nullptr) return;
    add_.reset();
    stream_.reset();
    EXPECT_TRUE(device_->Free(x_).ok());
    EXPECT_TRUE(device_->Free(one_).ok());
    EXPECT_TRUE(device_->Close().ok());
  }

  absl::Status Write(Stream& s, weft_mem mem, const float* value) {
    return s.Copy(AtDevice(mem), AtHost(value), 4);
  }
  absl::Status AddOne(Stream& s) {
    const weft_buffer in[2] = {AtDevice(x_), AtDevice(one_)};
    const weft_buffer out = AtDevice(x_);
    return add_->Launch(s, in, &out);
  }
  float Read(Stream& s) {
    float value = -1;
    EXPECT_TRUE(s.Copy(AtHost(&value), AtDevice(x_), 4).ok());
    EXPECT_TRUE(s.Sync().ok());
    return value;
  }

  const float kZero = 0;
  const float kOne = 1;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Kernel> add_;
  weft_mem x_ = 0;
  weft_mem one_ = 0;
};

void ExpectCode(const absl::Status& status, ErrorCode code,
                const std::string& part) {
  EXPECT_TRUE(IsError(status, code)) << status;
  EXPECT_NE(status.message().find(part), std::string::npos) << status;
}

TEST_F(SimTest, MemoryIsOutOfReach) {
  Open();
  EXPECT_FALSE(device_->info().is_inline);
  EXPECT_FALSE(device_->info().host_mapped);
  EXPECT_TRUE(device_->info().host_memory);
  EXPECT_EQ(device_->HostMap(x_, 0, 4).value(), nullptr);
  EXPECT_LT(x_, 4096u * 16) << "an id, not an address";
  EXPECT_EQ(device_->GetMemInfo()->bytes_in_use, 8u);
}

TEST_F(SimTest, WorkIsDoneInOrder) {
  Open();
  ASSERT_TRUE(Write(*stream_, x_, &kZero).ok());
  ASSERT_TRUE(Write(*stream_, one_, &kOne).ok());
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(AddOne(*stream_).ok());
  EXPECT_EQ(Read(*stream_), 1000);
}

TEST_F(SimTest, FreshMemoryIsPoisoned) {
  Open();
  EXPECT_NE(Read(*stream_), Read(*stream_)) << "NaN is not itself";
}

TEST_F(SimTest, TicksCompleteOneByOne) {
  Gate gate;
  Open();
  auto slow = device_->OpenStream(0, Gate::kToken).value();
  uint64_t first = 0, second = 0, done = 0;
  ASSERT_TRUE(Write(*slow, x_, &kZero).ok());
  ASSERT_TRUE(slow->Mark(&first).ok());
  ASSERT_TRUE(Write(*slow, x_, &kOne).ok());
  ASSERT_TRUE(slow->Mark(&second).ok());
  EXPECT_GT(second, first);
  gate.AwaitArrival();
  ASSERT_TRUE(slow->Poll(&done).ok());
  EXPECT_EQ(done, first);
  EXPECT_TRUE(slow->Wait(first, 0).value());
  EXPECT_FALSE(slow->Wait(second, 0).value());
  EXPECT_FALSE(slow->Wait(second, 1000).value()) << "after 1 us";
  ASSERT_TRUE(slow->Poll(&done).ok());
  EXPECT_EQ(done, first) << "a wait that times out changes nothing";
  EXPECT_EQ(Read(*stream_), 0) << "other streams go on";
  gate.Open();
  EXPECT_TRUE(slow->Wait(second, kLong).value());
  ASSERT_TRUE(slow->Poll(&done).ok());
  EXPECT_EQ(done, second);
  EXPECT_EQ(Read(*stream_), 1);
  ExpectCode(slow->Wait(second + 1, kLong).status(), ErrorCode::kDeviceFailed,
             "never marked");
}

TEST_F(SimTest, StreamsWaitForEachOther) {
  Gate gate;
  Open();
  auto slow = device_->OpenStream(0, Gate::kToken).value();
  uint64_t gated = 0, written = 0;
  ASSERT_TRUE(Write(*stream_, x_, &kZero).ok());
  ASSERT_TRUE(stream_->Sync().ok());
  ASSERT_TRUE(slow->Mark(&gated).ok());
  ASSERT_TRUE(Write(*slow, x_, &kOne).ok());
  ASSERT_TRUE(slow->Mark(&written).ok());
  gate.AwaitArrival();
  float seen = -1;
  ASSERT_TRUE(stream_->WaitTick(*slow, written).ok());
  ASSERT_TRUE(stream_->Copy(AtHost(&seen), AtDevice(x_), 4).ok());
  uint64_t read = 0;
  ASSERT_TRUE(stream_->Mark(&read).ok());
  EXPECT_FALSE(stream_->Wait(read, 1000).value());
  gate.Open();
  EXPECT_TRUE(stream_->Wait(read, kLong).value());
  EXPECT_EQ(seen, 1);
}

TEST_F(SimTest, SignalsWakeTheHost) {
  Open();
  std::atomic<uint32_t> word{0};
  ASSERT_TRUE(stream_->has_host_signal());
  ASSERT_TRUE(Write(*stream_, x_, &kZero).ok());
  ASSERT_TRUE(stream_->HostSignal(reinterpret_cast<uint32_t*>(&word)).ok());
  ASSERT_TRUE(stream_->Sync().ok());
  EXPECT_EQ(word.load(), 1u);
}

TEST_F(SimTest, MemoryInUseCannotBeFreed) {
  Gate gate;
  Open();
  auto slow = device_->OpenStream(0, Gate::kToken).value();
  const weft_mem mem = device_->Alloc(4).value();
  uint64_t tick = 0;
  ASSERT_TRUE(slow->Mark(&tick).ok());
  ASSERT_TRUE(Write(*slow, mem, &kOne).ok());
  ASSERT_TRUE(slow->Mark(&tick).ok());
  gate.AwaitArrival();
  ExpectCode(device_->Free(mem), ErrorCode::kDeviceFailed,
             "freed before its work is done");
  gate.Open();
  ASSERT_TRUE(slow->Wait(tick, kLong).value());
  EXPECT_TRUE(device_->Free(mem).ok());
  ExpectCode(device_->Free(mem), ErrorCode::kDeviceFailed, "already freed");
}

TEST_F(SimTest, BoundsAreChecked) {
  Open();
  char host[16] = {};
  ExpectCode(stream_->Copy(AtDevice(x_), AtHost(host), 5),
             ErrorCode::kDeviceFailed, "RANGE");
  ExpectCode(stream_->Copy(AtHost(host), AtDevice(x_, UINT64_MAX), 2),
             ErrorCode::kDeviceFailed, "RANGE");
  ExpectCode(stream_->Copy(AtDevice(x_, 1), AtDevice(x_), 3),
             ErrorCode::kDeviceFailed, "overlap");
  ExpectCode(stream_->Copy(AtDevice(424242), AtHost(host), 1),
             ErrorCode::kDeviceFailed, "unknown");
  // An operand that is too small, or that the device cannot reach.
  const weft_buffer small[2] = {AtDevice(x_, 1), AtDevice(one_)};
  const weft_buffer out = AtDevice(x_);
  ExpectCode(add_->Launch(*stream_, small, &out), ErrorCode::kDeviceFailed,
             "RANGE");
  const weft_buffer at_host[2] = {AtHost(host), AtDevice(one_)};
  ExpectCode(add_->Launch(*stream_, at_host, &out), ErrorCode::kDeviceFailed,
             "not in device memory");
}

TEST_F(SimTest, OutOfMemory) {
  Open({{"memory_bytes", "100"}});
  const weft_mem mem = device_->Alloc(92).value();
  ExpectCode(device_->Alloc(1).status(), ErrorCode::kOutOfMemory,
             "1 bytes asked for, 100 in use");
  EXPECT_TRUE(device_->Free(mem).ok());
  ExpectCode(device_->Alloc(93).status(), ErrorCode::kOutOfMemory, "");
  const weft_mem again = device_->Alloc(92).value();
  EXPECT_TRUE(device_->Free(again).ok());
}

TEST_F(SimTest, AllocationFailsOnRequestOnce) {
  Open({{"fail_alloc_at", "3"}});
  ExpectCode(device_->Alloc(1).status(), ErrorCode::kOutOfMemory,
             "allocation 3 fails on request");
  const weft_mem mem = device_->Alloc(1).value();
  EXPECT_TRUE(device_->Free(mem).ok());
}

// Poison, not hang: what follows the fault is skipped, every tick completes.
TEST_F(SimTest, FaultPoisonsItsStreamOnly) {
  Open({{"fault_at_launch", "3"}});
  ASSERT_TRUE(Write(*stream_, x_, &kZero).ok());
  ASSERT_TRUE(Write(*stream_, one_, &kOne).ok());
  std::vector<uint64_t> ticks(5);
  for (uint64_t& tick : ticks) {
    ASSERT_TRUE(AddOne(*stream_).ok());
    ASSERT_TRUE(stream_->Mark(&tick).ok());
  }
  std::atomic<uint32_t> word{0};
  ASSERT_TRUE(stream_->HostSignal(reinterpret_cast<uint32_t*>(&word)).ok());
  ExpectCode(stream_->Sync(), ErrorCode::kDeviceFailed,
             "sim:0, stream_wait: INTERNAL: the launch fails on request");
  EXPECT_EQ(word.load(), 1u) << "a worker that sleeps must wake";
  for (int i = 0; i < 3; ++i) {
    uint64_t done = 0;
    ExpectCode(stream_->Poll(&done), ErrorCode::kDeviceFailed, "on request");
    EXPECT_GE(done, ticks.back());
  }
  ExpectCode(stream_->Wait(ticks[0], kLong).status(), ErrorCode::kDeviceFailed,
             "on request");
  // Two launches were done, the third failed, the others were skipped.
  auto other = device_->OpenStream().value();
  EXPECT_EQ(Read(*other), 2);
}

TEST_F(SimTest, FaultOfACopy) {
  Open({{"fault_at_copy", "2"}});
  ASSERT_TRUE(Write(*stream_, x_, &kOne).ok());
  ASSERT_TRUE(stream_->Sync().ok());
  ASSERT_TRUE(Write(*stream_, x_, &kZero).ok());
  ExpectCode(stream_->Sync(), ErrorCode::kDeviceFailed,
             "the copy fails on request");
  auto other = device_->OpenStream().value();
  EXPECT_EQ(Read(*other), 1);
}

// What a kernel finds wrong while it runs is a fault like any other.
TEST_F(SimTest, BadIndexPoisons) {
  Open();
  OpDesc desc(WEFT_OP_GATHER);
  desc.In(WEFT_F32, {1}).In(WEFT_I32, {1}).Out(WEFT_F32, {1});
  desc.Set("axis", int64_t{0});
  auto gather = device_->OpenKernel(desc.desc()).value();
  const int32_t index = 5;
  ASSERT_TRUE(stream_->Copy(AtDevice(one_), AtHost(&index), 4).ok());
  const weft_buffer in[2] = {AtDevice(x_), AtDevice(one_)};
  const weft_buffer out = AtDevice(x_);
  ASSERT_TRUE(gather->Launch(*stream_, in, &out).ok());
  ExpectCode(stream_->Sync(), ErrorCode::kDeviceFailed, "index 5 of 1");
}

TEST_F(SimTest, LostDevice) {
  Open({{"lose_device_at", "2"}});
  auto other = device_->OpenStream().value();
  ASSERT_TRUE(Write(*stream_, x_, &kZero).ok());
  ASSERT_TRUE(Write(*stream_, one_, &kOne).ok());
  ExpectCode(stream_->Sync(), ErrorCode::kDeviceFailed, "DEVICE_LOST");
  uint64_t done = 0;
  ExpectCode(other->Poll(&done), ErrorCode::kDeviceFailed, "DEVICE_LOST");
  ExpectCode(other->Sync(), ErrorCode::kDeviceFailed, "DEVICE_LOST");
  ExpectCode(device_->Alloc(1).status(), ErrorCode::kDeviceFailed,
             "DEVICE_LOST");
  ExpectCode(device_->OpenStream().status(), ErrorCode::kDeviceFailed,
             "DEVICE_LOST");
  // Closing works (see TearDown), and a new one is well.
  std::unique_ptr<Device> fresh = OpenSim();
  auto stream = fresh->OpenStream().value();
  EXPECT_TRUE(stream->Sync().ok());
}

TEST_F(SimTest, TierZeroComputesNothing) {
  Open({{"tier", "T0"}});
  OpDesc desc(WEFT_OP_ADD);
  desc.In(WEFT_F32, {}).In(WEFT_F32, {}).Out(WEFT_F32, {});
  EXPECT_FALSE(device_->Match(desc.desc()).value().has_value());
  ExpectCode(device_->OpenKernel(desc.desc()).status(), ErrorCode::kNoKernel,
             "sim:0");
}

TEST_F(SimTest, OptionsAreChecked) {
  auto open = [](const char* key, const char* value) {
    return Device::Open(Sim(), 0, {{key, value}}).status();
  };
  ExpectCode(open("tear", "T1"), ErrorCode::kBadValue, "'tear'");
  ExpectCode(open("tier", "T9"), ErrorCode::kBadValue, "'T9'");
  ExpectCode(open("delay_us", "-1"), ErrorCode::kBadValue, "'-1'");
  ExpectCode(open("delay_us", "5x"), ErrorCode::kBadValue, "'5x'");
}

TEST_F(SimTest, CloseWithLiveHandlesIsBusy) {
  std::unique_ptr<Device> device = OpenSim();
  auto stream = device->OpenStream().value();
  ExpectCode(device->Close(), ErrorCode::kDeviceFailed, "BUSY");
  stream.reset();
  const weft_mem mem = device->Alloc(0).value();
  ExpectCode(device->Close(), ErrorCode::kDeviceFailed, "BUSY");
  EXPECT_TRUE(device->Free(mem).ok());
  EXPECT_TRUE(device->Close().ok());
}

TEST_F(SimTest, OpensAndClosesManyTimes) {
  for (int i = 0; i < 200; ++i) {
    Open();
    ASSERT_TRUE(Write(*stream_, x_, &kOne).ok());
    TearDown();  // the stream's close drains
    device_.reset();
  }
}

// Ticks only grow, whoever looks and whenever.
TEST_F(SimTest, PollFromAnotherThread) {
  Open();
  std::atomic<bool> stop{false};
  std::atomic<int> steps_back{0};
  std::thread watcher([&] {
    uint64_t last = 0;
    while (!stop) {
      uint64_t done = 0;
      if (!stream_->Poll(&done).ok() || done < last) ++steps_back;
      last = done;
    }
  });
  uint64_t tick = 0;
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(Write(*stream_, x_, &kOne).ok());
    ASSERT_TRUE(stream_->Mark(&tick).ok());
  }
  EXPECT_TRUE(stream_->Wait(tick, kLong).value());
  stop = true;
  watcher.join();
  EXPECT_EQ(steps_back, 0);
}

TEST_F(SimTest, EveryTickNotifiesItsToken) {
  static std::atomic<int> calls;
  calls = 0;
  HostHooks hooks;
  hooks.notify = [](uint64_t token) { calls += token == 5; };
  SetHostHooks(hooks);
  Open();
  {
    auto stream = device_->OpenStream(0, 5).value();
    uint64_t tick = 0;
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(stream->Mark(&tick).ok());
    ASSERT_TRUE(stream_->Mark(&tick).ok());  // no token, no call
    ASSERT_TRUE(stream_->Sync().ok());
  }  // drained
  EXPECT_EQ(calls, 10);
  SetHostHooks({});
}

}  // namespace
}  // namespace weft
