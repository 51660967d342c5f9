// Data parallelism: a step's micro-batches over ranks have the bits that one
// rank alone computes.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/sharding/lower.h"
#include "compiler/sharding/sharding.h"
#include "compiler/training/training.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"
#include "core/reference/gradient_check.h"
#include "core/reference/interpreter.h"
#include "core/reference/job_interpreter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/model.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using training::BuildInitGraph;
using training::BuildTrainGraph;
using training::TrainingSpec;

struct DataParallelSpec {
  int ranks = 1;
  int rank = 0;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  bool fixed_order = false;
  int64_t chunk_elements = 0;
  int64_t bundle_bytes = int64_t{1} << 20;
  bool first_decides = false;
  std::string split;  // a variable of which this dimension is cut
  int split_dim = 0;
};

// The graph of all micro-batches becomes that of one rank.
absl::Status MakeDataParallel(Graph* graph, const DataParallelSpec& spec) {
  ShardingSpec sharing;
  WEFT_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Create({{"data", spec.ranks}}));
  sharing.meshes = {mesh};
  sharing.shares_micro_batches = true;
  for (const Node* node : std::as_const(*graph).Nodes()) {
    if (!node->Is(OpId::kAccumulate)) continue;
    sharing.micro_batches = static_cast<int>(graph->View(*node).Int("count"));
  }
  if (!spec.split.empty()) {
    const Value v = graph->FindNode(spec.split)->output(0);
    sharing.constraints = {{v, 0, Sbp::Split(spec.split_dim), "test"}};
  }
  WEFT_ASSIGN_OR_RETURN(Sharding sharding, ChooseSharding(*graph, sharing));
  LoweringOptions options;
  options.first_decides = spec.first_decides;
  options.member = spec.rank;
  options.algorithm = spec.algorithm;
  options.fixed_order = spec.fixed_order;
  options.chunk_elements = spec.chunk_elements;
  options.bundle_bytes = spec.bundle_bytes;
  WEFT_ASSIGN_OR_RETURN(*graph,
                        LowerSharding(*graph, sharing, sharding, options));
  return absl::OkStatus();
}

constexpr int64_t kClasses = 3;
constexpr int64_t kMicroBatch = 2;

struct Model {
  std::string name;
  models::ModelArgs args;
  Shape image;
};

std::vector<Model> Models() {
  return {{"mlp", {{"hidden", "5"}, {"dropout", "0.5"}}, Shape({2, 2})},
          {"lenet",
           {{"channels", "2,2"}, {"hidden", "4"}, {"batch_norm", "1"}},
           Shape({12, 12})}};
}

// Training on `micro_batches` micro-batches a step, with state that every step
// changes: parameters, velocities, running statistics.
Graph TrainGraph(const Model& model, int micro_batches) {
  Graph graph = models::BuildModel(model.name, model.args,
                                   {kMicroBatch, model.image, kClasses})
                    .value();
  TrainingSpec spec;
  spec.data = {model.image, kClasses, 0.5, 0.25};
  spec.optimizer.momentum = 0.9;
  spec.optimizer.clip_norm = 0.1;
  spec.optimizer.schedule.base = 0.05;
  spec.micro_batches = micro_batches;
  spec.seed = 11;
  return BuildTrainGraph(graph, spec).value();
}

// Micro-batch `m` of the step.
Feeds MicroFeeds(const Model& model, int m) {
  const int64_t pixels = model.image.num_elements();
  std::vector<int64_t> dims = {kMicroBatch};
  for (int i = 0; i < model.image.rank(); ++i) {
    dims.push_back(model.image.dim(i));
  }
  std::vector<uint8_t> images;
  std::vector<int32_t> labels;
  for (int64_t i = m * kMicroBatch; i < (m + 1) * kMicroBatch; ++i) {
    for (int64_t k = 0; k < pixels; ++k) {
      images.push_back((i * 37 + k * 91 + i * k * 13) % 256);
    }
    labels.push_back(i % kClasses);
  }
  Feeds feeds;
  feeds["data/train"] = {
      Literal::Of<uint8_t>(Shape(dims), images),
      Literal::Of<int32_t>({kMicroBatch}, labels),
      Literal::Of<float>({kMicroBatch}, std::vector<float>(kMicroBatch, 1))};
  return feeds;
}

