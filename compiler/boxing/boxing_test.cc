// Every pair of layouts, on all ranks, against the definition of layouts.
#include "compiler/boxing/boxing.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/boxing/testing.h"
#include "core/base/error.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

constexpr DType kDTypes[] = {DType::kF32, DType::kF64, DType::kI32,
                             DType::kBF16};

Sbp S(int dim, int groups = 1) { return Sbp::Split(dim, groups); }

std::vector<Sbp> Ways() {
  return {Sbp::Broadcast(), S(0),           S(1),
          S(1, 2),          Sbp::Partial(), Sbp::Partial(ReduceOp::kMax)};
}

Mesh MeshOf(std::vector<int> sizes, std::vector<int> ranks = {}) {
  std::vector<MeshAxis> axes;
  for (int size : sizes) {
    axes.push_back({absl::StrCat("a", axes.size()), size});
  }
  auto mesh = Mesh::Create(axes, std::move(ranks));
  EXPECT_TRUE(mesh.ok()) << mesh.status();
  return *std::move(mesh);
}

// Moves random values from one to the other, on all ranks.
void ExpectMoves(BoxingCosts* costs, const NdSbp& from, const NdSbp& to,
                 const TensorType& type, uint64_t seed) {
  LayoutRandom random(seed);
  const Literal whole = random.Value(type);
  Boxing b;
  b.costs = costs;
  b.from = from;
  b.to = to;
  b.name = "x/moved";
  b.chunk_elements = seed % 5 == 0 ? 7 : 0;
  const auto moved =
      RunBoxing(b, type, random.Locals(whole, from, costs->mesh()));
  ASSERT_TRUE(moved.ok()) << moved.status();
  ASSERT_EQ(WhyNotLayout(*moved, to, costs->mesh(), whole), "")
      << ToString(from) << " to " << ToString(to) << " of " << type.ToString()
      << " on " << costs->mesh().ToString() << "\n"
      << Explain(costs->mesh(), *costs->Plan(from, to, type));
}

