// Runs hand-made plans on fake devices: an inline one with mapped memory, and
// one that works on after a call has returned, with memory of its own, whose
// order of completion a seed decides.
#include "runtime/session/session.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "core/actor/spec.h"
#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "plugins/abi/weft_op_ids.h"
#include "runtime/observe/trace.h"
#include "runtime/observe/trace_writer.h"
#include "runtime/session/device_oracle.h"
#include "runtime/testing/fake_plugin.h"
#include "runtime/testing/no_threads.h"
#include "runtime/testing/plan_builder.h"

namespace {
std::atomic<bool> counting{false};
std::atomic<int> allocations{0};
thread_local bool is_worker = false;  // of a session
}  // namespace

// Counts what workers allocate between two acts that turn it on and off.
__attribute__((noinline)) void* operator new(size_t size) {
  if (is_worker && counting.load(std::memory_order_relaxed) &&
      !weft::runtime::testing::InsideFake()) {
    allocations.fetch_add(1);
  }
  void* p = std::malloc(size == 0 ? 1 : size);
  if (p == nullptr) std::abort();
  return p;
}
__attribute__((noinline)) void operator delete(void* p) noexcept {
  std::free(p);
}
__attribute__((noinline)) void operator delete(void* p, size_t) noexcept {
  std::free(p);
}