Feeds InitialState(const Graph& train) {
  Graph init = BuildInitGraph(train, 3).value();
  Feeds feeds, state;
  for (const Node* node : init.Nodes()) {
    if (node->Is(OpId::kVariable)) {
      feeds[node->name()] = {Literal::Splat(node->output_type(0), 777)};
    }
  }
  absl::StatusOr<InterpretResult> result = Interpret(init, feeds);
  EXPECT_TRUE(result.ok()) << result.status();
  for (auto& [name, value] : result->variables) state[name] = {value};
  return state;
}

// What each of `spec.ranks` ranks has after a step of `micro_batches` in all.
std::vector<InterpretResult> StepOfRanks(const Model& model, int micro_batches,
                                         DataParallelSpec spec) {
  std::vector<Graph> graphs;
  std::vector<RankProgram> job(spec.ranks);
  for (int rank = 0; rank < spec.ranks; ++rank) {
    graphs.push_back(TrainGraph(model, micro_batches));
    spec.rank = rank;
    absl::Status status = MakeDataParallel(&graphs.back(), spec);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(VerifyGraph(graphs.back()).ok()) << VerifyGraph(graphs.back());
  }
  const int here = micro_batches / spec.ranks;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    job[rank].graph = &graphs[rank];
    job[rank].feeds = InitialState(graphs[rank]);
    for (int m = 0; m < here; ++m) {
      job[rank].micro_feeds.push_back(MicroFeeds(model, rank * here + m));
    }
  }
  absl::StatusOr<std::vector<InterpretResult>> result =
      InterpretJob(job, JobOrder::kInOrder);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : std::vector<InterpretResult>();
}

InterpretResult WholeStep(const Model& model, int micro_batches) {
  const Graph whole = TrainGraph(model, micro_batches);
  std::vector<Feeds> micro;
  for (int m = 0; m < micro_batches; ++m) {
    micro.push_back(MicroFeeds(model, m));
  }
  return Interpret(whole, InitialState(whole), micro).value();
}

// Whether a rank has the same state and metrics, bit for bit.
bool Same(const InterpretResult& a, const InterpretResult& b) {
  return a.variables == b.variables && a.outputs == b.outputs;
}

TEST(DataParallelTest, RanksComputeTheWholeStepBitForBit) {
  for (const Model& model : Models()) {
    SCOPED_TRACE(model.name);
    const InterpretResult whole = WholeStep(model, 4);
    ASSERT_FALSE(whole.variables.empty());
    for (CollectiveAlgorithm algorithm :
         {CollectiveAlgorithm::kAuto, CollectiveAlgorithm::kDirect,
          CollectiveAlgorithm::kThreeStage,
          CollectiveAlgorithm::kHalvingDoubling, CollectiveAlgorithm::kTree}) {
      SCOPED_TRACE(Name(algorithm));
      for (int ranks : {2, 4}) {
        SCOPED_TRACE(ranks);
        DataParallelSpec spec;
        spec.ranks = ranks;
        spec.algorithm = algorithm;
        spec.fixed_order = true;
        const auto results = StepOfRanks(model, 4, spec);
        ASSERT_EQ(results.size(), static_cast<size_t>(ranks));
        for (const InterpretResult& r : results) EXPECT_TRUE(Same(r, whole));
      }
    }
  }
}

// In another order the sums differ in their last bits, and in no more.
TEST(DataParallelTest, TheRingComputesNearlyTheSame) {
  const Model model = Models()[1];
  const InterpretResult whole = WholeStep(model, 4);
  DataParallelSpec spec;
  spec.ranks = 4;
  spec.algorithm = CollectiveAlgorithm::kRing;
  const auto results = StepOfRanks(model, 4, spec);
  ASSERT_EQ(results.size(), 4u);
  for (const InterpretResult& r : results) EXPECT_TRUE(Same(r, results[0]));
  EXPECT_FALSE(Same(results[0], whole));
  for (const auto& [name, value] : whole.variables) {
    const auto x = value.ToDoubles();
    const auto y = results[0].variables.at(name).ToDoubles();
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(x[i], y[i], 1e-5) << name << " " << i;
    }
  }
}

// Otherwise the comparisons above would say nothing.
TEST(DataParallelTest, EveryMicroBatchMatters) {
  const Model model = Models()[0];
  const Graph whole = TrainGraph(model, 4);
  std::vector<Feeds> micro;
  for (int m : {0, 1, 3, 2}) micro.push_back(MicroFeeds(model, m));
  EXPECT_FALSE(Same(Interpret(whole, InitialState(whole), micro).value(),
                    WholeStep(model, 4)));
}

