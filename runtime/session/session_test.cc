// Runs hand-made plans on fake devices: an inline one with mapped memory, and
// one that works on after a call has returned, with memory of its own, whose
// order of completion a seed decides.
#include "runtime/session/session.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "core/actor/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "plugins/abi/weft_op_ids.h"
#include "runtime/observe/trace.h"
#include "runtime/observe/trace_writer.h"
#include "runtime/session/device_oracle.h"
#include "runtime/session/session_fixture.h"
#include "runtime/testing/fake_plugin.h"
#include "runtime/testing/plan_builder.h"
#include "runtime/worker/worker.h"

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
__attribute__((noinline)) void* operator new(size_t size,
                                             const std::nothrow_t&) noexcept {
  return operator new(size);
}
__attribute__((noinline)) void operator delete(void* p) noexcept {
  std::free(p);
}
__attribute__((noinline)) void operator delete(void* p, size_t) noexcept {
  std::free(p);
}

namespace weft::runtime::session_test {
namespace {

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
    // Of two finished periods control may have seen each as it came, and reach
    // twice as far each time (pace.h).
    EXPECT_LE(*done, 2u + 2 * 2 * 2u + 1);
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

// Two workers on one core wait for each other's turn; one has no such turns.
TEST(SessionTest, OneWorkerDoesTheWorkOfTwo) {
  for (uint32_t most : {0u, 1u, 2u}) {
    SessionOptions options;
    options.max_workers = most;
    Fixture f({}, false, options);
    Shape shape;
    shape.io_worker = 1;
    f.Load(shape);
    f.Run("init", 0, 1);
    f.Run("train", 0, 20);
    EXPECT_EQ(f.session->stats().hops == 0, most == 1);
    EXPECT_EQ(f.rows.rows, Reference(0, 20, shape.micro).rows);
    EXPECT_EQ(f.State("w"), Reference(0, 20, shape.micro).w);
  }
}

TEST(SessionTest, TheCallerAttendsToAllThatWasDone) {
  uint64_t seen = 0;
  std::atomic<uint64_t> done{0};
  absl::Status answer;
  SessionOptions options;
  const std::thread::id caller = std::this_thread::get_id();
  options.attend = [&] {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    seen = done;
    return answer;
  };
  Fixture f({}, false, options);
  f.rows.on_row = [&] { ++done; };
  f.Load(Shape());
  f.Run("init", 0, 1);
  f.Run("train", 0, 30);
  EXPECT_EQ(seen, 30u);
  // Also where the run fails, and a failure of its own fails the run.
  f.data.fail_at_step = 35;
  EXPECT_FALSE(f.session->Run("train", 30, 30).ok());
  EXPECT_EQ(seen, done);
  EXPECT_GT(seen, 30u);
  Fixture g({}, false, options);
  g.Load(Shape());
  g.Run("init", 0, 1);
  answer = MakeError(ErrorCode::kWriteFailed, "no room");
  EXPECT_TRUE(IsError(g.session->Run("train", 0, 1'000'000'000).status(),
                      ErrorCode::kWriteFailed));
}

// Though nobody tells of periods while there is enough left of the lease. If
// each of these waited for more than kAttendNs, this would take minutes.
TEST(SessionTest, TheCallerAttendsInTheMiddleOfALease) {
  constexpr uint64_t kEvery = 20, kTimes = 64;
  std::atomic<uint64_t> seen{0}, done{0};
  SessionOptions options;
  options.periods_in_flight = 5 * kEvery;
  options.attend = [&] {
    seen = done.load();
    return absl::OkStatus();
  };
  Fixture f({}, false, options);
  f.rows.on_row = [&] {
    while (done % kEvery == 0 && seen != done) std::this_thread::yield();
    ++done;
  };
  f.Load(Shape());
  f.Run("init", 0, 1);
  f.Run("train", 0, kEvery * kTimes);
  EXPECT_EQ(seen, kEvery * kTimes);
}

// With nothing of the host to wait for, a device is as many periods behind as
// the lease reaches.
TEST(SessionTest, ADeviceMayBeAllPeriodsOfALeaseBehind) {
  SessionOptions options;
  options.periods_in_flight = kMaxPeriodsInFlight;
  Fixture f({}, false, options);
  Shape shape;
  shape.async = true;
  f.Load(shape);
  f.Run("init", 0, 2 * kMaxPeriodsInFlight);
  EXPECT_EQ(f.State("w"), kStart);
}

// A rank of several may have no part in a program. If each of its periods
// waited for something, this would take minutes.
TEST(SessionTest, AProgramWithoutTasksIsDoneAtOnce) {
  Fixture f;
  PlanBuilder b("idle");
  b.AddDevice("fake:0", true);
  ASSERT_TRUE(f.session->LoadProgram(b.Build(), {}).ok());
  f.Run("idle", 0, 1000);
  f.Run("idle", 1000, 1);
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

}  // namespace
}  // namespace weft::runtime::session_test