TEST(BoxingTest, EveryPairOnOneAxis) {
  uint64_t seed = 0;
  for (int n : {1, 2, 3, 4, 8}) {
    BoxingCosts costs(MeshOf({n}));
    for (Sbp from : Ways()) {
      for (Sbp to : Ways()) {
        const DType dtype = kDTypes[++seed % 4];
        ExpectMoves(&costs, {from}, {to}, {dtype, {n, 4 * n, 3}}, seed);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(BoxingTest, EveryPairOfGroups) {
  uint64_t seed = 0;
  for (int n : {2, 3}) {
    BoxingCosts costs(MeshOf({n}));
    const int extent = 6 * n * n;
    std::vector<Sbp> ways;
    for (int dim : {0, 1}) {
      for (int groups = 1; groups <= 6 * n; ++groups) {
        if (extent % (groups * n) == 0) ways.push_back(S(dim, groups));
      }
    }
    for (Sbp from : ways) {
      for (Sbp to : ways) {
        ExpectMoves(&costs, {from}, {to}, {DType::kI32, {extent, extent}},
                    ++seed);
        if (HasFatalFailure()) return;
      }
    }
  }
}

class TwoAxesTest : public testing::TestWithParam<std::vector<int>> {};

TEST_P(TwoAxesTest, EveryPair) {
  BoxingCosts costs(MeshOf(GetParam()));
  uint64_t seed = 0;
  for (Sbp from0 : Ways()) {
    for (Sbp from1 : Ways()) {
      for (Sbp to0 : Ways()) {
        for (Sbp to1 : Ways()) {
          const DType dtype = kDTypes[++seed % 4];
          ExpectMoves(&costs, {from0, from1}, {to0, to1}, {dtype, {12, 24}},
                      seed);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, TwoAxesTest,
                         testing::Values(std::vector<int>{2, 2},
                                         std::vector<int>{2, 3}));

TEST(BoxingTest, SomePairsOnThreeAxesOfScatteredRanks) {
  BoxingCosts costs(MeshOf({2, 3, 2}, {12, 0, 3, 9, 8, 1, 2, 11, 5, 4, 7, 10}),
                    Topology(), {{0, 1, 2, 3, 4, 5}, {7, 8, 9, 10, 11, 12}});
  std::vector<Sbp> ways = Ways();
  ways.push_back(S(0, 2));
  ways.push_back(Sbp::Partial(ReduceOp::kMin));
  LayoutRandom random(7);
  const auto pick = [&] {
    NdSbp sbp;
    for (int axis = 0; axis < 3; ++axis) {
      sbp.push_back(ways[random.Below(static_cast<int>(ways.size()))]);
    }
    return sbp;
  };
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const NdSbp from = pick(), to = pick();
    ExpectMoves(&costs, from, to, {kDTypes[seed % 4], {24, 24}}, seed);
    if (HasFatalFailure()) return;
  }
}

TEST(BoxingTest, EmptyValues) {
  BoxingCosts costs(MeshOf({2, 2}));
  uint64_t seed = 0;
  for (Sbp from : Ways()) {
    for (Sbp to : Ways()) {
      ExpectMoves(&costs, {from, S(0)}, {S(1), to}, {DType::kF32, {0, 8}},
                  ++seed);
      if (HasFatalFailure()) return;
    }
  }
}

// Whether a node of rank 0 says so.
bool Says(const std::vector<Graph>& graphs, absl::string_view text) {
  for (const Node* node : graphs[0].Nodes()) {
    for (const std::string& why : node->provenance) {
      if (absl::StrContains(why, text)) return true;
    }
  }
  return false;
}

TEST(BoxingTest, NamedAlgorithms) {
  BoxingCosts costs(MeshOf({3}));
  const TensorType type = {DType::kF32, {6, 6}};
  Boxing b;
  b.costs = &costs;
  b.from = {Sbp::Partial()};
  b.to = {Sbp::Broadcast()};
  b.name = "x";
  for (CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kTree}) {
    b.algorithm = algorithm;
    auto graphs = BoxingGraphs(b, type);
    ASSERT_TRUE(graphs.ok()) << graphs.status();
    EXPECT_TRUE(Says(*graphs, absl::StrCat(Name(algorithm), " all-reduce")));
  }
  // No tree does it: the cheapest.
  b.to = {S(0)};
  auto graphs = BoxingGraphs(b, type);
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  EXPECT_TRUE(Says(*graphs, "reduce-scatter"));
  EXPECT_FALSE(Says(*graphs, "tree"));
  // Not with three ranks: the user is told.
  b.algorithm = CollectiveAlgorithm::kHalvingDoubling;
  const absl::Status status = BoxingGraphs(b, type).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kBadValue)) << status;
  for (const char* part : {"boxing of 'x'", "a power of two", "has 3"}) {
    EXPECT_TRUE(absl::StrContains(status.message(), part)) << status;
  }
}

TEST(BoxingTest, EveryNodeSaysWhy) {
  BoxingCosts costs(MeshOf({2, 2}));
  Boxing b;
  b.costs = &costs;
  b.from = {S(0), Sbp::Partial()};
  b.to = {Sbp::Broadcast(), Sbp::Broadcast()};
  b.name = "fc1/to_b";
  b.value = "fc1";
  b.device = "cpu:0";
  b.stage = 3;
  auto graphs = BoxingGraphs(b, {DType::kF32, {8, 8}});
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  std::set<std::string> why;
  for (const Node* node : std::as_const((*graphs)[1]).Nodes()) {
    if (node->Is(OpId::kVariable) || node->Is(OpId::kOutput)) continue;
    ASSERT_FALSE(node->provenance.empty()) << node->name();
    EXPECT_EQ(node->device, "cpu:0");
    EXPECT_EQ(node->stage, 3);
    EXPECT_TRUE(absl::StartsWith(node->name(), "fc1/to_b/")) << node->name();
    why.insert(node->provenance[0]);
  }
  EXPECT_EQ(why, (std::set<std::string>{
                     "boxing: 'fc1' from P(sum) to B on axis a1: all-reduce, 2 "
                     "ranks",
                     "boxing: 'fc1' from S(0) to B on axis a0: all-gather, 2 "
                     "ranks"}));
}

TEST(BoxingTest, NothingToDoMakesNothing) {
  BoxingCosts costs(MeshOf({2, 1}));
  Boxing b;
  b.costs = &costs;
  b.from = {S(0), Sbp::Partial()};
  b.to = {S(0), S(1)};  // one member has all
  b.name = "x";
  auto graphs = BoxingGraphs(b, {DType::kF32, {8, 8}});
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  EXPECT_EQ((*graphs)[0].num_nodes(), 2);
}

TEST(BoxingTest, RefusesByName) {
  BoxingCosts costs(MeshOf({3}));
  Boxing b;
  b.costs = &costs;
  b.name = "x";
  b.value = "fc1";
  const auto error = [&](Sbp from, Sbp to, const TensorType& type) {
    b.from = {from};
    b.to = {to};
    Graph graph("g");
    Node* x = *graph.Add(
        "weft.Variable", "x", {},
        {{"dtype", type.dtype}, {"shape", std::vector<int64_t>{4, 6}}});
    return AddBoxing(&graph, b, x->output(0), type).status();
  };
  const Sbp whole = Sbp::Broadcast();
  const TensorType f32 = {DType::kF32, {4, 6}};
  absl::Status status = error(whole, S(0), f32);
  EXPECT_TRUE(IsError(status, ErrorCode::kShapeMismatch)) << status;
  EXPECT_EQ(status.message().find("boxing of 'fc1' from B to S(0): "), 0u);
  EXPECT_TRUE(absl::StrContains(status.message(), "which do not divide 4"));
  status = error(whole, Sbp::Micro(), f32);
  EXPECT_TRUE(IsError(status, ErrorCode::kInternal)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "micro-batches"));
  status = error(S(1), whole, f32);  // the operand is the whole
  EXPECT_TRUE(absl::StrContains(status.message(), "f32[4,2]")) << status;
  status = error(whole, Sbp::Partial(), {DType::kBool, {4, 6}});
  EXPECT_TRUE(absl::StrContains(status.message(), "nothing reduces bool"))
      << status;
  b.rank = 3;
  status = error(whole, S(1), f32);
  EXPECT_TRUE(absl::StrContains(status.message(), "rank 3 is not of mesh"))
      << status;
}

}  // namespace
}  // namespace weft