std::map<std::string, int64_t> FirstOfCounters(const Graph& graph) {
  std::map<std::string, int64_t> out;
  for (const Node* node : graph.Nodes()) {
    if (!node->Is(OpId::kCounter)) continue;
    out[graph.View(*node).String("rate")] = graph.View(*node).Int("first");
  }
  return out;
}

TEST(DataParallelTest, CountersOfMicroBatchesCountFromTheRanksFirst) {
  for (int rank = 0; rank < 2; ++rank) {
    Graph graph = TrainGraph(Models()[0], 8);
    // The optimizer's learning rate counts steps.
    EXPECT_EQ(FirstOfCounters(graph),
              (std::map<std::string, int64_t>{{"micro", 0}, {"step", 0}}));
    DataParallelSpec spec;
    spec.ranks = 2;
    spec.rank = rank;
    ASSERT_TRUE(MakeDataParallel(&graph, spec).ok());
    EXPECT_EQ(FirstOfCounters(graph), (std::map<std::string, int64_t>{
                                          {"micro", rank * 4}, {"step", 0}}));
  }
}

int NumSums(const Graph& graph, int64_t count) {
  int n = 0;
  for (const Node* node : graph.Nodes()) {
    if (!node->Is(OpId::kAccumulate)) continue;
    EXPECT_EQ(graph.View(*node).Int("count"), count) << node->name();
    ++n;
  }
  return n;
}

TEST(DataParallelTest, SumsAreOfTheRanksMicroBatchesAndGoWhereOneIsLeft) {
  DataParallelSpec spec;
  for (int ranks : {1, 2, 4}) {
    SCOPED_TRACE(ranks);
    Graph graph = TrainGraph(Models()[0], 4);
    const int sums = NumSums(graph, 4);
    EXPECT_GT(sums, 3);
    spec.ranks = ranks;
    ASSERT_TRUE(MakeDataParallel(&graph, spec).ok());
    EXPECT_EQ(NumSums(graph, 4 / ranks), ranks == 4 ? 0 : sums);
  }
}

TEST(DataParallelTest, RanksThatDoNotDivideAreRefused) {
  Graph graph = TrainGraph(Models()[0], 4);
  DataParallelSpec spec;
  spec.ranks = 3;
  absl::Status status = MakeDataParallel(&graph, spec);
  EXPECT_TRUE(IsError(status, ErrorCode::kBadValue)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("has 4 micro-batches"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("3 ranks"));
}

TEST(DataParallelTest, ChunksWithoutNumberAreRefused) {
  Graph graph = ParseGraph(R"(graph "g" {
%x = weft.Input() {dtype: f32, shape: [1000]}
%a = weft.Accumulate(%x) {count: 4}
%o = weft.Output(%a) {name: "a"}
})")
                    .value();
  DataParallelSpec spec;
  spec.ranks = 2;
  spec.chunk_elements = 1;
  absl::Status status = MakeDataParallel(&graph, spec);
  EXPECT_TRUE(IsError(status, ErrorCode::kBadValue)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("chunk_elements is 1:"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("at most 256"));
}

TEST(DataParallelTest, ControlEdgesSurvive) {
  const std::string text = R"(graph "g" {
%x = weft.Input() {dtype: f32, shape: [2]}
%n = Neg(%x)
%s = weft.Accumulate(%n) {count: 4}
%v = weft.Variable() {dtype: f32, shape: [2]}
%a = Neg(%v) control(%s)
%b = Abs(%v) control(%s)
%o = weft.Output(%a) {name: "o"}
%p = weft.Output(%b) {name: "p"}
%q = weft.Output(%s) {name: "q"}
})";
  for (const auto& [ranks, before] :
       std::vector<std::pair<int, std::string>>{{2, "s"}, {4, "n"}}) {
    SCOPED_TRACE(ranks);
    Graph graph = ParseGraph(text).value();
    DataParallelSpec spec;
    spec.ranks = ranks;
    ASSERT_TRUE(MakeDataParallel(&graph, spec).ok());
    ASSERT_TRUE(VerifyGraph(graph).ok()) << VerifyGraph(graph);
    int found = 0;
    for (const Node* node : graph.Nodes()) {
      if (node->name() != "a" && node->name() != "b") continue;
      ++found;
      ASSERT_EQ(node->control_inputs().size(), 1u) << node->name();
      EXPECT_EQ(graph.node(node->control_inputs()[0])->name(), before);
    }
    EXPECT_EQ(found, 2);
  }
}

