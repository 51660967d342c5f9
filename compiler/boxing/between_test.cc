// Values from one mesh to another, on all ranks, against the definition of
// layouts; and no byte too much.
#include "compiler/boxing/between.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/boxing/testing.h"
#include "compiler/boxing/transfers.h"
#include "core/base/error.h"
#include "core/graph/verify.h"
#include "core/ops/expr.h"
#include "core/reference/job_interpreter.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

const Sbp kB = Sbp::Broadcast();
const Sbp kSum = Sbp::Partial();

Sbp S(int dim, int groups = 1) { return Sbp::Split(dim, groups); }

Mesh MeshOf(const std::vector<int>& sizes, std::vector<int> ranks) {
  std::vector<MeshAxis> axes;
  for (int size : sizes) {
    axes.push_back({absl::StrCat("a", axes.size()), size});
  }
  auto mesh = Mesh::Create(axes, std::move(ranks));
  EXPECT_TRUE(mesh.ok()) << mesh.status();
  return *std::move(mesh);
}

struct Job {
  std::vector<Graph> graphs;
  std::vector<Literal> moved;  // by member of the second mesh
};

// Graphs of ranks 0 to 8.
absl::StatusOr<Job> Move(const MeshBoxing& b, const TensorType& type,
                         const std::vector<Literal>& locals) {
  const Mesh& from = b.from_costs->mesh();
  const Mesh& to = b.to_costs->mesh();
  Job job;
  std::vector<RankProgram> programs(9);
  for (int rank = 0; rank < 9; ++rank) {
    Graph& graph = job.graphs.emplace_back(absl::StrCat("rank", rank));
    MeshBoxing mine = b;
    mine.rank = rank;
    Value x;
    const int member = from.MemberOf(rank);
    if (member >= 0) {
      Node* node = *graph.Add("weft.Variable", "x", {},
                              {{"dtype", type.dtype},
                               {"shape", DimsOf(locals[member].type().shape)}});
      x = node->output(0);
      programs[rank].feeds["x"] = {locals[member]};
    }
    auto y = AddMeshBoxing(&graph, mine, x, type);
    if (!y.ok()) return y.status();
    EXPECT_EQ(y->valid(), to.MemberOf(rank) >= 0);
    if (y->valid()) {
      EXPECT_TRUE(graph.Add("weft.Output", "", {*y}, {{"name", "y"}}).ok());
    }
    EXPECT_TRUE(VerifyGraph(graph).ok());
  }
  for (int rank = 0; rank < 9; ++rank) {
    programs[rank].graph = &job.graphs[rank];
  }
  auto results = InterpretJob(programs, JobOrder::kInOrder);
  if (!results.ok()) return results.status();
  for (int rank : to.ranks()) {
    job.moved.push_back((*results)[rank].outputs["y"][0]);
  }
  return job;
}

class RandomMeshes {
 public:
  explicit RandomMeshes(uint64_t seed) : random_(seed) {}

  Mesh PickMesh() {
    static const std::vector<int> kSizes[] = {
        {}, {1}, {2}, {3}, {4}, {2, 2}, {2, 3}, {3, 2}, {2, 2, 2}};
    const std::vector<int>& sizes = kSizes[random_.Below(9)];
    int members = 1;
    for (int size : sizes) members *= size;
    std::vector<int> ranks;
    while (static_cast<int>(ranks.size()) < members) {
      const int rank = random_.Below(9);
      if (std::count(ranks.begin(), ranks.end(), rank) == 0) {
        ranks.push_back(rank);
      }
    }
    return MeshOf(sizes, ranks);
  }
  NdSbp PickSbp(const Mesh& mesh, bool partial) {
    const Sbp ways[] = {
        kB, S(0), S(1), S(1, 2), S(0, 3), kSum, Sbp::Partial(ReduceOp::kMin)};
    NdSbp sbp;
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      sbp.push_back(ways[random_.Below(partial ? 7 : 5)]);
    }
    return sbp;
  }
  LayoutRandom& random() { return random_; }

 private:
  LayoutRandom random_;
};