namespace weft::runtime {
namespace {

using testing::Const;
using testing::FakeOptions;
using testing::FakePlugin;
using ::testing::HasSubstr;
using testing::In;
using testing::NotifyingFakePlugin;
using testing::Out;
using testing::PlanBuilder;
using testing::SetFakeOptions;
using Task = plan::Task;

constexpr int64_t kWidth = 4;

// Element i of micro-batch `micro` of step `step`.
float Datum(uint64_t step, uint32_t micro, int64_t i) {
  return 0.001f * static_cast<float>(1 + (step * 7 + micro * 3 + i) % 11);
}

class Data : public SourceReader {
 public:
  absl::Status Fill(uint64_t step, uint32_t micro,
                    absl::Span<const HostTensor> out) override {
    if (fail_at_step >= 0 && step == static_cast<uint64_t>(fail_at_step)) {
      return MakeError(ErrorCode::kDataCorrupt, "data ends here");
    }
    EXPECT_EQ(out.size(), 1u);
    for (int64_t i = 0; i < kWidth; ++i) {
      static_cast<float*>(out[0].data)[i] = Datum(step, micro, i);
    }
    ++fills;
    return absl::OkStatus();
  }
  int64_t fail_at_step = -1;
  uint64_t fills = 0;
};

struct Row {
  uint64_t step;
  uint32_t micro;
  std::vector<float> values;
  friend bool operator==(const Row& a, const Row& b) {
    return a.step == b.step && a.micro == b.micro &&
           memcmp(a.values.data(), b.values.data(),
                  a.values.size() * sizeof(float)) == 0;
  }
};

class Rows : public SinkConsumer {
 public:
  absl::Status Consume(uint64_t step, uint32_t micro,
                       absl::Span<const HostTensor> in) override {
    Row row{step, micro, {}};
    for (const HostTensor& t : in) {
      const float* data = static_cast<const float*>(t.data);
      row.values.insert(row.values.end(), data, data + t.bytes / sizeof(float));
    }
    rows.push_back(std::move(row));
    if (on_row) on_row();
    return absl::OkStatus();
  }
  std::vector<Row> rows;
  std::function<void()> on_row;
};

struct Shape {
  bool async = false;      // compute on fake:1
  uint32_t io_worker = 0;  // 1: two workers
  uint32_t micro = 4;      // micro-batches a step
  uint32_t copies = 2;     // of the registers between tasks
};

std::string Words(std::initializer_list<int> bits) {
  std::string s;
  for (int b : bits) s.push_back(static_cast<char>(b));
  return s;
}

// w += sum over micro-batches of (x * w); the sum goes to a sink.
plan::Plan TrainPlan(const Shape& shape) {
  PlanBuilder b("train");
  const uint32_t n = shape.micro;
  b.proto().set_micro_batches(n);
  uint32_t host = b.AddDevice("fake:0", true);
  uint32_t dev = shape.async ? b.AddDevice("fake:1", false) : host;
  uint32_t compute = b.AddStream("compute", dev, 0, true);
  uint32_t io = b.AddStream("io", host, shape.io_worker, false);
  uint32_t x = b.AddRegister("x", host, {kWidth}, shape.copies);
  uint32_t xd =
      shape.async ? b.AddRegister("xd", dev, {kWidth}, shape.copies) : x;
  auto [w, we] = b.AddState("w", dev, {kWidth});
  uint32_t y = b.AddRegister("y", dev, {kWidth}, shape.copies);
  uint32_t g = b.AddRegister("g", dev, {kWidth}, shape.copies);
  uint32_t gh =
      shape.async ? b.AddRegister("gh", host, {kWidth}, shape.copies) : g;

  uint32_t source = b.AddTask(Task::SOURCE, "data", io, n, "data");
  b.Output(source, x);
  uint32_t var = b.AddTask(Task::VARIABLE, "w", compute, 2);
  b.Output(var, w, Words({7, 4})).Output(var, we, Words({4, 7}));
  uint32_t up = 0;
  if (shape.async) {
    up = b.AddTask(Task::COPY, "upload", compute, n);
    b.Input(up, x).Output(up, xd);
  }
  uint32_t mul = b.AddTask(Task::COMPUTE, "mul", compute, n);
  b.Input(mul, xd).Input(mul, w, actor::Held(n)).Output(mul, y);
  b.Launch(mul, WEFT_OP_MUL, {In(0), In(1)}, {Out(0)});
  uint32_t acc = b.AddTask(Task::ACCUMULATE, "sum", compute, n);
  b.Input(acc, y).Output(acc, g, actor::Accumulated(n));
  b.Launch(acc, WEFT_OP_ADD, {In(0), In(0)}, {Out(0)});
  uint32_t update = b.AddTask(Task::COMPUTE, "update", compute);
  b.Input(update, we).Input(update, g);
  b.Launch(update, WEFT_OP_ADD, {In(0), In(1)}, {In(0)});
  uint32_t down = 0;
  if (shape.async) {
    down = b.AddTask(Task::COPY, "download", compute);
    b.Input(down, g).Output(down, gh);
  }
  uint32_t sink = b.AddTask(Task::SINK, "loss", io, 1, "loss");
  b.Input(sink, gh);

  std::vector<uint32_t> order = {var};
  for (uint32_t i = 0; i < n; ++i) {
    if (shape.async) order.push_back(up);
    order.push_back(mul);
    order.push_back(acc);
  }
  order.push_back(var);
  order.push_back(update);
  if (shape.async) order.push_back(down);
  b.Order(compute, order);
  return b.Build();
}

// w = constant.
plan::Plan InitPlan(const Shape& shape, const std::vector<float>& value) {
  PlanBuilder b("init");
  uint32_t host = b.AddDevice("fake:0", true);
  uint32_t dev = shape.async ? b.AddDevice("fake:1", false) : host;
  uint32_t compute = b.AddStream("compute", dev, 0, true);
  auto [w, we] = b.AddState("w", dev, {kWidth});
  uint32_t c = b.AddConstant(dev, value);
  uint32_t zero = b.AddConstant(dev, std::vector<float>(kWidth, 0));
  uint32_t var = b.AddTask(Task::VARIABLE, "w", compute, 2);
  b.Output(var, w, Words({7, 4})).Output(var, we, Words({4, 7}));
  uint32_t set = b.AddTask(Task::COMPUTE, "set", compute);
  b.Input(set, we);
  b.Launch(set, WEFT_OP_ADD, {Const(c), Const(zero)}, {In(0)});
  b.Order(compute, {var, var, set});
  return b.Build();
}

const std::vector<float> kStart = {1.0f, 0.5f, 0.25f, 3.0f};

struct Expected {
  std::vector<Row> rows;
  std::vector<float> w = kStart;
};

// The same, in plain code: the tree sum of 2^k operands, leftovers low first.
Expected Reference(uint64_t first_step, uint64_t steps, uint32_t micro) {
  Expected e;
  for (uint64_t s = first_step; s < first_step + steps; ++s) {
    std::vector<float> g(kWidth);
    for (int64_t i = 0; i < kWidth; ++i) {
      std::vector<std::pair<uint32_t, float>> stack;  // size, sum
      for (uint32_t m = 0; m < micro; ++m) {
        stack.push_back({1, Datum(s, m, i) * e.w[i]});
        while (stack.size() > 1 &&
               stack[stack.size() - 2].first == stack.back().first) {
          float right = stack.back().second;
          stack.pop_back();
          stack.back().first *= 2;
          stack.back().second = stack.back().second + right;
        }
      }
      while (stack.size() > 1) {
        float right = stack.back().second;
        stack.pop_back();
        stack.back().second = stack.back().second + right;
      }
      g[i] = stack[0].second;
    }
    for (int64_t i = 0; i < kWidth; ++i) e.w[i] = e.w[i] + g[i];
    e.rows.push_back({s, 0, g});
  }
  return e;
}

class Fixture {
 public:
  explicit Fixture(const FakeOptions& options = {}, bool signals = false,
                   SessionOptions session_options = {})
      : Fixture(options, FakePlugin(signals), session_options) {}
  Fixture(const FakeOptions& options, const Plugin& plugin,
          SessionOptions session_options = {}) {
    SetFakeOptions(options);
    host = *Device::Open(plugin, 0);
    dev = *Device::Open(plugin, 1);
    bindings.sources["data"] = &data;
    bindings.sinks["loss"] = &rows;
    session = *Session::Create({host.get(), dev.get()}, session_options);
  }
  ~Fixture() {
    session.reset();
    if (session_stays) {
      StayForEver();
      return;
    }
    EXPECT_TRUE(host->Close().ok());
    EXPECT_TRUE(dev->Close().ok());
  }
  // What a session that is not freed still has.
  void StayForEver() {
    static auto* devices = new std::vector<std::unique_ptr<Device>>;
    for (auto* device : {&host, &dev}) {
      EXPECT_FALSE((*device)->Close().ok());
      devices->push_back(std::move(*device));
    }
  }
  void Load(const Shape& shape) {
    absl::Status s = session->LoadProgram(InitPlan(shape, kStart), {});
    ASSERT_TRUE(s.ok()) << s;
    s = session->LoadProgram(TrainPlan(shape), bindings);
    ASSERT_TRUE(s.ok()) << s;
  }
  void Run(const std::string& program, uint64_t first, uint64_t periods) {
    absl::StatusOr<uint64_t> done = session->Run(program, first, periods);
    ASSERT_TRUE(done.ok()) << done.status();
    EXPECT_EQ(*done, periods);
  }
  std::vector<float> State(const std::string& name) {
    std::vector<float> w(kWidth);
    absl::Status s = session->ReadState(
        name, absl::MakeSpan(reinterpret_cast<char*>(w.data()),
                             w.size() * sizeof(float)));
    EXPECT_TRUE(s.ok()) << s;
    return w;
  }