// ---- Devices with other bits

// Every number that this rank computes is a little larger than the reference's,
// as on a device of another kind.
void ComputeWithOtherBits(Graph* graph) {
  for (Node* node : graph->Nodes()) {
    const bool computes = node->Is(OpId::kMul) || node->Is(OpId::kAdd) ||
                          node->Is(OpId::kSub) || node->Is(OpId::kSqrt) ||
                          node->Is(OpId::kMatMul) || node->Is(OpId::kDiv) ||
                          node->Is(OpId::kLearningRate) ||
                          node->Is(OpId::kRandomUniform);
    if (!computes || node->output_type(0).dtype != DType::kF32) continue;
    const Value exact = node->output(0);
    const Value factor =
        graph
            ->Add("Constant", node->name() + "/factor", {},
                  {{"value", Literal::Of<float>({}, {1 + 1e-6f})}})
            .value()
            ->output(0);
    const auto uses = graph->Uses(exact);
    const std::vector<std::pair<int32_t, int>> readers(uses.begin(),
                                                       uses.end());
    Node* other =
        graph->Add("Mul", node->name() + "/other", {exact, factor}).value();
    for (auto [reader, position] : readers) {
      ASSERT_TRUE(graph->SetInput(reader, position, other->output(0)).ok());
    }
  }
}

struct TwoDevices {
  std::vector<Graph> graphs;
  std::vector<Feeds> state;  // by rank
  std::vector<InterpretResult> last;
};

// Steps of two ranks, of which the second has another device.
TwoDevices StepsOfTwoDevices(const Model& model, DataParallelSpec spec,
                             int steps, bool unlike = true) {
  TwoDevices out;
  spec.ranks = 2;
  for (spec.rank = 0; spec.rank < 2; ++spec.rank) {
    out.graphs.push_back(TrainGraph(model, 4));
    absl::Status status = MakeDataParallel(&out.graphs.back(), spec);
    EXPECT_TRUE(status.ok()) << status;
    if (unlike && spec.rank == 1) ComputeWithOtherBits(&out.graphs.back());
    EXPECT_TRUE(VerifyGraph(out.graphs.back()).ok());
    out.state.push_back(InitialState(out.graphs.back()));
  }
  for (int step = 0; step < steps; ++step) {
    std::vector<RankProgram> job(2);
    for (int rank = 0; rank < 2; ++rank) {
      job[rank].graph = &out.graphs[rank];
      job[rank].feeds = out.state[rank];
      for (int m = 0; m < 2; ++m) {
        job[rank].micro_feeds.push_back(MicroFeeds(model, rank * 2 + m));
      }
    }
    // The nodes that make the bits differ have changed the order of that rank.
    auto result =
        InterpretJob(job, unlike ? JobOrder::kReady : JobOrder::kInOrder);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return out;
    out.last = *std::move(result);
    for (int rank = 0; rank < 2; ++rank) {
      for (auto& [name, value] : out.last[rank].variables) {
        out.state[rank][name] = {value};
      }
    }
  }
  return out;
}

TEST(OtherBitsTest, WhatTheFirstDecidesIsEqualOnAllRanks) {
  for (const Model& model : Models()) {
    for (int64_t bundle_bytes : {0, 64, 1 << 20}) {
      SCOPED_TRACE(model.name);
      DataParallelSpec spec;
      spec.bundle_bytes = bundle_bytes;
      spec.first_decides = true;
      const TwoDevices decided = StepsOfTwoDevices(model, spec, 3);
      ASSERT_EQ(decided.last.size(), 2u);
      EXPECT_EQ(decided.state[0], decided.state[1]);
      EXPECT_EQ(decided.last[0].outputs, decided.last[1].outputs);
      EXPECT_FALSE(decided.last[0].outputs.empty());
      // Without it the ranks go apart, so that the above says something.
      spec.first_decides = false;
      const TwoDevices apart = StepsOfTwoDevices(model, spec, 3);
      EXPECT_NE(apart.state[0], apart.state[1]);
      EXPECT_NE(apart.last[0].outputs, apart.last[1].outputs);
    }
  }
}

