// What a session records of its launches.

#include <map>
#include <string>

#include "gtest/gtest.h"
#include "runtime/bus/futex_word.h"
#include "runtime/observe/profile_report.h"
#include "runtime/session/session_fixture.h"

namespace weft::runtime::session_test {
namespace {

constexpr uint64_t kSteps = 6;

// Runs 2 steps that are not recorded and kSteps that are; calls by node.
std::map<std::string, uint64_t> CallsOf(const Shape& shape, Fixture* f,
                                        ProfileLog* log) {
  f->Load(shape);
  f->Run("init", 0, 1);
  f->Run("train", 0, 2);
  for (const auto& worker : log->workers()) {
    EXPECT_EQ(worker->run_ns(), 0u);
  }
  log->Start(NowNs());
  f->Run("train", 2, kSteps);
  log->Stop(NowNs(), kSteps);
  f->Run("train", 2 + kSteps, 1);
  std::map<std::string, uint64_t> calls;
  for (const auto& worker : log->workers()) {
    uint64_t inside = worker->submit_ns();
    for (const ProfileSlot& slot : worker->slots()) {
      const plan::Task& task = log->plan().tasks(static_cast<int>(slot.task));
      calls[task.name()] += slot.calls;
      if (!shape.async) inside += slot.ns;
    }
    for (Waiting w : {Waiting::kData, Waiting::kDevice, Waiting::kOther}) {
      inside += worker->wait_ns(w);
    }
    EXPECT_LE(inside, worker->run_ns());
    EXPECT_LE(worker->run_ns(), log->wall_ns());
  }
  return calls;
}

void ExpectAllCalls(const Shape& shape, const Plugin& plugin, uint64_t seed) {
  ProfileLog log("train");
  SessionOptions options;
  options.profile = &log;
  FakeOptions fake;
  fake.seed = seed;
  Fixture f(fake, plugin, options);
  const uint64_t n = shape.micro;
  std::map<std::string, uint64_t> expected = {
      {"data", n}, {"mul", n}, {"update", 1}, {"loss", 1}, {"w", 0},
      // A copy, n - 1 additions in a tree: as many launches as operands, but
      // that the last act may add several buffers.
  };
  if (shape.async) expected["upload"] = n, expected["download"] = 1;
  std::map<std::string, uint64_t> calls = CallsOf(shape, &f, &log);
  EXPECT_GE(calls["sum"], kSteps * n);
  calls.erase("sum");
  for (auto& [name, count] : expected) count *= kSteps;
  EXPECT_EQ(calls, expected);
  // The profile changes no bits.
  EXPECT_EQ(f.State("w"), Reference(0, 3 + kSteps, shape.micro).w);
  absl::StatusOr<ProfileReport> report = MakeProfileReport(log, {});
  ASSERT_TRUE(report.ok()) << report.status();
  for (const ProfileLine& line : report->lines) {
    EXPECT_EQ(line.kernels + line.submitting + line.run_time + line.data +
                  line.device + line.idle,
              report->wall_ns)
        << line.name;
  }
}

TEST(SessionProfileTest, CountsEveryLaunchOfAnInlineDevice) {
  for (uint32_t io_worker : {0u, 1u}) {
    Shape shape;
    shape.io_worker = io_worker;
    ExpectAllCalls(shape, FakePlugin(), 0);
  }
}

TEST(SessionProfileTest, TimesWorkThatEndsLater) {
  Shape shape;
  shape.async = true;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    ExpectAllCalls(shape, FakePlugin(/*signals=*/seed % 2 == 1), seed);
  }
}

TEST(SessionProfileTest, TimesADeviceThatNotifies) {
  Shape shape;
  shape.async = true;
  shape.io_worker = 1;
  ExpectAllCalls(shape, NotifyingFakePlugin(), 0);
}

TEST(SessionProfileTest, AFailureIsReportedAsWithoutAProfile) {
  ProfileLog log("train");
  SessionOptions options;
  options.profile = &log;
  Shape shape;
  shape.async = true;
  Fixture f({}, FakePlugin(), options);
  f.Load(shape);
  f.Run("init", 0, 1);
  FakeOptions fake;
  fake.fail_launch = 3;
  SetFakeOptions(fake);
  log.Start(NowNs());
  absl::StatusOr<uint64_t> done = f.session->Run("train", 0, kSteps);
  log.Stop(NowNs(), 0);
  ASSERT_FALSE(done.ok());
  EXPECT_TRUE(IsError(done.status(), ErrorCode::kDeviceFailed))
      << done.status();
}

}  // namespace
}  // namespace weft::runtime::session_test
