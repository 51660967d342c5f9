// What a session does when something fails, stalls or hangs.
#include <new>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/observe/trace.h"
#include "runtime/session/session.h"
#include "runtime/session/session_fixture.h"
#include "runtime/testing/no_threads.h"

namespace weft::runtime::session_test {
namespace {

using ::testing::HasSubstr;

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
// error names device and stream, and what the device may still use stays. It
// hangs from the start, so no time is too short for the run and none has to
// pass.
TEST(SessionTest, AHangingDeviceIsNamedAndLeftAlone) {
  for (bool signals : {false, true}) {
    for (bool ends_late : {false, true}) {
      SessionOptions session_options;
      session_options.stall_abort_ns = 5'000'000;
      session_options.drain_ns = 10'000'000'000;
      FakeOptions options;
      options.hang = true;
      Fixture f(options, signals, session_options);
      Shape shape;
      shape.async = true;
      ASSERT_TRUE(f.session->LoadProgram(TrainPlan(shape), f.bindings).ok());
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

// The copy before the one that is refused still reads the plan.
TEST(SessionTest, ConstantsUnderWayAreWaitedFor) {
  for (bool hang : {false, true}) {
    SessionOptions session_options;
    session_options.sync_ns = 5'000'000;
    FakeOptions options;
    options.fail_copy = 1;
    options.hang = hang;
    Fixture f(options, false, session_options);
    Shape shape;
    shape.async = true;
    f.Load(shape);
    absl::Status s = f.session->Run("init", 0, 1).status();
    EXPECT_EQ(ErrorCodeOf(s), ErrorCode::kDeviceFailed);
    EXPECT_THAT(std::string(s.message()), HasSubstr("copy: INTERNAL"));
    if (hang) {
      EXPECT_EQ(f.session->Run("init", 0, 1).status(), s);
      f.session_stays = true;
    } else {
      f.Run("init", 0, 1);
      EXPECT_EQ(f.State("w"), kStart);
    }
  }
}

// A copy was accepted, and nobody can say when it ends.
TEST(SessionTest, StateWithoutATickIsLeftAlone) {
  for (bool write : {false, true}) {
    FakeOptions options;
    Fixture f(options);
    Shape shape;
    shape.async = true;
    f.Load(shape);
    f.Run("init", 0, 1);
    options.fail_mark = true;
    SetFakeOptions(options);
    char bytes[16] = {};
    absl::Status s = write ? f.session->WriteState("w", bytes)
                           : f.session->ReadState("w", absl::MakeSpan(bytes));
    EXPECT_EQ(ErrorCodeOf(s), ErrorCode::kDeviceFailed);
    EXPECT_THAT(std::string(s.message()), HasSubstr("stream_mark"));
    EXPECT_EQ(f.session->Run("train", 0, 1).status(), s);
    f.session_stays = true;
  }
}

TEST(SessionTest, MemoryThatCouldNotBeMappedIsMappedLater) {
  FakeOptions options;
  options.fail_map = 0;
  Fixture f(options);
  Shape shape;
  f.Load(shape);
  absl::Status s = f.session->Run("init", 0, 1).status();
  EXPECT_EQ(ErrorCodeOf(s), ErrorCode::kDeviceFailed);
  EXPECT_THAT(std::string(s.message()), HasSubstr("host_map: INTERNAL"));
  f.Run("init", 0, 1);
  f.Run("train", 0, 2);
  EXPECT_EQ(f.rows.rows, Reference(0, 2, shape.micro).rows);
}

// Where control gets no memory, its workers still leave, or are given up: the
// end of the session does not wait for ever.
TEST(SessionTest, ARunWithoutMemoryForItsControlEnds) {
  for (bool leaves : {true, false}) {
    FakeOptions options;
    options.block_neg = true;
    SessionOptions session_options;
    session_options.stall_report_ns = 1'000'000;
    session_options.drain_ns = leaves ? 10'000'000'000 : 5'000'000;
    session_options.on_stall = [&](const std::string&) {
      if (leaves) testing::ReleaseFake();
      throw std::bad_alloc();
    };
    Fixture f(options, false, session_options);
    ASSERT_TRUE(f.session->LoadProgram(NegPlan(), f.bindings).ok());
    absl::Status s = f.session->Run("neg", 0, 1000).status();
    EXPECT_EQ(ErrorCodeOf(s), ErrorCode::kOutOfMemory);
    EXPECT_THAT(std::string(s.message()), HasSubstr("program 'neg'"));
    EXPECT_EQ(f.session->Run("neg", 0, 1).status(), s);
    testing::ReleaseFake();
  }
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
}  // namespace weft::runtime::session_test