// Parts have one owner; what goes with them, as a norm, is decided.
TEST(OtherBitsTest, PartsAreTheirOwnersAndTheRestIsDecided) {
  const Model model = Models()[0];
  DataParallelSpec spec;
  spec.first_decides = true;
  const Graph train = TrainGraph(model, 4);
  for (const Node* node : train.Nodes()) {
    if (!node->Is(OpId::kVariable)) continue;
    const Shape& shape = node->output_type(0).shape;
    for (int d = 0; d < shape.rank() && spec.split.empty(); ++d) {
      if (shape.dim(d) % 2 != 0) continue;
      spec.split = node->name();
      spec.split_dim = d;
    }
  }
  ASSERT_FALSE(spec.split.empty());
  const TwoDevices job = StepsOfTwoDevices(model, spec, 3);
  ASSERT_EQ(job.last.size(), 2u);
  int whole = 0, parts = 0;
  for (const auto& [name, value] : job.state[0]) {
    const bool part = name.find(spec.split) == 0;
    part ? ++parts : ++whole;
    if (!part) {
      EXPECT_EQ(value, job.state[1].at(name)) << name;
    }
  }
  EXPECT_GT(whole, 2);
  EXPECT_GE(parts, 2);  // with its velocity
  EXPECT_EQ(job.last[0].outputs, job.last[1].outputs);
}

// No rank waits for another in the wrong order. (A new value is computed step
// by step where an update op does it at once: not the bits of one rank.)
TEST(OtherBitsTest, AlikeRanksAgreeInOrder) {
  for (const Model& model : Models()) {
    DataParallelSpec spec;
    spec.fixed_order = true;
    spec.first_decides = true;
    const TwoDevices job = StepsOfTwoDevices(model, spec, 1, /*unlike=*/false);
    ASSERT_EQ(job.last.size(), 2u);
    EXPECT_TRUE(Same(job.last[0], job.last[1]));
    const InterpretResult whole = WholeStep(model, 4);
    ASSERT_EQ(whole.variables.size(), job.last[0].variables.size());
    for (const auto& [name, value] : whole.variables) {
      const auto x = value.ToDoubles();
      const auto y = job.last[0].variables.at(name).ToDoubles();
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_NEAR(x[i], y[i], 1e-6) << name << " " << i;
      }
    }
  }
}

// One rank's losses: other bits, and nearly the same numbers.
TEST(OtherBitsTest, LossesAreNearThoseOfOneDevice) {
  const Model model = Models()[0];
  DataParallelSpec spec;
  spec.first_decides = true;
  const TwoDevices job = StepsOfTwoDevices(model, spec, 1);
  const InterpretResult whole = WholeStep(model, 4);
  ASSERT_EQ(job.last.size(), 2u);
  for (const auto& [name, values] : whole.outputs) {
    EXPECT_NEAR(values[0].ToDoubles()[0],
                job.last[0].outputs.at(name)[0].ToDoubles()[0], 1e-4)
        << name;
  }
}

TEST(OtherBitsTest, WhatWaitsForAnUpdateIsRefused) {
  Graph graph = ParseGraph(R"(graph "g" {
%x = weft.Input() {dtype: f32, shape: [2]}
%n = weft.Accumulate(%x) {count: 4}
%v = weft.Variable() {dtype: f32, shape: [2]}
%up = weft.Assign(%v, %n)
%late = Abs(%n) control(%up)
%o = weft.Output(%late) {name: "o"}
})")
                    .value();
  DataParallelSpec spec;
  spec.ranks = 2;
  spec.first_decides = true;
  absl::Status status = MakeDataParallel(&graph, spec);
  EXPECT_TRUE(IsError(status, ErrorCode::kBadGraph)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("'late'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("'up'"));
}

// ---- Bundles

constexpr int kMicroBatches = 8;

// Sums of several shapes, one of another dtype, and one in a stage of its own.
Graph Sample() {
  auto graph = ParseGraph(R"(graph "g" {
%x = weft.Input() {dtype: f32, shape: [2, 3]}
%a = Mul(%x, %x)
%b = ReduceSum(%x) {keepdims: 0}
%c = ReduceMean(%a) {axes: [0], keepdims: 0}
%d = Cast(%b) {to: f64}
%suma = weft.Accumulate(%a) {count: 8}
%sumb = weft.Accumulate(%b) {count: 8}
%sumc = weft.Accumulate(%c) {count: 8}
%sumd = weft.Accumulate(%d) {count: 8}
%sume = weft.Accumulate(%x) {count: 8}
%both = Add(%suma, %sumc)
%o = weft.Output(%both) {name: "both"}
%p = weft.Output(%sumb) {name: "b"}
%q = weft.Output(%sumd) {name: "d"}
%r = weft.Output(%sume) {name: "e"}
})");
  EXPECT_TRUE(graph.ok()) << graph.status();
  graph->FindNode("sume")->stage = 1;
  return *std::move(graph);
}