TEST(BetweenTest, RandomMeshes) {
  constexpr DType kDTypes[] = {DType::kF32, DType::kI32, DType::kBF16};
  int different = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    RandomMeshes pick(seed);
    BoxingCosts from(pick.PickMesh()), to(pick.PickMesh());
    MeshBoxing b;
    b.from_costs = &from;
    b.to_costs = &to;
    b.from = pick.PickSbp(from.mesh(), true);
    b.to = pick.PickSbp(to.mesh(), true);
    b.name = "x/moved";
    different += from.mesh() == to.mesh() ? 0 : 1;
    const TensorType type = {kDTypes[seed % 3], {72, 48}};
    const Literal whole = pick.random().Value(type);
    auto job = Move(b, type, pick.random().Locals(whole, b.from, from.mesh()));
    ASSERT_TRUE(job.ok()) << job.status();
    ASSERT_EQ(WhyNotLayout(job->moved, b.to, to.mesh(), whole), "")
        << ToString(b.from) << " on " << from.mesh().ToString() << " to "
        << ToString(b.to) << " on " << to.mesh().ToString();
  }
  EXPECT_GT(different, 300);
}

// Each element has its own number, so what a rank lacks can be counted.
TEST(BetweenTest, NoByteIsSentTwiceOrInVain) {
  int64_t sent_in_all = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    RandomMeshes pick(seed);
    const Mesh from = pick.PickMesh(), to = pick.PickMesh();
    const NdSbp from_sbp = pick.PickSbp(from, false);
    const NdSbp to_sbp = pick.PickSbp(to, false);
    const TensorType type = {DType::kI32, {72, 48}};
    std::vector<double> numbers(type.shape.num_elements());
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
    const Literal whole = Literal::FromDoubles(type, numbers);
    std::map<int, int64_t> lacks;  // by rank
    for (int member = 0; member < to.size(); ++member) {
      std::set<double> wanted;
      for (double v : LocalPart(whole, to_sbp, to, member).ToDoubles()) {
        wanted.insert(v);
      }
      const int before = from.MemberOf(to.rank(member));
      if (before >= 0) {
        for (double v : LocalPart(whole, from_sbp, from, before).ToDoubles()) {
          wanted.erase(v);
        }
      }
      if (!wanted.empty()) {
        lacks[to.rank(member)] = static_cast<int64_t>(wanted.size());
      }
    }
    std::map<int, int64_t> gets;
    std::set<std::pair<int, int>> pairs;
    const Transfers transfers(type.shape, from, from_sbp, to, to_sbp);
    for (const Transfer& t : transfers.all()) {
      EXPECT_TRUE(pairs.insert({t.from, t.to}).second) << "two messages";
      if (t.from == t.to) continue;
      gets[t.to] += t.shape.num_elements();
      sent_in_all += t.shape.num_elements();
    }
    ASSERT_EQ(gets, lacks) << seed;
  }
  EXPECT_GT(sent_in_all, 0);
}

// Of several ranks that have it, each sends its share.
TEST(BetweenTest, CopiesAreSharedAmongTheSenders) {
  const Transfers transfers(Shape({8}), MeshOf({2}, {0, 1}), {kB},
                            MeshOf({4}, {1, 2, 3, 4}), {S(0)});
  std::vector<std::pair<int, int>> pairs;
  for (const Transfer& t : transfers.all()) pairs.push_back({t.from, t.to});
  EXPECT_EQ(pairs,
            (std::vector<std::pair<int, int>>{{1, 1}, {0, 2}, {1, 3}, {0, 4}}));
}

int SendsOf(const Graph& graph) {
  int sends = 0;
  for (const Node* node : graph.Nodes()) {
    sends += node->Is(OpId::kSend) ? 1 : 0;
  }
  return sends;
}

TEST(BetweenTest, APartThatStaysIsNotTouched) {
  BoxingCosts from(MeshOf({4}, {0, 1, 2, 3}));
  BoxingCosts to(MeshOf({2, 2}, {0, 1, 2, 3}));
  MeshBoxing b;
  b.from_costs = &from;
  b.to_costs = &to;
  b.from = {S(0)};
  b.to = {S(0), S(0)};
  b.name = "x";
  LayoutRandom random(1);
  const TensorType type = {DType::kF32, {8}};
  auto job =
      Move(b, type, random.Locals(random.Value(type), b.from, from.mesh()));
  ASSERT_TRUE(job.ok()) << job.status();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(job->graphs[rank].num_nodes(), 2);
  }
  for (int rank = 4; rank < 9; ++rank) {
    EXPECT_EQ(job->graphs[rank].num_nodes(), 0);
  }
}

