// Plans of pipelines: the orders of the ranks are those of the schedule, what
// is kept from phase to phase has room for the micro-batches in between and no
// more, and the ranks compute what one does.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/compile.h"
#include "compiler/partition/by_rank.h"
#include "compiler/pipeline/schedule.h"
#include "compiler/testing/fake_oracle.h"
#include "compiler/testing/job_plans.h"
#include "compiler/testing/symbolic_run.h"
#include "core/base/error.h"
#include "core/graph/graph.h"
#include "core/graph/text.h"
#include "core/plan/print.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kPeriods = 3;

// A training step in small: a chain of products with variables, its gradients
// backwards, a sum and an update for each variable. With `random` above 0 also
// values that skip stages, control edges, nodes without a stage, and values
// that are made again on the way back.
class ChainGraph {
 public:
  ChainGraph(const PipelineSpec& pipeline, int nodes_per_stage, uint64_t random,
             int64_t width = 4)
      : pipeline_(pipeline),
        per_stage_(nodes_per_stage),
        state_(random),
        width_(width) {}

  Graph Make() {
    Node* data = Add("weft.DataSource", "data", {}, -1,
                     {{"source", "x"},
                      {"dtypes", std::vector<int64_t>{1, 1}},
                      {"ranks", std::vector<int64_t>{2, 2}},
                      {"dims", std::vector<int64_t>(4, width_)}},
                     2);
    lr_ = Add("Constant", "lr", {}, -1,
              {{"value", Literal::Splat({DType::kF32, Shape()}, 0.5)}})
              ->output(0);
    Value x = data->output(0);
    for (int s = 0; s < pipeline_.stages; ++s) {
      for (int i = 0; i < per_stage_; ++i) x = Forward(s, i, x);
    }
    // The loss has no stage: it is where its operand is.
    Node* loss = Add("Sub", "loss", {x, data->output(1)}, -1);
    Value gradient = loss->output(0);
    while (!layers_.empty()) gradient = Backward(&gradient);
    for (const Update& u : updates_) {
      Add("weft.SgdUpdate", "", {u.variable, u.gradient, lr_}, -1);
    }
    Node* sum = Accumulate(loss->output(0), "loss");
    Add("weft.Output", "out", {sum->output(0)}, -1, {{"name", "out"}});
    return std::move(graph_);
  }

 private:
  struct Layer {
    int stage;
    Value input, variable, output;
  };
  struct Update {
    Value variable, gradient;
  };

  int Below(int n) {
    if (state_ == 0) return n - 1;  // nothing special
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state_ >> 33) % static_cast<uint64_t>(n));
  }

  Node* Add(const std::string& op, const std::string& name,
            const std::vector<Value>& inputs, int stage, AttrMap attrs = {},
            int outputs = -1) {
    auto node = graph_.Add(op, name, inputs, std::move(attrs), outputs);
    EXPECT_TRUE(node.ok()) << node.status();
    (*node)->stage = stage;
    if (stage >= 0) {
      (*node)->device = absl::StrCat("w", pipeline_.RankOf(stage));
    }
    return *node;
  }

  Node* Accumulate(Value v, const std::string& name) {
    return Add("weft.Accumulate", absl::StrCat(name, "/sum"), {v},
               graph_.node(v)->stage, {{"count", pipeline_.micro_batches}});
  }

  Value Forward(int stage, int i, Value x) {
    const std::string name = absl::StrCat("f", stage, ".", i);
    Node* variable = Add(
        "weft.Variable", absl::StrCat(name, "/weight"), {}, stage,
        {{"dtype", DType::kF32}, {"shape", std::vector<int64_t>(2, width_)}});
    Node* y = Add("MatMul", name, {x, variable->output(0)}, stage);
    Value out = y->output(0);
    if (!layers_.empty() && Below(4) == 0) {
      const Layer& from = layers_[Below(static_cast<int>(layers_.size()))];
      out = Add("Add", absl::StrCat(name, "/skip"), {out, from.output}, stage)
                ->output(0);
    }
    if (!layers_.empty() && Below(6) == 0) {
      const Layer& from = layers_[Below(static_cast<int>(layers_.size()))];
      if (from.output.node != out.node) {
        graph_.AddControlInput(out.node, from.output.node);
      }
    }
    layers_.push_back({stage, x, variable->output(0), out});
    return out;
  }

  Value Backward(const Value* gradient) {
    const Layer layer = layers_.back();
    layers_.pop_back();
    const int stage = 2 * pipeline_.stages - 1 - layer.stage;
    const std::string name = graph_.node(layer.output)->name();
    Value kept = layer.output;
    if (Below(4) == 0) {
      Node* again = Add("Neg", absl::StrCat(name, "/again"), {kept}, stage);
      graph_.AddControlInput(again->id(), gradient->node);
      kept = again->output(0);
    }
    Value g = Add("Mul", absl::StrCat(name, "/grad"), {*gradient, kept}, stage)
                  ->output(0);
    Value dw = Add("MatMul", absl::StrCat(name, "/grad/weight"),
                   {g, layer.input}, Below(5) == 0 ? -1 : stage)
                   ->output(0);
    updates_.push_back(
        {layer.variable,
         Accumulate(dw, absl::StrCat(name, "/grad/weight"))->output(0)});
    return Add("MatMul", absl::StrCat(name, "/grad/input"), {g, layer.variable},
               stage)
        ->output(0);
  }

  const PipelineSpec pipeline_;
  const int per_stage_;
  uint64_t state_;
  const int64_t width_;
  Graph graph_{"chain"};
  Value lr_;
  std::vector<Layer> layers_;
  std::vector<Update> updates_;
};