std::vector<Feeds> Batches(int first, int count) {
  std::vector<Feeds> feeds(count);
  for (int i = 0; i < count; ++i) {
    feeds[i]["x"] = {Literal::FromDoubles(
        {DType::kF32, Shape({2, 3})},
        RandomLiteral(Shape({2, 3}), 1 + first + i).ToDoubles())};
  }
  return feeds;
}

int Count(const Graph& graph, OpId op) {
  int count = 0;
  for (const Node* node : graph.Nodes()) count += node->Is(op) ? 1 : 0;
  return count;
}

// The graphs of all ranks, whose results must be those of one.
std::vector<Graph> ExpectSameBits(DataParallelSpec spec) {
  const Graph whole = Sample();
  auto expected = Interpret(whole, {}, Batches(0, kMicroBatches));
  EXPECT_TRUE(expected.ok()) << expected.status();
  const int here = kMicroBatches / spec.ranks;
  std::vector<Graph> graphs;
  std::vector<RankProgram> job;
  for (spec.rank = 0; spec.rank < spec.ranks; ++spec.rank) {
    graphs.push_back(whole.Clone());
    EXPECT_TRUE(MakeDataParallel(&graphs.back(), spec).ok());
    EXPECT_TRUE(VerifyGraph(graphs.back()).ok()) << VerifyGraph(graphs.back());
  }
  for (int r = 0; r < spec.ranks; ++r) {
    job.push_back({&graphs[r], {}, Batches(r * here, here)});
  }
  auto results = InterpretJob(job, JobOrder::kInOrder);
  EXPECT_TRUE(results.ok()) << results.status();
  if (!results.ok()) return graphs;
  for (int r = 0; r < spec.ranks; ++r) {
    EXPECT_TRUE((*results)[r].outputs == expected->outputs) << "rank " << r;
  }
  return graphs;
}

TEST(DataParallelTest, ManyRanksHaveTheBitsOfOne) {
  for (int ranks : {2, 4, 8}) {
    for (int64_t bundle_bytes : {0, 32, 1 << 20}) {
      DataParallelSpec spec;
      spec.ranks = ranks;
      spec.fixed_order = true;
      spec.bundle_bytes = bundle_bytes;
      ExpectSameBits(spec);
    }
  }
}

TEST(DataParallelTest, SmallSumsTravelTogether) {
  DataParallelSpec spec;
  spec.ranks = 2;
  spec.algorithm = CollectiveAlgorithm::kDirect;
  spec.bundle_bytes = 0;
  EXPECT_EQ(Count(ExpectSameBits(spec)[0], OpId::kSend), 5);
  // f32, f64, and the other stage.
  spec.bundle_bytes = 1 << 20;
  EXPECT_EQ(Count(ExpectSameBits(spec)[1], OpId::kSend), 3);
  // 6 elements and 1; 3.
  spec.bundle_bytes = 7 * 4;
  EXPECT_EQ(Count(ExpectSameBits(spec)[0], OpId::kSend), 4);
}

// The order in which the backward pass makes them, not that of parameters: who
// has made the last gradient adds those that the others have had ready.
TEST(DataParallelTest, WhatIsReadyFirstIsSummedFirst) {
  const Model model = Models()[0];
  Graph graph = TrainGraph(model, 2);
  DataParallelSpec spec;
  spec.ranks = 2;
  spec.algorithm = CollectiveAlgorithm::kDirect;
  spec.bundle_bytes = 0;
  ASSERT_TRUE(MakeDataParallel(&graph, spec).ok());
  std::vector<int32_t> made, sent;
  const std::vector<const Node*> order = graph.TopologicalOrder().value();
  for (const Node* node : order) {
    if (!node->Is(OpId::kSend)) continue;
    sent.push_back(node->id());
    const Node* from = graph.node(node->input(0));
    if (from->Is(OpId::kReshape)) from = graph.node(from->input(0));
    made.push_back(from->id());
  }
  EXPECT_EQ(sent.size(), 7u);  // 4 parameters; loss, weight, correct
  EXPECT_TRUE(std::is_sorted(sent.begin(), sent.end()));
  EXPECT_TRUE(std::is_sorted(made.begin(), made.end()));
}

}  // namespace
}  // namespace weft
