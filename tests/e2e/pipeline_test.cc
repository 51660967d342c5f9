// Jobs whose ranks are the stages of a pipeline: they compute what one rank
// does, in any order of micro-batches and with any timing.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/harness.h"

namespace weft::e2e {
namespace {

using ::testing::HasSubstr;

constexpr char kDeep[] =
    R"(builtin { name: "mlp" args { key: "hidden" value: "12,8,12,8,12,8,8" } })";

// A small model of text, its embedding used twice: in the first stage and in
// the last.
TestJob TextJob(const std::string& name) {
  TestJob job(name, Mlp());
  std::string text;
  for (int i = 0; i < 60; ++i) {
    absl::StrAppend(&text, i % 3 == 0 ? "a cat" : "the dog", " sees it.\n");
  }
  WriteText(job.File("text"), text);
  WriteText(job.path(), R"(name: "job"
model { builtin { name: "gpt"
  args { key: "layers" value: "4" }
  args { key: "width" value: "16" }
  args { key: "heads" value: "2" }
  args { key: "dropout" value: "0.1" } } }
data { train { text { path: "text" context: 12 eval_fraction: 0.1 } } }
optimizer { adamw {} clip_norm: 1 schedule { constant { base: 0.01 } } }
batch_size: 16
steps: 3
runtime { threads: 1 }
)");
  return job;
}

Sets With(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

struct Shape {
  const char* schedule;
  int stages;
  uint32_t ranks;
};

void ExpectAllShapesSame(const TestJob& job, const Sets& sets,
                         const std::vector<Shape>& shapes) {
  const Left one = LeftBy(OnRanks(job, 1, sets));
  int seed = 0;
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(
        absl::StrCat(shape.schedule, " ", shape.stages, " ", shape.ranks));
    const Sets with =
        With(sets, {absl::StrCat("pipeline.schedule=", shape.schedule),
                    absl::StrCat("pipeline.stages=", shape.stages)});
    ExpectSame(LeftBy(OnRanks(job, shape.ranks, with,
                              absl::StrCat("delay_max=8&delay_seed=", ++seed))),
               one);
  }
  // The same job on one rank: no pipeline.
  ExpectSame(LeftBy(OnRanks(job, 1, With(sets, {"pipeline.stages=4"}))), one);
}

TEST(PipelineTest, AnyScheduleComputesTheSame) {
  TestJob job("mlp", kDeep);
  ExpectAllShapesSame(job,
                      {"micro_batches=8", "optimizer.clip_norm=0.5",
                       "model.builtin.args.dropout=0.25", "epochs=1"},
                      {{"gpipe", 4, 4},
                       {"1f1b", 4, 4},
                       {"interleaved", 4, 2},
                       {"interleaved", 8, 4},
                       {"gpipe", 6, 2},
                       {"1f1b", 3, 3}});
}

TEST(PipelineTest, TextModelsComputeTheSame) {
  TestJob job = TextJob("gpt");
  ExpectAllShapesSame(job, {"micro_batches=4"},
                      {{"gpipe", 4, 4}, {"1f1b", 4, 4}, {"interleaved", 8, 4}});
}

TEST(PipelineTest, RecomputationAndPrecisionComputeTheSame) {
  TestJob job = TextJob("again");
  ExpectAllShapesSame(job, {"micro_batches=4", "runtime.recompute=100"},
                      {{"1f1b", 4, 4}, {"interleaved", 4, 2}});
  TestJob bf16("bf16", kDeep);
  ExpectAllShapesSame(
      bf16,
      {"micro_batches=4", "precision.compute=BF16", "steps=4", "epochs=0"},
      {{"1f1b", 4, 4}, {"interleaved", 4, 2}});
}

// Its acts are over later than its launches, and what is sent is copied first.
TEST(PipelineTest, OnADeviceOfItsOwnMemoryItComputesTheSame) {
  TestJob job("sim", kDeep);
  ExpectAllShapesSame(
      job, {"micro_batches=4", "devices=sim:0", "steps=3", "epochs=0"},
      {{"gpipe", 2, 2}, {"1f1b", 4, 4}, {"interleaved", 4, 2}});
}

// Running statistics are updated once a step, on the rank of their layer.
TEST(PipelineTest, ImageModelsComputeTheSame) {
  TestJob job("lenet", Lenet(), LenetData());
  ExpectAllShapesSame(
      job,
      {"micro_batches=4", "model.builtin.args.batch_norm=1",
       "model.builtin.args.dropout=0.25", "steps=4", "epochs=0"},
      {{"gpipe", 3, 3}, {"1f1b", 4, 4}, {"interleaved", 4, 2}});
}

// Phases of a rank's trace, of the stream that has an order, as they began.
std::string PhasesOf(const std::string& trace) {
  const nlohmann::json events = nlohmann::json::parse(trace)["traceEvents"];
  int stream = -1;
  for (const auto& event : events) {
    if (event["ph"] != "M") continue;
    const std::string name = event["args"]["name"];
    if (name.rfind("train cpu:0/compute", 0) == 0) stream = event["tid"];
  }
  std::vector<std::pair<double, std::string>> begun;
  for (const auto& event : events) {
    if (event["ph"] != "X" || event["tid"] != stream) continue;
    if (!event["args"].contains("phase")) continue;
    begun.emplace_back(event["ts"], event["args"]["phase"]);
  }
  std::sort(begun.begin(), begun.end());
  std::vector<std::string> out;
  for (const auto& [time, phase] : begun) {
    if (out.empty() || out.back() != phase) out.push_back(phase);
  }
  return absl::StrJoin(out, " ");
}

TEST(PipelineTest, TracesAndPlansShowTheOrder) {
  TestJob job("trace", kDeep);
  const Left left =
      LeftBy(OnRanks(job, 2,
                     {"micro_batches=4", "pipeline.stages=2",
                      "observe.trace_steps=1", "steps=2", "epochs=0"}));
  ASSERT_EQ(left.steps, 2u);
  const std::vector<std::string> orders = {
      "F0.0 F0.1 B0.0 F0.2 B0.1 F0.3 B0.2 B0.3",
      "F1.0 B1.0 F1.1 B1.1 F1.2 B1.2 F1.3 B1.3"};
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(PhasesOf(ReadText(absl::StrCat(
                  job.Runs().back(), "/trace/rank_0000", rank, ".json"))),
              orders[rank]);
    Ended shown = job.Weft({"plan", "show", job.path(), "--ranks", "2",
                            "--rank", absl::StrCat(rank), "--set",
                            "micro_batches=4", "--set", "pipeline.stages=2"})
                      .Wait();
    EXPECT_EQ(shown.exit_code, 0) << shown.err;
    EXPECT_THAT(shown.out, HasSubstr(absl::StrCat("pipeline 1f1b, 2 stages: ",
                                                  orders[rank], "\n")));
  }
  Ended proved = job.Weft({"plan", "check", job.path(), "--ranks", "2", "--set",
                           "micro_batches=4", "--set", "pipeline.stages=2"})
                     .Wait();
  EXPECT_EQ(proved.exit_code, 0) << proved.err;
  EXPECT_THAT(proved.out, HasSubstr("is proved for 2 ranks"));
}

// Stages by hand are those of the ranks.
TEST(PipelineTest, PlacedNodesTakeASchedule) {
  const Sets sets = {"micro_batches=4", "steps=5", "epochs=0"};
  TestJob whole("whole", Mlp());
  const Left one = LeftBy(OnRanks(whole, 1, sets));
  for (const char* schedule : {"gpipe", "1f1b"}) {
    SCOPED_TRACE(schedule);
    TestJob job("placed", Mlp());
    WriteText(job.path(),
              absl::StrCat(ReadText(job.path()),
                           R"(placement { scope: "fc2.*" device: "w1" }
                              placement { scope: "relu2|fc3.*" device: "w1" })",
                           "pipeline { schedule: \"", schedule, "\" }"));
    ExpectSame(LeftBy(OnRanks(job, 2, sets)), one);
  }
}

