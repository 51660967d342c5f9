#include "compiler/sharding/norms.h"

#include <string>
#include <utility>
#include <vector>

#include "compiler/sharding/lower.h"
#include "compiler/sharding/sharding.h"
#include "core/base/status_macros.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"
#include "core/reference/gradient_check.h"
#include "core/reference/job_interpreter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::UnorderedElementsAre;

constexpr int kMicroBatches = 8;
const Shape kSample({30, 40});

// The norm of two sums of 1200 elements and of one of 40.
Graph Sample() {
  return ParseGraph(R"(graph "g" {
%x = weft.Input() {dtype: f32, shape: [30, 40]}
%a = Mul(%x, %x)
%b = Neg(%x)
%c = ReduceSum(%x) {axes: [0], keepdims: 0}
%suma = weft.Accumulate(%a) {count: 8}
%sumb = weft.Accumulate(%b) {count: 8}
%sumc = weft.Accumulate(%c) {count: 8}
%norm = weft.GlobalNorm(%suma, %sumb, %sumc)
%o = weft.Output(%norm) {name: "norm"}
%p = weft.Output(%suma) {name: "a"}
%q = weft.Output(%sumb) {name: "b"}
})")
      .value();
}

struct Job {
  int ranks = 2;
  bool splits = true;   // norms
  bool mapped = false;  // ranks sum in place
  int64_t bundle_bytes = 2048;
};

absl::StatusOr<Graph> GraphOfRank(const Job& job, int rank) {
  Graph graph = Sample();
  if (job.splits) {
    WEFT_RETURN_IF_ERROR(SplitNorms(&graph, job.ranks, job.bundle_bytes));
  }
  ShardingSpec spec;
  WEFT_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Create({{"data", job.ranks}}));
  spec.meshes = {mesh};
  spec.shares_micro_batches = true;
  spec.micro_batches = kMicroBatches;
  spec.topology.mapped_bytes = job.mapped ? 1 : 0;
  WEFT_ASSIGN_OR_RETURN(const Sharding sharding, ChooseSharding(graph, spec));
  LoweringOptions options;
  options.member = rank;
  options.algorithm = CollectiveAlgorithm::kThreeStage;
  options.bundle_bytes = job.bundle_bytes;
  WEFT_ASSIGN_OR_RETURN(graph, LowerSharding(graph, spec, sharding, options));
  WEFT_RETURN_IF_ERROR(VerifyGraph(graph));
  return graph;
}

struct Result {
  std::vector<Graph> graphs;
  double norm = 0;
};

// All ranks have the same norm.
Result TakeNorm(const Job& job) {
  Result out;
  const int here = kMicroBatches / job.ranks;
  std::vector<RankProgram> programs(job.ranks);
  for (int rank = 0; rank < job.ranks; ++rank) {
    out.graphs.push_back(GraphOfRank(job, rank).value());
    for (int m = 0; m < here; ++m) {
      const Literal x = RandomLiteral(kSample, 1 + rank * here + m);
      programs[rank].micro_feeds.push_back(
          {{"x",
            {Literal::FromDoubles({DType::kF32, kSample}, x.ToDoubles())}}});
    }
  }
  for (int r = 0; r < job.ranks; ++r) programs[r].graph = &out.graphs[r];
  const auto results = InterpretJob(programs, JobOrder::kInOrder).value();
  const auto norm_of = [](const InterpretResult& r) {
    return r.outputs.at("norm")[0].data<float>()[0];
  };
  out.norm = norm_of(results[0]);
  for (const InterpretResult& r : results) EXPECT_EQ(norm_of(r), out.norm);
  return out;
}

// Of the graph's sums of squares, the numbers of parts.
std::vector<int64_t> PartsOf(const Graph& graph) {
  std::vector<int64_t> out;
  for (const Node* node : graph.Nodes()) {
    if (!node->Is(OpId::kSumOfSquares)) continue;
    out.push_back(graph.View(*node).Int("parts"));
  }
  return out;
}

