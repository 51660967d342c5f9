#include "compiler/transforms/set_mode.h"

#include "compiler/transforms/testing.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

constexpr char kNorm[] = R"(
%x = weft.Input() {dtype: f32, shape: [2, 3, 1, 1]}
%s = weft.Variable() {dtype: f32, shape: [3]}
%b = weft.Variable() {dtype: f32, shape: [3]}
%m = weft.Variable() {dtype: f32, shape: [3], role: "statistic"}
%v = weft.Variable() {dtype: f32, shape: [3], role: "statistic"}
%y = BatchNormalization(%x, %s, %b, %m, %v) {epsilon: 0.5, momentum: 0.75}
%o = weft.Output(%y) {name: "y"})";

constexpr char kDropout[] = R"(
%x = weft.Input() {dtype: f32, shape: [8]}
%d = Dropout(%x) {ratio: 0.25} device("cpu:0") stage(1)
%e = Dropout(%d) {ratio: 0}
%f = Dropout(%e)
%o = weft.Output(%f) {name: "y"})";

PassSettings Training(uint64_t seed = 7) {
  PassSettings settings;
  settings.training = true;
  settings.seed = seed;
  return settings;
}

TEST(SetModeTest, NothingToDo) {
  const char body[] = R"(
%x = weft.Input() {dtype: f32, shape: [8]}
%y = Relu(%x)
%o = weft.Output(%y) {name: "y"})";
  EXPECT_EQ(Untouched("set_mode", body), "");
  EXPECT_EQ(Untouched("set_mode", body, Training()), "");
  EXPECT_EQ(Untouched("set_mode", kNorm), "");
}

TEST(SetModeTest, LeavesSideEffectsAndGivenStatisticsAlone) {
  EXPECT_EQ(Untouched("set_mode", R"(
%x = weft.Input() {dtype: f32, shape: [2, 3, 1, 1]}
%c = Constant() {value: tensor(f32[3], [1.0, 2.0, 3.0])}
%w = weft.Variable() {dtype: f32, shape: [3]}
%u = weft.Assign(%w, %c)
%y = BatchNormalization(%x, %c, %c, %c, %c)
%o = weft.Output(%y) {name: "y"})",
                      Training()),
            "");
}

TEST(SetModeTest, DropoutIsIdentityInEvaluation) {
  PassRun run = RunPass("set_mode", kDropout);
  EXPECT_EQ(run.body, R"(%x = weft.Input() {dtype: f32, shape: [8]}
%o = weft.Output(%x) {name: "y"}
)");
}

TEST(SetModeTest, DropoutDrawsInTraining) {
  PassRun run = RunPass("set_mode", kDropout, Training());
  EXPECT_NE(run.body.find("%counter = weft.Counter() {rate: \"micro\"}"),
            std::string::npos)
      << run.body;
  EXPECT_NE(run.body.find("%d/training = weft.DropoutTraining(%x, %counter) "
                          "{ratio: 0.25, seed: 7, stream: "),
            std::string::npos)
      << run.body;
  EXPECT_NE(run.body.find("device(\"cpu:0\") stage(1)"), std::string::npos);
  EXPECT_NE(run.body.find(
                "%f/training = weft.DropoutTraining(%d/training, %counter)"),
            std::string::npos)
      << run.body;
  // One counter for all.
  EXPECT_EQ(run.body.find("counter_1"), std::string::npos) << run.body;
}

TEST(SetModeTest, StreamsFollowTheNameAndNothingElse) {
  auto stream = [](const std::string& body, const std::string& node) {
    Graph g = ParseBody(body);
    EXPECT_TRUE(SetMode(&g, Mode::kTrain, 1).ok());
    return g.FindNode(node + "/training")->attrs().Find("stream")->i();
  };
  int64_t d = stream(kDropout, "d");
  EXPECT_NE(d, stream(kDropout, "f"));
  EXPECT_EQ(d, stream(R"(
%z = weft.Input() {dtype: f64, shape: [3]}
%d = Dropout(%z)
%o = weft.Output(%d) {name: "y"})",
                      "d"));
  // FNV-1a of "d": it is part of what a seed means.
  EXPECT_EQ(static_cast<uint64_t>(d), 0xaf63d94c8601e773u);
}

TEST(SetModeTest, AttentionDropsWeightsInTraining) {
  const char* body = R"(
%x = weft.Input() {dtype: f32, shape: [2, 3, 12]}
%a = weft.SelfAttention(%x) {heads: 2, ratio: 0.25, scale: 0.5}
%b = weft.SelfAttention(%x) {heads: 2}
%d = Dropout(%a) {ratio: 0.5}
%o = weft.Output(%d) {name: "y"}
%p = weft.Output(%b) {name: "z"})";
  PassRun run = RunPass("set_mode", body, Training());
  EXPECT_NE(run.body.find("weft.SelfAttention(%x, %counter) {heads: 2, ratio: "
                          "0.25, scale: 0.5, seed: 7, stream: "),
            std::string::npos)
      << run.body;
  EXPECT_NE(run.body.find("weft.SelfAttention(%x) {heads: 2}"),
            std::string::npos)
      << run.body;
  // One counter for all.
  EXPECT_EQ(run.body.find("counter_1"), std::string::npos) << run.body;
  // In evaluation the form says already that nothing is dropped.
  PassRun eval = RunPass("set_mode", body);
  EXPECT_NE(eval.body.find("weft.SelfAttention(%x) {heads: 2, ratio: 0.25"),
            std::string::npos)
      << eval.body;
}

TEST(SetModeTest, BatchNormUpdatesItsStatistics) {
  PassRun run = RunPass("set_mode", kNorm, Training());
  for (const char* line :
       {"%y/training = weft.BatchNormTraining(%x, %s, %b) {epsilon: 0.5}",
        "%y/running_mean = weft.EmaUpdate(%m, %y/training:1) {momentum: 0.75}",
        "%y/running_var = weft.EmaUpdate(%v, %y/training:2) {momentum: 0.75}",
        "%o = weft.Output(%y/training)"}) {
    EXPECT_NE(run.body.find(line), std::string::npos) << run.body;
  }
}

}  // namespace
}  // namespace weft