// Pipelines beside other axes: several of them share the micro-batches, and the
// ranks of a stage its values. Sums over values split have another order.
TEST(PipelineTest, OnAMeshItComputesTheSame) {
  const Sets sets = {"logical_shards=8", "optimizer.clip_norm=0.5", "steps=4",
                     "epochs=0", "model.builtin.args.dropout=0.25"};
  TestJob plain("plain", kDeep);
  absl::StatusOr<TrainResult> one = Train(OnRanks(plain, 1, sets));
  ASSERT_TRUE(one.ok()) << one.status();
  const std::string data = R"(axis { name: "data" size: 2 })";
  const std::string model = R"(axis { name: "model" size: 2 })";
  const std::string pipe = R"(axis { name: "pipe" size: 2 })";
  struct Case {
    std::string axes;
    uint32_t ranks;
    std::string more;
    bool bits;
  };
  for (const Case& c : std::vector<Case>{
           {data + pipe, 4, R"(pipeline { stages: 2 })", true},
           {pipe + data, 4, R"(pipeline { stages: 4 schedule: "interleaved" })",
            true},
           {data + pipe, 4, R"(pipeline { stages: 2 } zero: 3)", true},
           {pipe + model, 4, R"(pipeline { stages: 2 schedule: "gpipe" }
              sharding { value: "fc2/weight" axis: "model" split: 0 })",
            false},
           {data + pipe + model, 8, R"(pipeline { stages: 2 }
              sharding { value: "fc2/weight" axis: "model" split: 1 })",
            false}}) {
    SCOPED_TRACE(absl::StrCat(c.axes, c.more));
    TestJob job("mesh", kDeep);
    WriteText(job.path(), absl::StrCat(ReadText(job.path()), "mesh { ", c.axes,
                                       " } ", c.more));
    absl::StatusOr<TrainResult> many =
        Train(OnRanks(job, c.ranks, sets, "delay_max=4&delay_seed=3"));
    ASSERT_TRUE(many.ok()) << many.status();
    EXPECT_NEAR(many->final_loss, one->final_loss, 1e-5 * one->final_loss);
    if (!c.bits) continue;
    EXPECT_TRUE(StateOf(many->run_directory) == StateOf(one->run_directory));
  }
}