int Count(const Graph& graph, OpId op, const std::string& flag = "") {
  int count = 0;
  for (const Node* node : graph.Nodes()) {
    if (!node->Is(op)) continue;
    count += flag.empty() || graph.View(*node).Int(flag) != 0 ? 1 : 0;
  }
  return count;
}

int CountOfName(const Graph& graph, const std::string& part) {
  int count = 0;
  for (const Node* node : graph.Nodes()) {
    count += node->name().find(part) != std::string::npos ? 1 : 0;
  }
  return count;
}

TEST(SplitNormsTest, EachRankTakesItsOwnPartOfWhatItReduces) {
  for (int ranks : {2, 4, 8}) {
    SCOPED_TRACE(ranks);
    const Result whole = TakeNorm({ranks, /*splits=*/false, /*mapped=*/true});
    EXPECT_GT(whole.norm, 1);
    EXPECT_EQ(Count(whole.graphs[0], OpId::kGlobalNorm), 1);
    EXPECT_EQ(Count(whole.graphs[0], OpId::kReduceToAll, "squares"), 0);
    const Result own = TakeNorm({ranks, /*splits=*/true, /*mapped=*/true});
    EXPECT_NEAR(own.norm, whole.norm, 1e-6 * whole.norm);
    for (const Graph& graph : own.graphs) {
      EXPECT_EQ(Count(graph, OpId::kGlobalNorm), 0);
      EXPECT_EQ(Count(graph, OpId::kReduceToAll, "squares"), 2);
      EXPECT_THAT(PartsOf(graph), UnorderedElementsAre(1));  // the small sum
    }
    // What is sent is squared by all, with the same bits.
    const Result sent = TakeNorm({ranks, /*splits=*/true, /*mapped=*/false});
    EXPECT_EQ(sent.norm, own.norm);
    for (const Graph& graph : sent.graphs) {
      EXPECT_THAT(PartsOf(graph), UnorderedElementsAre(1, ranks));
      EXPECT_EQ(Count(graph, OpId::kReduceToAll), 0);
    }
  }
}

TEST(SplitNormsTest, NormsOfWhatTravelsTogetherStayWhole) {
  const Job bundled = {/*ranks=*/2, /*splits=*/true, /*mapped=*/true,
                       /*bundle_bytes=*/1 << 20};
  EXPECT_EQ(Count(TakeNorm(bundled).graphs[1], OpId::kGlobalNorm), 1);
  EXPECT_EQ(Count(TakeNorm({/*ranks=*/1}).graphs[0], OpId::kGlobalNorm), 1);
}

// A sum may have less than the line with which a block begins.
TEST(SplitNormsTest, BlocksAreNoLargerThanSums) {
  const Result whole = TakeNorm({/*ranks=*/8, /*splits=*/false});
  for (bool mapped : {false, true}) {
    const Result all = TakeNorm({/*ranks=*/8, /*splits=*/true, mapped,
                                 /*bundle_bytes=*/0});
    EXPECT_NEAR(all.norm, whole.norm, 1e-6 * whole.norm);
    EXPECT_EQ(Count(all.graphs[0], OpId::kGlobalNorm), 0);
    // Of 40 elements no member has a block, so all do all parts, and nothing
    // is left of parts of their own.
    EXPECT_THAT(PartsOf(all.graphs[0]), UnorderedElementsAre(8));
    EXPECT_EQ(CountOfName(all.graphs[0], "/own"), 0);
  }
}

TEST(DecomposeNormsTest, EachOperandHasASumOfItsOwn) {
  Graph graph = Sample();
  ASSERT_TRUE(DecomposeNorms(&graph).ok());
  ASSERT_TRUE(VerifyGraph(graph).ok());
  EXPECT_EQ(Count(graph, OpId::kGlobalNorm), 0);
  EXPECT_THAT(PartsOf(graph), UnorderedElementsAre(1, 1, 1));
}

}  // namespace
}  // namespace weft
