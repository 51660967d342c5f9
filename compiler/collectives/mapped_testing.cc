#include "compiler/collectives/mapped_testing.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/testing/fake_oracle.h"
#include "compiler/testing/symbolic_run.h"
#include "core/ops/expr.h"
#include "core/ops/system_attrs.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Algorithm = CollectiveAlgorithm;
using Kind = CollectiveKind;

// x * 2 + 1, through the collective, times 0.25.
Graph MakeRank(const Collective& c, const TensorType& type, HowOften rate,
               bool also_read) {
  Graph graph(absl::StrCat("rank", c.rank));
  const bool micro = rate == HowOften::kMicro;
  auto x =
      micro ? graph.Add("weft.DataSource", "x", {},
                        DataSourceAttrs(absl::StrCat("x", c.rank), {type}), 1)
            : graph.Add("weft.Variable", absl::StrCat("x", c.rank), {},
                        VariableAttrs(type, VariableInit::Zeros()));
  EXPECT_TRUE(x.ok()) << x.status();
  GraphEmitter emit(&graph, "t", "test");
  const Expr y = Expr(emit, (*x)->output(0)) * 2.0 + 1.0;
  const bool gives = c.kind != Kind::kBroadcast && c.kind != Kind::kScatter;
  const bool root = c.ranks[c.root] == c.rank;
  auto result =
      AddCollective(&graph, c, gives || root ? Value(y) : Value(), type);
  EXPECT_TRUE(result.ok()) << result.status();
  Expr z = y;
  if (result->valid()) z = Expr(emit, *result) * 0.25;
  if (also_read) z = z + y * 0.5;
  emit.Emit("weft.Output", {z}, {{"name", absl::StrCat("y", c.rank)}}, 0);
  EXPECT_TRUE(emit.status().ok()) << emit.status();
  return graph;
}

}  // namespace

Case InPlaceCase(int ranks, HowOften rate, bool also_read) {
  return {Kind::kAllReduce, ranks, rate, 20 * ranks * ranks + 1, also_read};
}

std::vector<Graph> MakeGraphs(const Case& at, Algorithm algorithm,
                              int64_t mapped_bytes) {
  Collective c;
  c.kind = at.kind;
  c.algorithm = algorithm;
  c.name = "sum";
  c.rate = at.rate == HowOften::kStep ? "step" : "micro";
  c.root = at.ranks / 2;
  c.topology.mapped_bytes = mapped_bytes;
  for (int p = 0; p < at.ranks; ++p) c.ranks.push_back(p);
  std::vector<Graph> graphs;
  for (c.rank = 0; c.rank < at.ranks; ++c.rank) {
    const int64_t elements = at.elements == 0 ? at.ranks * 6 : at.elements;
    graphs.push_back(
        MakeRank(c, {DType::kF32, {elements}}, at.rate, at.also_read));
  }
  return graphs;
}

JobPlans MustCompile(const Case& at, const std::vector<Graph>& graphs) {
  CompileOptions options;
  options.devices = {HostDevice()};
  options.micro_batches = at.rate == HowOften::kStep ? 1 : kMicroBatches;
  FakeOracle oracle;
  auto job = CompileGraphs(graphs, options, oracle);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? *std::move(job) : JobPlans();
}

JobPlans MustCompile(const Case& at, Algorithm algorithm,
                     int64_t mapped_bytes) {
  return MustCompile(at, MakeGraphs(at, algorithm, mapped_bytes));
}

std::vector<Graph> Sent(std::vector<Graph> graphs) {
  for (Graph& graph : graphs) {
    for (const Node* node : std::as_const(graph).Nodes()) {
      if (!node->Is(OpId::kSend) && !node->Is(OpId::kRecv)) continue;
      EXPECT_TRUE(graph.SetAttr(node->id(), "mapped", 0).ok());
      EXPECT_TRUE(graph.SetAttr(node->id(), "lent", 0).ok());
      EXPECT_TRUE(graph.SetAttr(node->id(), "lands", "").ok());
    }
  }
  return graphs;
}

int Mapped(const plan::Plan& plan) {
  int mapped = 0;
  for (const plan::Channel& channel : plan.channels()) {
    mapped += channel.read() != 0;
  }
  return mapped;
}

void ExpectSame(const plan::Plan& mapped, const plan::Plan& sent,
                uint64_t timings) {
  const auto expected = RunPlan(sent, kPeriods, 1);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (uint64_t seed = 1; seed <= timings; ++seed) {
    const auto got = RunPlan(mapped, kPeriods, seed);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(*got, *expected) << seed;
  }
}

int FindTask(const plan::Plan& plan, plan::Task::Kind kind, bool mapped) {
  for (int t = 0; t < plan.tasks_size(); ++t) {
    const plan::Task& task = plan.tasks(t);
    if (task.kind() != kind) continue;
    const bool is = plan.channels(task.channel() - 1).read() != 0;
    if (is == mapped) return t;
  }
  ADD_FAILURE() << "no such task";
  return 0;
}

}  // namespace weft