TEST(PipelineTest, WhatCannotBeIsRefusedAndLeavesNothing) {
  TestJob job("refused", kDeep);
  TestJob back("back", Mlp());
  WriteText(back.path(),
            absl::StrCat(ReadText(back.path()),
                         R"(placement { scope: "fc1.*" device: "w1" })"));
  struct Case {
    const TestJob& job;
    uint32_t ranks;
    Sets sets;
    const char* message;
  };
  for (const Case& c : std::vector<Case>{
           {job,
            4,
            {"pipeline.stages=6"},
            "pipeline.stages is 6, which is no multiple of the 4 ranks"},
           {job,
            4,
            {"pipeline.stages=4", "micro_batches=2"},
            "keeps 4 ranks busy with as many micro-batches; micro_batches is "
            "2"},
           {job,
            2,
            {"pipeline.stages=4", "micro_batches=4"},
            "pipeline.schedule is '1f1b', which has one stage a rank; there "
            "are 4 on 2 ranks"},
           {job,
            2,
            {"pipeline.stages=2", "micro_batches=4",
             "pipeline.schedule=interleaved"},
            "which takes several stages of each rank in turn; there are 2 on "
            "2 ranks"},
           {job,
            2,
            {"pipeline.stages=40", "pipeline.schedule=gpipe"},
            "pipeline.stages is 40, but model 'mlp' has 15 nodes with work"},
           {job,
            2,
            {"pipeline.schedule=gpipe"},
            "pipeline.stages is 0 and placement gives nothing to ranks"},
           {back,
            2,
            {"pipeline.schedule=gpipe", "micro_batches=4"},
            "the pipeline cannot flow: 'relu1' of stage 0 reads 'fc1' of "
            "stage 1"},
           {back,
            2,
            {"pipeline.stages=2", "micro_batches=4"},
            "placement gives 'fc1.*' to a rank, but pipeline.stages (2)"}}) {
    SCOPED_TRACE(c.message);
    const absl::Status status = Train(OnRanks(c.job, c.ranks, c.sets)).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kBadJob)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
    EXPECT_THAT(c.job.Runs(), ::testing::IsEmpty());
  }
}

}  // namespace
}  // namespace weft::e2e
