// weft profile and weft train --profile, through the real program.

#include <cmath>
#include <string>

#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/harness.h"

namespace weft::e2e {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// Each line of time adds up, and every row lies on one.
void ExpectWhole(const json& profile) {
  const double step = profile["step_ms"];
  EXPECT_GT(step, 0);
  double kernels = 0, rows = 0;
  for (const json& line : profile["lines"]) {
    double sum = 0;
    for (const char* part : {"kernels_ms", "submitting_ms", "run_time_ms",
                             "data_wait_ms", "device_wait_ms", "idle_ms"}) {
      sum += line[part].get<double>();
    }
    EXPECT_NEAR(sum, step, 1e-9 * step) << line;
    EXPECT_LE(line["run_time_share"], 1);
    kernels += line["kernels_ms"].get<double>();
  }
  double before = HUGE_VAL;
  for (const json& row : profile["rows"]) {
    rows += row["ms"].get<double>();
    EXPECT_LE(row["lost_ms"], before) << "worst first: " << row;
    before = row["lost_ms"];
  }
  EXPECT_NEAR(rows, kernels, 1e-9 * kernels);
}

json Parse(Process process) {
  Ended ended = process.Wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  json out = json::parse(ended.out, nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(out.is_discarded()) << ended.out;
  return out;
}

const json* RowOf(const json& profile, const std::string& node) {
  for (const json& row : profile["rows"]) {
    for (const json& name : row["nodes"]) {
      if (name == node) return &row;
    }
  }
  return nullptr;
}

TEST(ProfileTest, SaysWhereTheTimeOfATinyJobGoes) {
  TestJob job("profile", Mlp());
  json profile = Parse(job.Weft(
      {"profile", job.path(), "--steps", "6", "--warm-up", "2", "--json"}));
  ASSERT_TRUE(profile.is_object());
  EXPECT_EQ(profile["steps"], 6);
  ExpectWhole(profile);
  ASSERT_EQ(profile["ceilings"].size(), 1u);
  EXPECT_EQ(profile["ceilings"][0]["device"], "cpu:0");
  EXPECT_GT(profile["ceilings"][0]["gflops"], 0);
  EXPECT_GT(profile["ceilings"][0]["gbytes"], 0);
  // 16 samples of 64 pixels by 12 units, however it is fused.
  const json* fc1 = RowOf(profile, "fc1/relu");
  ASSERT_NE(fc1, nullptr) << profile;
  EXPECT_GE((*fc1)["flops_per_call"], 2 * 16 * 64 * 12);
  EXPECT_EQ((*fc1)["calls"], 1);
  EXPECT_TRUE(job.Runs().empty());  // nothing is kept
}

TEST(ProfileTest, OperationsOfAMatMulAreExactOnADeviceWithTicks) {
  TestJob job("profile_sim", Mlp());
  json profile =
      Parse(job.Weft({"profile", job.path(), "--steps", "4", "--warm-up", "1",
                      "--json", "--set", "devices=sim:0"}));
  ASSERT_TRUE(profile.is_object());
  ExpectWhole(profile);
  const json* product = RowOf(profile, "fc1/matmul");
  ASSERT_NE(product, nullptr) << profile;
  EXPECT_EQ((*product)["op"], "MatMul");
  EXPECT_EQ((*product)["shape"], "16x12");
  EXPECT_EQ((*product)["flops_per_call"], 2 * 16 * 64 * 12);
  EXPECT_EQ((*product)["bytes_per_call"], 4 * (16 * 64 + 64 * 12 + 16 * 12));
  EXPECT_EQ((*product)["calls"], 1);
  EXPECT_EQ((*product)["device"], "sim:0");
  EXPECT_EQ((*product)["where"], "sim:0/compute");
  EXPECT_GT((*product)["ms"], 0);
}

TEST(ProfileTest, PrintsATable) {
  TestJob job("profile_text", Mlp());
  Ended ended =
      job.Weft({"profile", job.path(), "--steps=3", "--top=4"}).Wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("3 steps of "));
  EXPECT_THAT(ended.out, HasSubstr("most of cpu:0, on this device, now: "));
  EXPECT_THAT(ended.out, HasSubstr(" more\n"));
  EXPECT_THAT(ended.out, HasSubstr("  run-time: "));
  EXPECT_THAT(ended.out, HasSubstr("100.0%  a step\n"));
}

TEST(ProfileTest, ATrainingRunIsRecordedOnItsWay) {
  TestJob job("train_profile", Mlp());
  json result = Parse(job.Weft({"train", job.path(), "--profile", "--json",
                                "--set", "epochs=5", "--quiet"}));
  ASSERT_TRUE(result.contains("profile")) << result;
  EXPECT_EQ(result["profile"]["steps"], 50);
  ExpectWhole(result["profile"]);
  const std::string directory = result["run_directory"];
  EXPECT_EQ(json::parse(ReadText(directory + "/profile.json")),
            result["profile"]);
  // What was trained is what a run without a profile trains.
  absl::StatusOr<TrainResult> plain = job.Train({"epochs=5"});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(StateOf(directory), StateOf(plain->run_directory));
}

TEST(ProfileTest, EachRankHasOneOfItsOwn) {
  TestJob job("ranks_profile", Mlp());
  json result =
      Parse(job.Weft({"train", job.path(), "--profile", "--json", "--set",
                      "epochs=5", "--quiet", "--virtual-ranks", "2"}));
  const std::string directory = result["run_directory"];
  for (const char* file : {"/profile.json", "/logs/rank_00001.profile.json"}) {
    SCOPED_TRACE(file);
    const json profile = json::parse(ReadText(directory + file));
    EXPECT_EQ(profile["steps"], 50);
    ExpectWhole(profile);
  }
  EXPECT_EQ(json::parse(ReadText(directory + "/profile.json")),
            result["profile"]);
}

TEST(ProfileTest, AWindowWithoutStepsIsRefused) {
  TestJob job("profile_bad", Mlp());
  absl::Status status = Profile(job.Options(), {5, 0}).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kBadValue)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("0 steps after 5"));
  Ended ended = job.Weft({"profile", job.path(), "--steps", "many"}).Wait();
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("WEFT-1005"));
}

}  // namespace
}  // namespace weft::e2e