// On the host, or on a device that works later and has its own memory.
absl::StatusOr<JobPlans> Pipelined(const Graph& graph,
                                   const PipelineSpec& pipeline,
                                   bool on_device = false) {
  absl::StatusOr<RankAssignment> where = AssignRanks(graph, pipeline);
  if (!where.ok()) return where.status();
  FakeOracle oracle;
  CompileOptions options;
  options.devices = {HostDevice()};
  if (on_device) {
    options.devices.push_back(PrivateDevice("sim:0"));
    options.default_device = "sim:0";
    oracle.AllowAll(1);
  }
  return CompileJob(graph, options, *where, oracle);
}

// What the launch order of a rank says: phases of micro-batches, repetitions
// left out.
std::string OrderOf(const plan::Plan& plan, const PipelineSpec& spec) {
  std::vector<std::string> out;
  for (const plan::Stream& stream : plan.streams()) {
    if (!stream.ordered()) continue;
    std::map<uint32_t, int> acts;
    for (uint32_t t : stream.order()) {
      const plan::Task& task = plan.tasks(static_cast<int>(t));
      if (task.phase() == 0) continue;
      const PhaseAct act = {static_cast<int>(task.phase()) - 1, acts[t]++};
      const std::string text = ToString(spec, act);
      if (out.empty() || out.back() != text) out.push_back(text);
    }
  }
  return absl::StrJoin(out, " ");
}

std::vector<std::string> Orders(const PipelineSpec& spec) {
  Graph graph = ChainGraph(spec, 2, 0).Make();
  auto job = Pipelined(graph, spec);
  EXPECT_TRUE(job.ok()) << job.status();
  std::vector<std::string> out;
  if (!job.ok()) return out;
  for (const plan::Plan& plan : job->plans) out.push_back(OrderOf(plan, spec));
  return out;
}

TEST(PipelinePlanTest, OneForwardOneBack) {
  EXPECT_THAT(
      Orders({PipelineSchedule::k1F1B, 4, 4, 8}),
      ElementsAre("F0.0 F0.1 F0.2 F0.3 B0.0 F0.4 B0.1 F0.5 B0.2 F0.6 B0.3 "
                  "F0.7 B0.4 B0.5 B0.6 B0.7",
                  "F1.0 F1.1 F1.2 B1.0 F1.3 B1.1 F1.4 B1.2 F1.5 B1.3 F1.6 "
                  "B1.4 F1.7 B1.5 B1.6 B1.7",
                  "F2.0 F2.1 B2.0 F2.2 B2.1 F2.3 B2.2 F2.4 B2.3 F2.5 B2.4 "
                  "F2.6 B2.5 F2.7 B2.6 B2.7",
                  "F3.0 B3.0 F3.1 B3.1 F3.2 B3.2 F3.3 B3.3 F3.4 B3.4 F3.5 "
                  "B3.5 F3.6 B3.6 F3.7 B3.7"));
}