// No part of a reduction travels: each of 4 ranks sends its quarter of the sum.
TEST(BetweenTest, ReductionsAreFinishedFirst) {
  BoxingCosts from(MeshOf({4}, {0, 1, 2, 3}));
  BoxingCosts to(MeshOf({}, {8}));
  MeshBoxing b;
  b.from_costs = &from;
  b.to_costs = &to;
  b.from = {kSum};
  b.name = "x";
  LayoutRandom random(1);
  const TensorType type = {DType::kF32, {8}};
  const Literal whole = random.Value(type);
  auto job = Move(b, type, random.Locals(whole, b.from, from.mesh()));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->moved[0], whole);
  std::set<std::string> why;
  for (const Node* node : std::as_const(job->graphs[8]).Nodes()) {
    if (node->Is(OpId::kRecv)) why.insert(node->provenance[0]);
  }
  EXPECT_EQ(why.size(), 4u);
  EXPECT_EQ(why.count("boxing: 'x' from S(0) on 4 ranks 0-3 to rank 8: "
                      "copy from rank 2"),
            1u)
      << *why.begin();
  EXPECT_EQ(SendsOf(job->graphs[8]), 0);
}

TEST(BetweenTest, EmptyValues) {
  BoxingCosts from(MeshOf({2}, {0, 1})), to(MeshOf({3}, {1, 2, 5}));
  MeshBoxing b;
  b.from_costs = &from;
  b.to_costs = &to;
  b.from = {S(0)};
  b.to = {S(1)};
  b.name = "x";
  const TensorType type = {DType::kF32, {0, 6}};
  const Literal whole(type, "");
  LayoutRandom random(1);
  auto job = Move(b, type, random.Locals(whole, b.from, from.mesh()));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(WhyNotLayout(job->moved, b.to, to.mesh(), whole), "");
}

TEST(BetweenTest, RanksThatDisagreeAreToldBoth) {
  BoxingCosts from(MeshOf({2}, {0, 1})), to(MeshOf({2}, {2, 3}));
  std::vector<Graph> graphs;
  std::vector<RankProgram> programs(4);
  for (int rank = 0; rank < 4; ++rank) {
    Graph& graph = graphs.emplace_back("g");
    MeshBoxing b;
    b.from_costs = &from;
    b.to_costs = &to;
    b.rank = rank;
    b.from = {S(0)};
    b.to = {rank == 3 ? S(1) : S(0)};
    b.name = "x";
    Value x;
    if (rank < 2) {
      x = (*graph.Add(
               "weft.Variable", "x", {},
               {{"dtype", DType::kF32}, {"shape", std::vector<int64_t>{2, 4}}}))
              ->output(0);
      programs[rank].feeds["x"] = {
          Literal::Splat({DType::kF32, Shape({2, 4})}, 1)};
    }
    ASSERT_TRUE(AddMeshBoxing(&graph, b, x, {DType::kF32, {4, 4}}).ok());
  }
  for (int rank = 0; rank < 4; ++rank) programs[rank].graph = &graphs[rank];
  const absl::Status status = InterpretJob(programs).status();
  EXPECT_TRUE(absl::StrContains(status.message(), "to S(0) on 2 ranks 2-3"))
      << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "to S(1) on 2 ranks 2-3"))
      << status;
}

TEST(BetweenTest, RefusesByName) {
  BoxingCosts from(MeshOf({2}, {0, 1})), to(MeshOf({3}, {1, 2, 5}));
  MeshBoxing b;
  b.from_costs = &from;
  b.to_costs = &to;
  b.from = {S(0)};
  b.to = {S(0)};
  b.name = "x";
  b.value = "fc1";
  Graph graph("g");
  b.rank = 2;
  absl::Status status =
      AddMeshBoxing(&graph, b, {}, {DType::kF32, {4}}).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kShapeMismatch)) << status;
  EXPECT_TRUE(absl::StrContains(
      status.message(),
      "boxing of 'fc1' from S(0) on mesh a0=2 to S(0) on mesh a0=3 on ranks"))
      << status;
  b.rank = 0;
  status = AddMeshBoxing(&graph, b, {}, {DType::kF32, {6}}).status();
  EXPECT_TRUE(absl::StrContains(status.message(), "rank 0 gives no operand"))
      << status;
  b.from = {Sbp::Micro()};
  status = AddMeshBoxing(&graph, b, {}, {DType::kF32, {6}}).status();
  EXPECT_TRUE(absl::StrContains(status.message(), "micro-batches")) << status;
}

}  // namespace
}  // namespace weft