  bool session_stays = false;
  std::unique_ptr<Device> host, dev;
  Data data;
  Rows rows;
  Bindings bindings;
  std::unique_ptr<Session> session;
};

// data on worker 1 -> neg on worker 0 -> loss on worker 1. `async`: neg between
// copies to and from fake:1.
plan::Plan NegPlan(bool async = false) {
  PlanBuilder b("neg");
  uint32_t host = b.AddDevice("fake:0", true);
  uint32_t dev = async ? b.AddDevice("fake:1", false) : host;
  uint32_t compute = b.AddStream("compute", dev, 0, true);
  uint32_t io = b.AddStream("io", host, 1, false);
  uint32_t x = b.AddRegister("x", host, {kWidth});
  uint32_t y = b.AddRegister("y", host, {kWidth});
  uint32_t xd = async ? b.AddRegister("xd", dev, {kWidth}) : x;
  uint32_t yd = async ? b.AddRegister("yd", dev, {kWidth}) : y;
  std::vector<uint32_t> order;
  uint32_t source = b.AddTask(Task::SOURCE, "data", io, 1, "data");
  b.Output(source, x);
  if (async) {
    order.push_back(b.AddTask(Task::COPY, "upload", compute));
    b.Input(order.back(), x).Output(order.back(), xd);
  }
  uint32_t neg = b.AddTask(Task::COMPUTE, "neg", compute);
  b.Input(neg, xd).Output(neg, yd);
  b.Launch(neg, WEFT_OP_NEG, {In(0)}, {Out(0)});
  order.push_back(neg);
  if (async) {
    order.push_back(b.AddTask(Task::COPY, "download", compute));
    b.Input(order.back(), yd).Output(order.back(), y);
  }
  uint32_t sink = b.AddTask(Task::SINK, "loss", io, 1, "loss");
  b.Input(sink, y);
  b.Order(compute, order);
  return b.Build();
}

class SessionMatrix
    : public ::testing::TestWithParam<std::tuple<bool, int, int, int>> {};

TEST_P(SessionMatrix, SameBitsForEveryScheduleWorkersAndCopies) {
  auto [async, io_worker, micro, copies] = GetParam();
  Shape shape;
  shape.async = async;
  shape.io_worker = static_cast<uint32_t>(io_worker);
  shape.micro = static_cast<uint32_t>(micro);
  shape.copies = static_cast<uint32_t>(copies);
  Expected expected = Reference(100, 6, shape.micro);
  const int seeds = async ? 4 : 1;
  for (int seed = 0; seed < seeds; ++seed) {
    FakeOptions options;
    options.seed = static_cast<uint64_t>(seed);
    Fixture f(options, /*signals=*/seed % 2 == 1);
    f.Load(shape);
    f.Run("init", 0, 1);
    EXPECT_EQ(f.State("w"), kStart);
    f.Run("train", 100, 2);
    f.Run("train", 102, 4);  // goes on where it was
    EXPECT_EQ(f.rows.rows, expected.rows);
    EXPECT_EQ(f.State("w"), expected.w);
    EXPECT_EQ(f.data.fills, 6u * shape.micro);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SessionMatrix,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(0, 1),
                                            ::testing::Values(1, 2, 3, 4, 6, 8),
                                            ::testing::Values(1, 3)));

TEST(SessionTest, ProgramsSwitchOnTheSameState) {
  Fixture f;
  Shape shape;
  shape.io_worker = 1;
  f.Load(shape);
  for (int round = 0; round < 3; ++round) {
    f.Run("init", 0, 1);
    f.rows.rows.clear();
    f.Run("train", 5, 3);
    EXPECT_EQ(f.rows.rows, Reference(5, 3, shape.micro).rows);
  }
}

TEST(SessionTest, MemoryIsWhatThePlansSay) {
  for (bool async : {false, true}) {
    Fixture f;
    Shape shape;
    shape.async = async;
    f.Load(shape);
    f.Run("init", 0, 1);
    f.Run("train", 0, 2);
    auto planned = f.session->PlannedBytes();
    EXPECT_EQ(planned["fake:0"], f.host->GetMemInfo()->peak_bytes);
    EXPECT_EQ(planned["fake:1"], f.dev->GetMemInfo()->peak_bytes);
    EXPECT_GT(planned[async ? "fake:1" : "fake:0"], 0u);
  }
}

TEST(SessionTest, StateIsReadAndWrittenAtRest) {
  for (bool async : {false, true}) {
    Fixture f;
    Shape shape;
    shape.async = async;
    f.Load(shape);
    absl::Status s = f.session->WriteState(
        "w", absl::MakeConstSpan(reinterpret_cast<const char*>(kStart.data()),
                                 kStart.size() * sizeof(float)));
    ASSERT_TRUE(s.ok()) << s;
    EXPECT_EQ(f.State("w"), kStart);
    f.Run("train", 0, 2);
    EXPECT_EQ(f.State("w"), Reference(0, 2, shape.micro).w);
    std::vector<StateInfo> states = f.session->States();
    ASSERT_EQ(states.size(), 1u);
    EXPECT_EQ(states[0].name, "w");
    EXPECT_EQ(states[0].device, async ? "fake:1" : "fake:0");
    EXPECT_EQ(states[0].dims, std::vector<int64_t>{kWidth});
    char small[4];
    EXPECT_FALSE(f.session->ReadState("w", absl::MakeSpan(small)).ok());
    EXPECT_FALSE(f.session->ReadState("v", absl::MakeSpan(small)).ok());
  }
}

TEST(SessionTest, StopFinishesStartedStepsAndNoMore) {
  for (int io_worker : {0, 1}) {
    Fixture f;
    Shape shape;
    shape.io_worker = static_cast<uint32_t>(io_worker);
    f.Load(shape);
    f.Run("init", 0, 1);
    f.rows.on_row = [&] {
      if (f.rows.rows.size() == 3) f.session->RequestStop();
    };
    absl::StatusOr<uint64_t> done = f.session->Run("train", 0, 1'000'000);
    ASSERT_TRUE(done.ok()) << done.status();
    EXPECT_GE(*done, 3u);
    // The lease at the stop ended 3 periods after the slowest finished one.
    EXPECT_LE(*done, 3u + 3u);
    EXPECT_EQ(f.rows.rows.size(), *done);
    EXPECT_EQ(f.State("w"), Reference(0, *done, shape.micro).w);
    // Sticky, but for who asks.
    EXPECT_EQ(*f.session->Run("train", *done, 2), 0u);
    RunOptions anyway;
    anyway.ignore_stop = true;
    EXPECT_EQ(*f.session->Run("train", *done, 1, anyway), 1u);
    f.session->ClearStop();
    EXPECT_EQ(*f.session->Run("train", *done + 1, 2), 2u);
    EXPECT_EQ(f.State("w"), Reference(0, *done + 3, shape.micro).w);
  }
}

TEST(SessionTest, FailingReaderIsTheCause) {
  for (int io_worker : {0, 1}) {
    Fixture f;
    Shape shape;
    shape.async = true;
    shape.io_worker = static_cast<uint32_t>(io_worker);
    f.Load(shape);
    f.Run("init", 0, 1);
    f.data.fail_at_step = 4;
    absl::StatusOr<uint64_t> done = f.session->Run("train", 0, 100);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(ErrorCodeOf(done.status()), ErrorCode::kDataCorrupt);
    EXPECT_THAT(std::string(done.status().message()), HasSubstr("node 'data'"));
    EXPECT_THAT(std::string(done.status().message()), HasSubstr("step 4"));
    // Broken from now on, with the same error.
    EXPECT_EQ(f.session->Run("train", 0, 1).status(), done.status());
  }
}

TEST(SessionTest, FailingKernelNamesItsNode) {
  for (bool async : {false, true}) {
    for (int io_worker : {0, 1}) {
      FakeOptions options;
      options.fail_launch = 1;  // the first is that of init
      Fixture f(options);
      Shape shape;
      shape.async = async;
      shape.io_worker = static_cast<uint32_t>(io_worker);
      f.Load(shape);
      f.Run("init", 0, 1);
      absl::StatusOr<uint64_t> done = f.session->Run("train", 0, 1000);
      ASSERT_FALSE(done.ok());
      EXPECT_EQ(ErrorCodeOf(done.status()), ErrorCode::kDeviceFailed);
      EXPECT_THAT(std::string(done.status().message()), HasSubstr("node '"));
      EXPECT_THAT(std::string(done.status().message()),
                  HasSubstr("the fake was told to fail"));
      if (!async) {
        EXPECT_THAT(std::string(done.status().message()),
                    HasSubstr("node 'mul'"));
      }
    }
  }
}

TEST(SessionTest, BadProgramsAreRefused) {
  Fixture f;
  Shape shape;
  // Nothing bound.
  ASSERT_TRUE(f.session->LoadProgram(TrainPlan(shape), {}).ok());
  absl::Status s = f.session->Run("train", 0, 1).status();
  EXPECT_EQ(ErrorCodeOf(s), ErrorCode::kBadPlan);
  EXPECT_THAT(std::string(s.message()), HasSubstr("'data'"));
  // Loaded twice.
  EXPECT_FALSE(f.session->LoadProgram(TrainPlan(shape), f.bindings).ok());
  // An unknown device.
  plan::Plan other = InitPlan(shape, kStart);
  other.mutable_devices(0)->set_name("gpu:3");
  s = f.session->LoadProgram(other, {});
  EXPECT_EQ(ErrorCodeOf(s), ErrorCode::kDeviceNotFound);
  EXPECT_THAT(std::string(s.message()), HasSubstr("gpu:3"));
  // An op that the device does not have.
  other = InitPlan(shape, kStart);
  other.mutable_kernels(0)->set_op(WEFT_OP_MAT_MUL);
  s = f.session->LoadProgram(other, {});
  EXPECT_EQ(ErrorCodeOf(s), ErrorCode::kNoKernel);
  EXPECT_THAT(std::string(s.message()), HasSubstr("node 'set'"));
  // State of another type.
  other = InitPlan(shape, kStart);
  for (int r = 0; r < other.registers_size(); ++r) {
    other.mutable_registers(r)->mutable_tensors(0)->set_dtype(
        static_cast<uint32_t>(DType::kI32));
  }
  other.clear_tasks();
  EXPECT_FALSE(f.session->LoadProgram(other, {}).ok());
  EXPECT_FALSE(f.session->Run("eval", 0, 1).ok());
}

TEST(SessionTest, WithoutThreadsARunFailsAndLaterSucceeds) {
  Fixture f;
  Shape shape;
  shape.io_worker = 1;
  f.Load(shape);
  {
    testing::NoThreads none;
    absl::Status s = f.session->Run("init", 0, 1).status();
    EXPECT_EQ(ErrorCodeOf(s), ErrorCode::kNoThread);
    EXPECT_THAT(std::string(s.message()), HasSubstr("weft-worker-0"));
  }
  f.Run("init", 0, 1);
  f.Run("train", 0, 2);
  EXPECT_EQ(f.State("w"), Reference(0, 2, shape.micro).w);
}

// What a first attempt left behind would be there twice.
TEST(SessionTest, AProgramThatCouldNotBePreparedIsPreparedAnew) {
  TraceLog log({});
  SessionOptions session_options;
  session_options.trace = &log;
  FakeOptions options;
  options.fail_stream = 1;  // the second of two workers
  Fixture f(options, false, session_options);
  Shape shape;
  shape.io_worker = 1;
  absl::Status s = f.session->LoadProgram(TrainPlan(shape), f.bindings);
  ASSERT_TRUE(s.ok()) << s;
  EXPECT_EQ(ErrorCodeOf(f.session->Run("train", 0, 1).status()),
            ErrorCode::kDeviceFailed);
  f.Run("train", 0, 3);
  EXPECT_EQ(f.rows.rows.size(), 3u);
  EXPECT_EQ(log.programs().size(), 1u);
}

// A device that never ends its work: Run and the end of the session return, the
// error names device and stream, and what the device may still use stays.
TEST(SessionTest, AHangingDeviceIsNamedAndLeftAlone) {
  for (bool signals : {false, true}) {
    for (bool ends_late : {false, true}) {
      SessionOptions session_options;
      session_options.stall_abort_ns = 5'000'000;
      session_options.drain_ns = 5'000'000;
      FakeOptions options;
      Fixture f(options, signals, session_options);
      Shape shape;
      shape.async = true;
      f.Load(shape);
      f.Run("init", 0, 1);
      options.hang = true;
      SetFakeOptions(options);
      absl::StatusOr<uint64_t> done = f.session->Run("train", 0, 10);
      ASSERT_FALSE(done.ok());
      EXPECT_THAT(std::string(done.status().message()),
                  HasSubstr("work is under way on stream 'compute' of device "
                            "fake:1"));
      EXPECT_EQ(f.session->Run("train", 0, 1).status(), done.status());
      f.session_stays = !ends_late;
      options.hang = false;
      if (ends_late) SetFakeOptions(options);
    }
  }
}

TEST(SessionTest, StateOfAHangingDeviceIsATypedError) {
  for (bool write : {false, true}) {
    SessionOptions session_options;
    session_options.sync_ns = 5'000'000;
    FakeOptions options;
    Fixture f(options, false, session_options);
    Shape shape;
    shape.async = true;
    f.Load(shape);
    f.Run("init", 0, 1);
    options.hang = true;
    SetFakeOptions(options);
    std::vector<float> w(kWidth, 7.0f);
    char* bytes = reinterpret_cast<char*>(w.data());
    absl::Status s = write
                         ? f.session->WriteState("w", absl::MakeSpan(bytes, 16))
                         : f.session->ReadState("w", absl::MakeSpan(bytes, 16));
    EXPECT_EQ(ErrorCodeOf(s), ErrorCode::kDeviceFailed);
    EXPECT_THAT(std::string(s.message()),
                HasSubstr("device fake:1, stream_wait: tick "));
    EXPECT_EQ(f.session->Run("train", 0, 1).status(), s);
    f.session_stays = true;
  }
}

TEST(SessionTest, CountersCount) {
  Fixture f;
  PlanBuilder b("count");
  uint32_t host = b.AddDevice("fake:0", true);
  uint32_t io = b.AddStream("io", host, 0, false);
  uint32_t c = b.AddRegister("c", host, {2}, 2, DType::kI64);
  uint32_t source = b.AddTask(Task::SOURCE, "c", io, 3, "counter:micro");
  b.Output(source, c);
  uint32_t sink = b.AddTask(Task::SINK, "s", io, 3, "counts");
  b.Input(sink, c);
  struct Counts : SinkConsumer {
    absl::Status Consume(uint64_t step, uint32_t micro,
                         absl::Span<const HostTensor> in) override {
      const int64_t* v = static_cast<const int64_t*>(in[0].data);
      EXPECT_EQ(v[0], static_cast<int64_t>(step));
      EXPECT_EQ(v[1], static_cast<int64_t>(micro));
      got.push_back({v[0], v[1]});
      return absl::OkStatus();
    }
    std::vector<std::pair<int64_t, int64_t>> got;
  } counts;
  Bindings bindings;
  bindings.sinks["counts"] = &counts;
  ASSERT_TRUE(f.session->LoadProgram(b.Build(), bindings).ok());
  f.Run("count", 7, 2);
  EXPECT_EQ(counts.got, (std::vector<std::pair<int64_t, int64_t>>{
                            {7, 0}, {7, 1}, {7, 2}, {8, 0}, {8, 1}, {8, 2}}));
}

// The halves of each batch are read in place, one an act, under their own
// copies.
TEST(SessionTest, SlicesAreReadInPlace) {
  Fixture f;
  PlanBuilder b("slices");
  uint32_t host = b.AddDevice("fake:0", true);
  uint32_t io = b.AddStream("io", host, 0, false);
  uint32_t x = b.AddRegister("x", host, {kWidth}, 2);
  uint32_t half = b.AddSlices("half", x, 2);
  uint32_t source = b.AddTask(Task::SOURCE, "data", io, 1, "data");
  b.Output(source, x);
  uint32_t cut = b.AddTask(Task::COMPUTE, "cut", io, 2);
  b.Input(cut, x, actor::Held(2), /*aliased=*/true);
  b.Output(cut, half, actor::Sliced(2));
  uint32_t sink = b.AddTask(Task::SINK, "loss", io, 2, "loss");
  b.Input(sink, half);
  absl::Status s = f.session->LoadProgram(b.Build(), f.bindings);
  ASSERT_TRUE(s.ok()) << s;
  f.Run("slices", 0, 5);
  ASSERT_EQ(f.rows.rows.size(), 10u);
  for (uint32_t r = 0; r < 10; ++r) {
    const Row& row = f.rows.rows[r];
    EXPECT_EQ(row.step, r / 2);
    ASSERT_EQ(row.values.size(), 2u);
    for (uint32_t i = 0; i < 2; ++i) {
      EXPECT_EQ(row.values[i], Datum(row.step, 0, row.micro * 2 + i));
    }
  }
}

// Every worker's allocations over 40 steps, new leases included.
TEST(SessionTest, NoActAllocates) {
  for (bool async : {false, true}) {
    for (int io_worker : {0, 1}) {
      Fixture f;
      struct Switch : SourceReader {
        absl::Status Fill(uint64_t step, uint32_t micro,
                          absl::Span<const HostTensor> out) override {
          is_worker = true;
          if (step == 10) counting = true;
          if (step == 50) counting = false;
          memset(out[0].data, 0, out[0].bytes);
          return absl::OkStatus();
        }
      } source;
      struct Swallow : SinkConsumer {
        absl::Status Consume(uint64_t, uint32_t,
                             absl::Span<const HostTensor>) override {
          is_worker = true;
          return absl::OkStatus();
        }
      } sink;
      f.bindings.sources["data"] = &source;
      f.bindings.sinks["loss"] = &sink;
      Shape shape;
      shape.async = async;
      shape.io_worker = static_cast<uint32_t>(io_worker);
      f.Load(shape);
      allocations = 0;
      f.Run("train", 0, 60);
      EXPECT_EQ(allocations.load(), 0) << async << io_worker;
    }
  }
}

TEST(SessionTest, TraceHasSlicesAndArrowsOfTheStepsAskedFor) {
  TraceLog::Options trace_options;
  trace_options.first_step = 2;
  trace_options.last_step = 3;
  TraceLog log(trace_options);
  SessionOptions session_options;
  session_options.trace = &log;
  Fixture f({}, false, session_options);
  Shape shape;
  shape.io_worker = 1;
  f.Load(shape);
  f.Run("train", 0, 6);
  nlohmann::json trace = nlohmann::json::parse(ChromeTraceJson(log, 5));
  int slices = 0, begins = 0, ends = 0, names = 0;
  for (const auto& e : trace["traceEvents"]) {
    EXPECT_EQ(e["pid"], 5);
    const std::string ph = e["ph"];
    if (ph == "M") ++names;
    if (ph == "s") ++begins;
    if (ph == "f") ++ends;
    if (ph != "X") continue;
    ++slices;
    EXPECT_GE(e["args"]["step"], 2);
    EXPECT_LE(e["args"]["step"], 3);
    if (e["name"] == "mul") {
      EXPECT_EQ(e["args"]["task"], 2);
    }
  }
  // Data, mul and sum once a micro-batch; update and loss once a step.
  const int n = static_cast<int>(shape.micro);
  EXPECT_EQ(slices, 2 * (3 * n + 2));
  // data -> mul -> sum; sum -> update and loss. A variable's acts launch
  // nothing and are not recorded.
  EXPECT_EQ(begins, 2 * (2 * n + 2));
  EXPECT_EQ(ends, begins);
  EXPECT_EQ(names, 1 + 2);  // a stream of init, two of train
}

TEST(SessionTest, OracleAsksTheDevices) {
  Fixture f;
  DeviceOracle oracle({f.host.get(), f.dev.get()});
  plan::Plan plan = InitPlan({}, kStart);
  plan::Kernel kernel = plan.kernels(0);
  EXPECT_TRUE(oracle.Match(0, kernel).supported);
  EXPECT_TRUE(oracle.Match(1, kernel).supported);
  EXPECT_FALSE(oracle.Match(2, kernel).supported);
  kernel.set_op(WEFT_OP_MAT_MUL);
  EXPECT_FALSE(oracle.Match(0, kernel).supported);
  EXPECT_TRUE(oracle.status().ok());
}

// While worker 0 is inside a long act, worker 1 has nothing to do: it sleeps
// until it gets a message, and takes no naps. (It is woken for each report.)
TEST(SessionTest, IdleWorkerSleepsThrough) {
  FakeOptions options;
  options.block_neg = true;
  SessionOptions session_options;
  session_options.stall_report_ns = 20'000'000;
  int reports = 0;
  session_options.on_stall = [&](const std::string&) {
    if (++reports == 3) testing::ReleaseFake();
  };
  Fixture f(options, false, session_options);
  ASSERT_TRUE(f.session->LoadProgram(NegPlan(), f.bindings).ok());
  f.Run("neg", 0, 2);
  EXPECT_GE(reports, 3);
  Session::Stats stats = f.session->stats();
  EXPECT_GT(stats.sleeps, 0u);
  // One for each message and report at most.
  EXPECT_LE(stats.sleeps,
            stats.hops + 2u * 8u + 2u * static_cast<uint64_t>(reports));
}

// A device that notifies is not polled: while it is inside a long act its
// worker takes no naps either.
TEST(SessionTest, AWorkerSleepsUntilItsDeviceNotifies) {
  FakeOptions options;
  options.block_neg = true;
  SessionOptions session_options;
  session_options.stall_report_ns = 20'000'000;
  int reports = 0;
  session_options.on_stall = [&](const std::string&) {
    if (++reports == 3) testing::ReleaseFake();
  };
  Fixture f(options, NotifyingFakePlugin(), session_options);
  ASSERT_TRUE(f.session->LoadProgram(NegPlan(/*async=*/true), f.bindings).ok());
  f.Run("neg", 0, 2);
  EXPECT_GE(reports, 3);
  ASSERT_EQ(f.rows.rows.size(), 2u);
  EXPECT_EQ(f.rows.rows[1].values[0], -Datum(1, 0, 0));
  Session::Stats stats = f.session->stats();
  // One for each message, tick and report at most; naps would be hundreds.
  EXPECT_LE(stats.sleeps,
            stats.hops + 64u + 2u * static_cast<uint64_t>(reports));
}

TEST(SessionTest, ADeviceThatNotifiesTrainsToTheSameBits) {
  Fixture f({}, NotifyingFakePlugin());
  Shape shape;
  shape.async = true;
  shape.io_worker = 1;
  f.Load(shape);
  f.Run("init", 0, 1);
  f.Run("train", 100, 6);
  Expected expected = Reference(100, 6, shape.micro);
  EXPECT_EQ(f.rows.rows, expected.rows);
  EXPECT_EQ(f.State("w"), expected.w);
}

TEST(SessionTest, StallSaysWhoWaitsForWhat) {
  FakeOptions options;
  options.block_neg = true;
  SessionOptions session_options;
  session_options.stall_report_ns = 1'000'000;
  std::string report;
  // The first report that sees both workers wait is kept, and ends the stall.
  session_options.on_stall = [&](const std::string& text) {
    if (!report.empty() ||
        text.find("inside an act of 'neg'") == std::string::npos ||
        text.find("'loss'") == std::string::npos) {
      return;
    }
    report = text;
    testing::ReleaseFake();
  };
  Fixture f(options, false, session_options);
  ASSERT_TRUE(f.session->LoadProgram(NegPlan(), f.bindings).ok());
  f.Run("neg", 0, 2);
  EXPECT_THAT(report, HasSubstr("inside an act of 'neg'"));
  EXPECT_THAT(report, HasSubstr("'loss' [task 2] after 0 acts waits for"));
  EXPECT_EQ(f.rows.rows.size(), 2u);
}

// The act is let go only after the run was given up: Run does not wait for it,
// and the end of the session does.
TEST(SessionTest, StallMayEndTheRun) {
  FakeOptions options;
  options.block_neg = true;
  SessionOptions session_options;
  session_options.stall_abort_ns = 5'000'000;
  session_options.drain_ns = 5'000'000;
  Fixture f(options, false, session_options);
  ASSERT_TRUE(f.session->LoadProgram(NegPlan(), f.bindings).ok());
  absl::StatusOr<uint64_t> done = f.session->Run("neg", 0, 10);
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(std::string(done.status().message()), HasSubstr("'neg'"));
  EXPECT_EQ(f.session->Run("neg", 0, 1).status(), done.status());
  testing::ReleaseFake();
}

}  // namespace
}  // namespace weft::runtime