TEST(PipelinePlanTest, Gpipe) {
  EXPECT_THAT(Orders({PipelineSchedule::kGpipe, 4, 4, 8}),
              ElementsAre("F0.0 F0.1 F0.2 F0.3 F0.4 F0.5 F0.6 F0.7 "
                          "B0.0 B0.1 B0.2 B0.3 B0.4 B0.5 B0.6 B0.7",
                          "F1.0 F1.1 F1.2 F1.3 F1.4 F1.5 F1.6 F1.7 "
                          "B1.0 B1.1 B1.2 B1.3 B1.4 B1.5 B1.6 B1.7",
                          "F2.0 F2.1 F2.2 F2.3 F2.4 F2.5 F2.6 F2.7 "
                          "B2.0 B2.1 B2.2 B2.3 B2.4 B2.5 B2.6 B2.7",
                          "F3.0 F3.1 F3.2 F3.3 F3.4 F3.5 F3.6 F3.7 "
                          "B3.0 B3.1 B3.2 B3.3 B3.4 B3.5 B3.6 B3.7"));
}

TEST(PipelinePlanTest, Interleaved) {
  EXPECT_THAT(
      Orders({PipelineSchedule::kInterleaved, 4, 2, 8}),
      ElementsAre("F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 B0.1 "
                  "F0.4 B2.2 F0.5 B2.3 F2.4 B0.2 F2.5 B0.3 F0.6 B2.4 F0.7 B2.5 "
                  "F2.6 B0.4 F2.7 B0.5 B2.6 B2.7 B0.6 B0.7",
                  "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 B3.2 "
                  "F3.3 B3.3 F1.4 B1.2 F1.5 B1.3 F3.4 B3.4 F3.5 B3.5 F1.6 B1.4 "
                  "F1.7 B1.5 F3.6 B3.6 F3.7 B3.7 B1.6 B1.7"));
}

// Copies of the register that has value `name`.
uint32_t CopiesOf(const plan::Plan& plan, const std::string& name) {
  for (const plan::Register& reg : plan.registers()) {
    for (const plan::TensorDesc& tensor : reg.tensors()) {
      if (tensor.value() == name) return reg.copies();
    }
  }
  ADD_FAILURE() << name << " has no register in " << plan::PrintPlan(plan);
  return 0;
}

TEST(PipelinePlanTest, CopiesAreTheMicroBatchesInFlight) {
  constexpr int kStages = 4;
  for (int micro_batches : {4, 8, 16}) {
    for (auto schedule : {PipelineSchedule::kGpipe, PipelineSchedule::k1F1B}) {
      const PipelineSpec spec = {schedule, kStages, kStages, micro_batches};
      // Too large for more of them to be under way than must.
      auto job = Pipelined(ChainGraph(spec, 2, 0, 128).Make(), spec);
      ASSERT_TRUE(job.ok()) << job.status();
      const bool gpipe = schedule == PipelineSchedule::kGpipe;
      for (int s = 0; s < kStages; ++s) {
        SCOPED_TRACE(absl::StrCat(Name(schedule), " ", micro_batches, " ", s));
        // Made here and read again on the way back.
        EXPECT_EQ(CopiesOf(job->plans[s], absl::StrCat("f", s, ".0")),
                  static_cast<uint32_t>(gpipe ? micro_batches : kStages - s));
        // Read here and there: one more may be on its way.
        if (s == 0) continue;
        const uint32_t received =
            CopiesOf(job->plans[s],
                     absl::StrCat("f", s - 1, ".1/from_rank_", s - 1, "/post"));
        const int most = gpipe ? micro_batches : kStages - s + 1;
        EXPECT_LE(received, static_cast<uint32_t>(most));
        EXPECT_GE(received, static_cast<uint32_t>(kStages - s));
      }
    }
  }
}

