// Ranks that do not agree on a collective are told what each of them has,
// before anything moves: by their graphs and by their plans.
#include <string>
#include <vector>

#include "compiler/collectives/testing.h"
#include "compiler/testing/fake_oracle.h"
#include "compiler/testing/job_plans.h"
#include "core/base/error.h"
#include "core/graph/channels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

struct Case {
  const char* name;
  // What rank 1 decides; others have an all-reduce by halving of f32[24].
  void (*change)(Collective* c, TensorType* type);
  const char* others;
  const char* its;
};

std::vector<Graph> GraphsOf(const Case* of_rank_1) {
  std::vector<Graph> graphs;
  for (int rank = 0; rank < 4; ++rank) {
    Graph& graph = graphs.emplace_back("g");
    Collective c;
    c.algorithm = CollectiveAlgorithm::kHalvingDoubling;
    c.ranks = {0, 1, 2, 3};
    c.rank = rank;
    c.name = "fc1/grad";
    TensorType type = {DType::kF32, {24}};
    if (rank == 1 && of_rank_1 != nullptr) {
      if (of_rank_1->change == nullptr) continue;
      of_rank_1->change(&c, &type);
    }
    const absl::Status status = AddToGraph(&graph, c, type);
    EXPECT_TRUE(status.ok()) << status;
  }
  return graphs;
}

absl::Status Match(const std::vector<Graph>& graphs) {
  std::vector<const Graph*> ranks;
  for (const Graph& graph : graphs) ranks.push_back(&graph);
  return MatchChannels(ranks);
}

absl::Status Plan(const std::vector<Graph>& graphs) {
  CompileOptions options;
  options.devices = {HostDevice()};
  FakeOracle oracle;
  return CompileGraphs(graphs, options, oracle).status();
}

class DisagreeTest : public testing::TestWithParam<Case> {};

TEST_P(DisagreeTest, BothAreTold) {
  const std::vector<Graph> graphs = GraphsOf(&GetParam());
  const absl::Status by_graph = Match(graphs);
  const absl::Status by_plan = Plan(graphs);
  EXPECT_TRUE(IsError(by_graph, ErrorCode::kBadGraph)) << by_graph;
  EXPECT_TRUE(IsError(by_plan, ErrorCode::kPlansDiffer)) << by_plan;
  for (const absl::Status& status : {by_graph, by_plan}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr("'fc1/grad'"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().others));
    EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().its));
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 has"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, DisagreeTest,
    testing::ValuesIn(std::vector<Case>{
        {"Length",
         [](Collective*, TensorType* type) { type->shape = Shape({25}); },
         "f32[24]", "f32[25]"},
        {"DType",
         [](Collective*, TensorType* type) { type->dtype = DType::kF64; },
         "f32[24]", "f64[24]"},
        {"Op", [](Collective* c, TensorType*) { c->op = ReduceOp::kMax; },
         "all-reduce.sum", "all-reduce.max"},
        {"Algorithm",
         [](Collective* c, TensorType*) {
           c->algorithm = CollectiveAlgorithm::kDirect;
         },
         "halving-doubling", "direct"},
        {"Kind",
         [](Collective* c, TensorType*) {
           c->kind = CollectiveKind::kReduceScatter;
         },
         "all-reduce", "reduce-scatter"},
        {"Chunks", [](Collective* c, TensorType*) { c->chunk_elements = 5; },
         "f32[24].halving-doubling.0-3'", "chunk5"},
    }),
    [](const testing::TestParamInfo<Case>& info) {
      return std::string(info.param.name);
    });

TEST(DisagreeTest, ARankWithoutTheCollectiveIsNamed) {
  const Case missing = {"Missing", nullptr, "", ""};
  const std::vector<Graph> graphs = GraphsOf(&missing);
  for (const absl::Status& status : {Match(graphs), Plan(graphs)}) {
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr("fc1/grad"));
    EXPECT_THAT(
        std::string(status.message()),
        AnyOf(HasSubstr("rank 1 receives nothing"),
              HasSubstr("rank 1 sends nothing"),
              HasSubstr("from rank 1 (node 'fc1/grad/recv'), which has no")))
        << status;
  }
}

TEST(DisagreeTest, RanksThatAgreeAreNot) {
  const std::vector<Graph> graphs = GraphsOf(nullptr);
  EXPECT_TRUE(Match(graphs).ok()) << Match(graphs);
  EXPECT_TRUE(Plan(graphs).ok()) << Plan(graphs);
}

}  // namespace
}  // namespace weft
