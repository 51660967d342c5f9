// Boxings in a program: passes keep what they give, and the plans of all ranks
// are proved as one, with values of the step and of micro-batches.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/boxing/between.h"
#include "compiler/boxing/testing.h"
#include "compiler/pass/registry.h"
#include "compiler/testing/fake_oracle.h"
#include "compiler/testing/job_plans.h"
#include "core/ops/expr.h"
#include "core/ops/system_attrs.h"
#include "core/reference/job_interpreter.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

constexpr int kMicroBatches = 2;

// "x", of micro-batches or of the step.
Value SourceOf(Graph* graph, const TensorType& type, bool micro) {
  auto node = micro ? graph->Add("weft.DataSource", "x", {},
                                 DataSourceAttrs("x", {type}), 1)
                    : graph->Add("weft.Variable", "x", {},
                                 VariableAttrs(type, VariableInit::Zeros()));
  EXPECT_TRUE(node.ok()) << node.status();
  return (*node)->output(0);
}

class PlansTest : public testing::TestWithParam<std::vector<int>> {
 protected:
  PlansTest() : random_(17), costs_(MakeMesh()) {}

  static Mesh MakeMesh() {
    std::vector<MeshAxis> axes;
    for (int size : GetParam()) {
      axes.push_back({absl::StrCat("a", axes.size()), size});
    }
    auto mesh = Mesh::Create(axes);
    EXPECT_TRUE(mesh.ok()) << mesh.status();
    return *std::move(mesh);
  }

  NdSbp Pick() {
    const Sbp ways[] = {Sbp::Broadcast(), Sbp::Split(0),
                        Sbp::Split(1),    Sbp::Split(1, 2),
                        Sbp::Partial(),   Sbp::Partial(ReduceOp::kMax)};
    NdSbp sbp;
    for (int axis = 0; axis < costs_.mesh().num_axes(); ++axis) {
      sbp.push_back(ways[random_.Below(6)]);
    }
    return sbp;
  }

  // One rank: x * 2 + 1, boxed, times 0.25, boxed. All is exact.
  Graph MakeRank(int rank, const std::vector<NdSbp>& layouts, bool micro) {
    const TensorType whole = {DType::kF32, {12, 24}};
    const Shape local = *LocalShape(whole.shape, layouts[0], costs_.mesh());
    Graph graph(absl::StrCat("rank", rank));
    const Value x = SourceOf(&graph, {whole.dtype, local}, micro);
    GraphEmitter emit(&graph, "t", "test");
    Expr y = Expr(emit, x) * 2.0 + 1.0;
    for (size_t i = 0; i + 1 < layouts.size(); ++i) {
      Boxing b;
      b.costs = &costs_;
      b.rank = rank;
      b.from = layouts[i];
      b.to = layouts[i + 1];
      b.name = absl::StrCat("box", i);
      b.rate = micro ? "micro" : "step";
      b.after = {graph.id_bound() - 1};
      auto boxed = AddBoxing(&graph, b, y, whole);
      EXPECT_TRUE(boxed.ok()) << boxed.status();
      y = Expr(emit, *boxed) * 0.25;
    }
    emit.Emit("weft.Output", {y}, {{"name", "y"}}, 0);
    if (micro) {
      const Expr sum =
          Apply("weft.Accumulate", {y}, {{"count", kMicroBatches}});
      emit.Emit("weft.Output", {sum}, {{"name", "sum"}}, 0);
    }
    EXPECT_TRUE(emit.status().ok()) << emit.status();
    return graph;
  }

  std::vector<InterpretResult> Results(const std::vector<Graph>& graphs,
                                       bool micro) {
    std::vector<RankProgram> job(graphs.size());
    LayoutRandom random(3);
    for (size_t rank = 0; rank < graphs.size(); ++rank) {
      job[rank].graph = &graphs[rank];
      const Node* x = graphs[rank].FindNode("x");
      for (int batch = 0; batch < (micro ? kMicroBatches : 1); ++batch) {
        Feeds feeds;
        feeds["x"] = {random.Value(x->output_type(0))};
        if (micro) {
          job[rank].micro_feeds.push_back(std::move(feeds));
        } else {
          job[rank].feeds = std::move(feeds);
        }
      }
    }
    auto results = InterpretJob(job, JobOrder::kInOrder);
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? *std::move(results)
                        : std::vector<InterpretResult>(graphs.size());
  }