// A job whose order is by micro-batch keeps nothing longer.
TEST(PipelinePlanTest, WithoutAPipelineThereIsOneCopy) {
  const PipelineSpec spec = {PipelineSchedule::k1F1B, 4, 4, 8};
  Graph graph = ChainGraph(spec, 2, 0).Make();
  auto where = AssignRanks(graph, 4, 8);
  ASSERT_TRUE(where.ok()) << where.status();
  FakeOracle oracle;
  CompileOptions options;
  options.devices = {HostDevice()};
  auto job = CompileJob(graph, options, *where, oracle);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(CopiesOf(job->plans[0], "f0.0"), 1u);
  EXPECT_FALSE(job->plans[0].has_pipeline());
}

TEST(PipelinePlanTest, ThePlanSaysItsOrder) {
  const PipelineSpec spec = {PipelineSchedule::k1F1B, 2, 2, 4};
  auto job = Pipelined(ChainGraph(spec, 1, 0).Make(), spec);
  ASSERT_TRUE(job.ok()) << job.status();
  const std::string text = plan::PrintPlan(job->plans[0]);
  EXPECT_THAT(text, HasSubstr("pipeline 1f1b, 2 stages: F0.0 F0.1 B0.0 F0.2 "
                              "B0.1 F0.3 B0.2 B0.3\n"));
  EXPECT_THAT(text, HasSubstr("task f0.0 [t"));
  EXPECT_THAT(text, HasSubstr(", phase F0"));
}

// Hand-placed work that comes back to a rank before its turn.
TEST(PipelinePlanTest, WhatCannotFlowIsNamed) {
  auto graph = ParseGraph(R"(graph "g" {
    %x = weft.DataSource() {source: "x", dtypes: [1], ranks: [1], dims: [8]}
    %a = Neg(%x) device("w0") stage(0)
    %b = Neg(%a) device("w1") stage(1)
    %c = Neg(%b) device("w0") stage(3)
    %d = Neg(%c) device("w1") stage(2)
    %s = weft.Accumulate(%d) {count: 4}
    %o = weft.Output(%s) {name: "d"}
  })");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const absl::Status status =
      AssignRanks(*graph, {PipelineSchedule::k1F1B, 2, 2, 4}).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kBadJob)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the pipeline cannot flow: 'd' is on rank 1 and comes "
                        "after 'c', which is backward work of stage 0 on rank "
                        "0"));
}

// Any chain, stages, micro-batches and schedule: the whole job is proved, and
// the ranks together compute what the whole does.
class RandomPipelineTest : public ::testing::TestWithParam<int> {};

TEST_P(RandomPipelineTest, RanksTogetherComputeWhatTheWholeDoes) {
  constexpr uint64_t kGraphs = 40;
  const int ranks = GetParam();
  int controls = 0;
  for (uint64_t seed = 1; seed <= kGraphs; ++seed) {
    const auto schedule = static_cast<PipelineSchedule>(seed % 3);
    const bool several = schedule == PipelineSchedule::kInterleaved ||
                         (schedule == PipelineSchedule::kGpipe && seed % 2);
    const int chunks = several ? 2 + static_cast<int>(seed % 2) : 1;
    const PipelineSpec spec = {schedule, ranks * chunks, ranks,
                               ranks + static_cast<int>(seed % 7)};
    SCOPED_TRACE(absl::StrCat(seed, ": ", Name(schedule), ", ", spec.stages,
                              " stages, ", spec.micro_batches));
    Graph graph =
        ChainGraph(spec, 1 + static_cast<int>(seed % 2), seed * 7919).Make();
    auto wanted = EvaluateGraph(graph, spec.micro_batches, kPeriods);
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    auto job = Pipelined(graph, spec, /*on_device=*/seed % 4 == 0);
    ASSERT_TRUE(job.ok()) << job.status() << "\n" << PrintGraph(graph);
    auto got = RunPlan(job->joined, kPeriods, seed);
    ASSERT_TRUE(got.ok()) << got.status() << "\n" << PrintGraph(graph);
    for (const auto& [name, symbols] : *wanted) {
      ASSERT_EQ((*got)[name], symbols) << name;
    }
    for (const plan::Plan& plan : job->plans) {
      for (const plan::Channel& channel : plan.channels()) {
        controls += channel.tensor().dtype() == 0 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(controls, 0);
}

INSTANTIATE_TEST_SUITE_P(Ranks, RandomPipelineTest,
                         ::testing::Values(2, 3, 4, 5));

}  // namespace
}  // namespace weft
