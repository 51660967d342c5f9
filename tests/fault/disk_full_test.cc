// A disk that is full from any moment on, or refuses one single call: a typed
// error or a warning, whole checkpoints only, and a run that can go on later.

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/testing/faulty_os.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/checkpoint/checkpoint.h"
#include "tests/e2e/harness.h"

namespace weft::e2e {
namespace {

using ::testing::HasSubstr;

const absl::Status& Full() {
  static const auto* status =
      new absl::Status(absl::ResourceExhaustedError("No space left on device"));
  return *status;
}

Sets Short() {
  return {"epochs=0", "steps=6", "checkpoint.every_steps=2",
          "eval.every_epochs=0"};
}

// Names that say that somebody wanted to finish a file and did not.
std::vector<std::string> HalfWritten(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (absl::EndsWith(name, ".tmp") || absl::StartsWith(name, ".")) {
      out.push_back(entry.path());
    }
  }
  return out;
}

// Checkpoints of a run; each must be good. None where there is no run.
std::vector<checkpoint::Info> Checkpoints(const std::string& run) {
  absl::StatusOr<std::vector<checkpoint::Info>> list =
      checkpoint::List(RealOs(), run);
  if (!list.ok()) return {};
  for (const checkpoint::Info& info : *list) {
    EXPECT_TRUE(info.verdict.ok()) << info.verdict;
  }
  return *list;
}

TEST(DiskFullTest, AtEveryCall) {
  TestJob reference("reference", Mlp());
  FaultyOs counter(*reference.Options().os);
  TrainOptions counting = reference.Options(Short());
  counting.os = &counter;
  absl::StatusOr<TrainResult> whole = Train(counting);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto state = StateOf(whole->run_directory);
  const std::string metrics = MetricsOf(whole->run_directory);
  const int64_t calls = counter.calls();
  ASSERT_GT(calls, 50);
  int failed = 0, resumed = 0;
  for (int64_t n = 0; n < calls; ++n) {
    const bool for_ever = n % 2 == 0;
    SCOPED_TRACE(absl::StrCat("call ", n, for_ever ? " and later" : ""));
    TestJob job("full", Mlp());
    FaultyOs os(*job.Options().os);
    os.FailAt(n, Full(), for_ever);
    TrainOptions options = job.Options(Short());
    options.os = &os;
    absl::StatusOr<TrainResult> result = Train(options);
    if (!result.ok()) {
      ++failed;
      EXPECT_TRUE(IsError(result.status(), ErrorCode::kWriteFailed) ||
                  IsError(result.status(), ErrorCode::kUnwritableRunDir))
          << result.status();
      EXPECT_THAT(std::string(result.status().message()),
                  HasSubstr("No space left"));
    } else {
      EXPECT_EQ(StateOf(result->run_directory), state);
    }
    EXPECT_TRUE(HalfWritten(job.File("runs")).empty())
        << HalfWritten(job.File("runs"))[0];
    if (job.Runs().empty()) continue;
    const std::string run = job.Runs()[0];
    Checkpoints(run);
    // There is room again. Not each time: it is the same code.
    if (n % 5 != 0 || !RealOs().Exists(JoinPath(run, "resolved_job.txtpb"))) {
      continue;
    }
    ++resumed;
    TrainOptions again = job.Options();
    again.job_path = "";
    again.resume = run;
    absl::StatusOr<TrainResult> finished = Train(again);
    ASSERT_TRUE(finished.ok()) << finished.status();
    EXPECT_EQ(StateOf(run), state);
    EXPECT_EQ(MetricsOf(run), metrics);
  }
  EXPECT_GT(failed, calls / 4);
  EXPECT_GT(resumed, 5);
}

}  // namespace
}  // namespace weft::e2e
