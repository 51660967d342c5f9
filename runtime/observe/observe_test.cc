#include <cmath>
#include <cstdlib>

#include "core/base/error.h"
#include "core/testing/fake_clock.h"
#include "core/testing/faulty_os.h"
#include "glog/logging.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/observe/metrics.h"
#include "runtime/observe/progress.h"
#include "runtime/observe/run_directory.h"
#include "runtime/observe/run_log.h"
#include "runtime/rendezvous/rendezvous.h"

namespace weft::observe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Scratch() {
  std::string dir =
      JoinPath(std::getenv("TEST_TMPDIR"),
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
  RealOs().RemoveAll(dir).IgnoreError();
  EXPECT_TRUE(RealOs().MakeDirectories(dir).ok());
  return dir;
}

MetricsRecord Record(uint64_t step, double loss) {
  return {step, 0.5, {{"loss", loss}}};
}

TEST(MetricsTest, JsonReadsBackExactly) {
  EXPECT_EQ(ToJson(Record(7, 0.25)),
            "{\"step\":7,\"epoch\":0.5,\"loss\":0.25}");
  EXPECT_EQ(ToJson(Record(7, std::nan(""))),
            "{\"step\":7,\"epoch\":0.5,\"loss\":null}");
  double third = 1.0 / 3;
  EXPECT_THAT(ToJson(Record(1, third)), HasSubstr("0.33333333333333331"));
  EXPECT_THAT(ToJson(Record(1, static_cast<float>(0.1))),
              HasSubstr("0.100000001"));
}

TEST(MetricsTest, ResumingCutsOffLaterSteps) {
  std::string path = JoinPath(Scratch(), "metrics.jsonl");
  {
    auto log = MetricsLog::Open(RealOs(), path, 0).value();
    for (uint64_t step : {1, 2, 3}) ASSERT_TRUE(log->Add(Record(step, 1)).ok());
  }
  // A death in the middle of a line.
  auto file = RealOs().Append(path).value();
  ASSERT_TRUE(file->Append("{\"step\":4,\"ep").ok());
  ASSERT_TRUE(file->Close().ok());
  auto log = MetricsLog::Open(RealOs(), path, 2).value();
  ASSERT_TRUE(log->Add(Record(3, 9)).ok());
  EXPECT_EQ(RealOs().ReadFile(path, 1000).value(),
            ToJson(Record(1, 1)) + "\n" + ToJson(Record(2, 1)) + "\n" +
                ToJson(Record(3, 9)) + "\n");
}

TEST(MetricsTest, ARecordIsInTheFileAtOnce) {
  std::string path = JoinPath(Scratch(), "metrics.jsonl");
  auto log = MetricsLog::Open(RealOs(), path, 0).value();
  ASSERT_TRUE(log->Add(Record(1, 1)).ok());
  EXPECT_EQ(RealOs().ReadFile(path, 1000).value(), ToJson(Record(1, 1)) + "\n");
}

TEST(MetricsTest, AFullDiskIsAnErrorAtOnceAndLeavesNoHalfLine) {
  FaultyOs os(RealOs());
  std::string path = JoinPath(Scratch(), "metrics.jsonl");
  auto log = MetricsLog::Open(os, path, 0).value();
  ASSERT_TRUE(log->Add(Record(1, 1)).ok());
  os.FailAt(0, absl::ResourceExhaustedError("No space left on device"),
            /*from_then_on=*/false);
  EXPECT_TRUE(IsError(log->Add(Record(2, 1)), ErrorCode::kWriteFailed));
  EXPECT_EQ(RealOs().ReadFile(path, 1000).value(), ToJson(Record(1, 1)) + "\n");
  EXPECT_TRUE(log->Add(Record(3, 1)).ok());
  EXPECT_EQ(RealOs().ReadFile(path, 1000).value(),
            ToJson(Record(1, 1)) + "\n" + ToJson(Record(3, 1)) + "\n");
}

// Several records are one write, or, where it fails, as many as there is room
// for.
TEST(MetricsTest, SeveralRecordsAreOneWrite) {
  FaultyOs os(RealOs());
  std::string path = JoinPath(Scratch(), "metrics.jsonl");
  auto log = MetricsLog::Open(os, path, 0).value();
  const std::vector<MetricsRecord> records = {Record(1, 1), Record(2, 1)};
  const int64_t calls = os.calls();
  ASSERT_TRUE(log->Add(records).ok());
  EXPECT_EQ(os.calls(), calls + 1);
  const std::string both =
      ToJson(records[0]) + "\n" + ToJson(records[1]) + "\n";
  EXPECT_EQ(RealOs().ReadFile(path, 1000).value(), both);
  os.FailAt(0, absl::ResourceExhaustedError("No space left on device"),
            /*from_then_on=*/false);
  ASSERT_TRUE(log->Add(std::vector{Record(3, 1), Record(4, 1)}).ok());
  EXPECT_EQ(RealOs().ReadFile(path, 1000).value(),
            both + ToJson(Record(3, 1)) + "\n" + ToJson(Record(4, 1)) + "\n");
}

TEST(MetricsTest, NoLineGoesOnWhereAPartOfOneStayed) {
  FaultyOs os(RealOs());
  std::string path = JoinPath(Scratch(), "metrics.jsonl");
  auto log = MetricsLog::Open(os, path, 0).value();
  ASSERT_TRUE(log->Add(Record(1, 1)).ok());
  // The write fails, and so does taking its part back.
  os.FailAt(0, absl::ResourceExhaustedError("No space left on device"));
  EXPECT_TRUE(IsError(log->Add(Record(2, 1)), ErrorCode::kWriteFailed));
  const std::string before = RealOs().ReadFile(path, 1000).value();
  EXPECT_NE(before.back(), '\n');
  os.FailAt(-1, absl::OkStatus());
  EXPECT_TRUE(IsError(log->Add(Record(3, 1)), ErrorCode::kWriteFailed));
  EXPECT_EQ(RealOs().ReadFile(path, 1000).value(), before);
  // Opening cuts it off.
  log = MetricsLog::Open(os, path, 9).value();
  EXPECT_TRUE(log->Add(Record(4, 1)).ok());
  EXPECT_EQ(RealOs().ReadFile(path, 1000).value(),
            ToJson(Record(1, 1)) + "\n" + ToJson(Record(4, 1)) + "\n");
}

TEST(MetricsTest, LinesOfOthersCostNoHistory) {
  std::string path = JoinPath(Scratch(), "metrics.jsonl");
  const std::string one = ToJson(Record(1, 1)) + "\n";
  const std::string two = ToJson(Record(2, 1)) + "\n";
  const std::string three = ToJson(Record(3, 1)) + "\n";
  ASSERT_TRUE(WriteFileAtomically(RealOs(), path,
                                  one + "# odd\n" + three + two + "{\"st")
                  .ok());
  auto log = MetricsLog::Open(RealOs(), path, 2).value();
  EXPECT_EQ(log->unknown_lines(), 1u);
  EXPECT_EQ(log->last_kept() + "\n", two);
  EXPECT_EQ(RealOs().ReadFile(path, 1000).value(), one + "# odd\n" + two);
  ASSERT_TRUE(log->Add(Record(3, 1)).ok());
  EXPECT_EQ(RealOs().ReadFile(path, 1000).value(),
            one + "# odd\n" + two + three);
}

TEST(MetricsTest, TheLastKeptRecordIsKnown) {
  std::string path = JoinPath(Scratch(), "metrics.jsonl");
  {
    auto log = MetricsLog::Open(RealOs(), path, 0).value();
    EXPECT_EQ(log->last_kept(), "");
    for (uint64_t step : {1, 2, 3}) ASSERT_TRUE(log->Add(Record(step, 1)).ok());
  }
  EXPECT_EQ(MetricsLog::Open(RealOs(), path, 2).value()->last_kept(),
            ToJson(Record(2, 1)));
  EXPECT_EQ(MetricsLog::Open(RealOs(), path, 1).value()->last_kept(),
            ToJson(Record(1, 1)));
  EXPECT_EQ(MetricsLog::Open(RealOs(), path, 0).value()->last_kept(), "");
}

// What `progress` printed into a temporary file.
std::string Printed(std::FILE* file) {
  std::string out(4096, '\0');
  std::rewind(file);
  out.resize(std::fread(&out[0], 1, out.size(), file));
  return out;
}

TEST(ProgressTest, ALineEveryTenSecondsInAFile) {
  FakeClock clock;
  std::FILE* file = std::tmpfile();
  Progress progress(&clock, file, false, 1000, 100);
  progress.Step(0, 0, 2);
  clock.AdvanceSeconds(9);
  progress.Step(90, 0.1, 1);
  EXPECT_EQ(Printed(file), "");
  clock.AdvanceSeconds(1);
  progress.Step(100, 0.25, 0.5);
  EXPECT_EQ(Printed(file),
            "step 100/1000  epoch 0.25  loss 0.5000  1000 samples/s  "
            "eta 1:30\n");
  std::fclose(file);
}

TEST(ProgressTest, OneLineOnATerminalIsRewrittenAndCleared) {
  FakeClock clock;
  std::FILE* file = std::tmpfile();
  Progress progress(&clock, file, true, 1000, 100);
  progress.Step(0, 0, 2);
  clock.AdvanceSeconds(1);
  progress.Step(10, 0, 2);
  progress.Clear();
  progress.Clear();
  std::string text = Printed(file);
  EXPECT_THAT(text, testing::StartsWith("\r\033[Kstep 10/1000"));
  EXPECT_THAT(text, testing::EndsWith("\r\033[K"));
  EXPECT_THAT(text, Not(HasSubstr("\n")));
  std::fclose(file);
}

TEST(ProgressTest, PausesDoNotCount) {
  FakeClock clock;
  std::FILE* file = std::tmpfile();
  Progress progress(&clock, file, false, 1000, 1);
  progress.Step(0, 0, 2);
  progress.Pause();
  clock.AdvanceSeconds(1000);
  progress.Step(10, 0, 2);
  EXPECT_EQ(Printed(file), "");
  std::fclose(file);
  EXPECT_EQ(FormatDuration(3723), "1:02:03");
}

TEST(RunDirectoryTest, NamesDoNotCollide) {
  FakeClock clock(1'767'323'045'000'000'000);  // 2026-01-02 03:04:05
  std::string base = Scratch();
  RunDirectory a = RunDirectory::Create(RealOs(), clock, base, "job").value();
  RunDirectory b = RunDirectory::Create(RealOs(), clock, base, "job").value();
  EXPECT_EQ(a.path(), JoinPath(base, "job-20260102-030405"));
  EXPECT_EQ(b.path(), JoinPath(base, "job-20260102-030405-2"));
  ASSERT_TRUE(a.Write("x", "y").ok());
  EXPECT_EQ(RealOs().ReadFile(a.File("x"), 9).value(), "y");
  EXPECT_TRUE(RealOs().Exists(a.File("errors")));
}

TEST(RunDirectoryTest, WhatIsDiscardedIsGone) {
  FakeClock clock;
  const std::string scratch = Scratch();
  const std::string base = JoinPath(scratch, "above/base");
  RunDirectory a = RunDirectory::Create(RealOs(), clock, base, "job").value();
  RunDirectory b = RunDirectory::Create(RealOs(), clock, base, "job").value();
  ASSERT_TRUE(a.Write("x", "y").ok());
  a.Discard();
  EXPECT_EQ(RealOs().List(base).value(),
            std::vector<std::string>{b.path().substr(base.size() + 1)});
  // One that was there before stays.
  RunDirectory opened = RunDirectory::Open(RealOs(), a.path()).value();
  EXPECT_FALSE(opened.is_new());
  opened.Discard();
  EXPECT_TRUE(RealOs().Exists(opened.path()));
  // The folders that were made for one go with it.
  const std::string deep = JoinPath(scratch, "deep");
  RunDirectory c =
      RunDirectory::Create(RealOs(), clock, JoinPath(deep, "er"), "job")
          .value();
  EXPECT_TRUE(c.is_new());
  c.Discard();
  EXPECT_FALSE(RealOs().Exists(deep));
  EXPECT_TRUE(RealOs().Exists(scratch));
}

TEST(RunDirectoryTest, FailuresAreTyped) {
  FakeClock clock;
  std::string base = JoinPath(Scratch(), "file");
  ASSERT_TRUE(WriteFileAtomically(RealOs(), base, "").ok());
  absl::Status status =
      RunDirectory::Create(RealOs(), clock, base, "job").status();
  EXPECT_TRUE(IsError(status, ErrorCode::kUnwritableRunDir));
  EXPECT_THAT(std::string(status.message()), HasSubstr(base));
}

TEST(RunLogTest, KeepsWhatIsLoggedWhileItLives) {
  FakeClock clock(1'767'323'045'000'000'000);
  std::string path = JoinPath(Scratch(), "log");
  {
    auto log = RunLog::Open(RealOs(), clock, path, 3, 8).value();
    log->Write("here.cc", 7, "hello");
    LOG(WARNING) << "from anywhere";
  }
  LOG(WARNING) << "after its end";
  std::string text = RealOs().ReadFile(path, 9999).value();
  EXPECT_THAT(text, testing::StartsWith("I20260102 03:04:05.000000 "));
  EXPECT_THAT(text, HasSubstr(" [r3/8] here.cc:7] hello\n"));
  EXPECT_THAT(text, HasSubstr("] from anywhere\n"));
  EXPECT_THAT(text, Not(HasSubstr("after its end")));
}

TEST(RunLogTest, AFullDiskStopsTheLogOnly) {
  FakeClock clock;
  FaultyOs os(RealOs());
  std::string path = JoinPath(Scratch(), "log");
  auto log = RunLog::Open(os, clock, path, 0, 1).value();
  os.FailAt(0, absl::ResourceExhaustedError("No space left on device"));
  log->Write("here.cc", 7, "lost");
  EXPECT_TRUE(IsError(RunLog::Open(os, clock, path, 0, 1).status(),
                      ErrorCode::kWriteFailed));
}

TEST(FailureTest, JsonHasWhatALauncherNeeds) {
  FakeClock clock(1'767'323'045'000'000'000);
  std::string json = FailureJson(
      {MakeError(ErrorCode::kNotFinite, "loss is nan"), 3, 17}, clock);
  for (const char* text :
       {"\"code\": \"WEFT-6001\"", "\"message\": \"loss is nan\"",
        "\"rank\": 3", "\"step\": 17", "\"exit_code\": 7",
        "\"time\": \"2026-01-02T03:04:05Z\""}) {
    EXPECT_THAT(json, HasSubstr(text));
  }
  EXPECT_THAT(json, Not(HasSubstr("cause")));
  absl::Status loss = MakeError(ErrorCode::kPeerLost, "rank 1 failed");
  loss.SetPayload(runtime::kCauseName, absl::Cord("WEFT-6001"));
  EXPECT_THAT(FailureJson({loss, 3, 17}, clock),
              HasSubstr("\"cause\": \"WEFT-6001\""));
}

}  // namespace
}  // namespace weft::observe