  LayoutRandom random_;
  BoxingCosts costs_;
};

TEST_P(PlansTest, AreKeptByPassesAndProved) {
  for (int i = 0; i < 24; ++i) {
    const bool micro = i % 2 == 1;
    const std::vector<NdSbp> layouts = {Pick(), Pick(), Pick()};
    SCOPED_TRACE(absl::StrCat(ToString(layouts[0]), ToString(layouts[1]),
                              ToString(layouts[2])));
    std::vector<Graph> graphs;
    for (int rank = 0; rank < costs_.mesh().size(); ++rank) {
      graphs.push_back(MakeRank(rank, layouts, micro));
    }
    const std::vector<InterpretResult> before = Results(graphs, micro);
    auto pipeline = MakeNamedPipeline("default");
    ASSERT_TRUE(pipeline.ok());
    for (Graph& graph : graphs) {
      PassContext context;
      auto changed = pipeline->Run(graph, context);
      ASSERT_TRUE(changed.ok()) << changed.status();
    }
    const std::vector<InterpretResult> after = Results(graphs, micro);
    for (size_t rank = 0; rank < graphs.size(); ++rank) {
      EXPECT_TRUE(before[rank].outputs == after[rank].outputs) << rank;
    }
    CompileOptions options;
    options.devices = {HostDevice()};
    options.micro_batches = micro ? kMicroBatches : 1;
    FakeOracle oracle;
    auto job = CompileGraphs(graphs, options, oracle);
    ASSERT_TRUE(job.ok()) << job.status();
  }
}

// From stage to stage of a pipeline, and between meshes that share ranks.
TEST(MeshPlansTest, AreProved) {
  LayoutRandom random(5);
  const std::vector<std::vector<int>> second = {
      {4, 5, 6}, {2, 4, 1}, {3, 2, 1, 0}, {6}};
  for (int i = 0; i < 24; ++i) {
    const bool micro = i % 2 == 1;
    const std::vector<int>& ranks = second[i / 2 % 4];
    BoxingCosts from(*Mesh::Create({{"a", 2}, {"b", 2}}));
    BoxingCosts to(
        *Mesh::Create({{"c", static_cast<int>(ranks.size())}}, ranks));
    const Sbp ways[] = {Sbp::Broadcast(), Sbp::Split(0), Sbp::Split(1, 2),
                        Sbp::Partial()};
    MeshBoxing b;
    b.from_costs = &from;
    b.to_costs = &to;
    b.from = {ways[random.Below(4)], ways[random.Below(4)]};
    b.to = {ways[random.Below(4)]};
    b.name = "x/moved";
    b.rate = micro ? "micro" : "step";
    SCOPED_TRACE(absl::StrCat(ToString(b.from), " to ", ToString(b.to), " on ",
                              to.mesh().ToString()));
    const TensorType whole = {DType::kF32, {24, 24}};
    std::vector<Graph> graphs;
    for (b.rank = 0; b.rank < 7; ++b.rank) {
      Graph& graph = graphs.emplace_back("g");
      GraphEmitter emit(&graph, "t", "test");
      Value x;
      if (b.rank < 4) {
        x = SourceOf(
            &graph,
            {whole.dtype, *LocalShape(whole.shape, b.from, from.mesh())},
            micro);
        x = Expr(emit, x) * 2.0;
      }
      auto y = AddMeshBoxing(&graph, b, x, whole);
      ASSERT_TRUE(y.ok()) << y.status();
      if (y->valid()) {
        emit.Emit("weft.Output", {Expr(emit, *y) * 0.5}, {{"name", "y"}}, 0);
      }
      ASSERT_TRUE(emit.status().ok()) << emit.status();
    }
    CompileOptions options;
    options.devices = {HostDevice()};
    FakeOracle oracle;
    auto job = CompileGraphs(graphs, options, oracle);
    ASSERT_TRUE(job.ok()) << job.status();
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, PlansTest,
                         testing::Values(std::vector<int>{3},
                                         std::vector<int>{2, 2},
                                         std::vector<int>{2, 3}));

}  // namespace
}  // namespace weft
