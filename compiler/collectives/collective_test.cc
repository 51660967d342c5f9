// What nodes are made, and what is refused.
#include "compiler/collectives/collective.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/collectives/testing.h"
#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Algorithm = CollectiveAlgorithm;
using Kind = CollectiveKind;
using testing::ElementsAre;
using testing::HasSubstr;

Collective Make(Kind kind, std::vector<int> ranks, int rank = 0) {
  Collective c;
  c.kind = kind;
  c.algorithm = Algorithm::kDirect;
  c.ranks = std::move(ranks);
  c.rank = rank;
  c.name = "g";
  return c;
}

// Ops in the order of ids.
std::vector<std::string> OpsOf(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node* node : graph.Nodes()) ops.emplace_back(node->op());
  return ops;
}

// ---- Nodes

// Rank 1 of 3 owns the middle of 7 elements.
TEST(CollectiveTest, ThreeStageAllReduce) {
  Graph graph("g");
  Collective c = Make(Kind::kAllReduce, {0, 1, 2}, 1);
  c.algorithm = Algorithm::kThreeStage;
  ASSERT_TRUE(AddToGraph(&graph, c, {DType::kF32, {7}}).ok());
  EXPECT_THAT(OpsOf(graph),
              ElementsAre("weft.Variable", "Slice", "weft.Send", "Slice",
                          "weft.Send", "weft.Recv", "Slice", "Add", "weft.Recv",
                          "Add", "weft.Send", "weft.Send", "weft.Recv",
                          "weft.Recv", "Concat", "weft.Output"));
  const Node* send = graph.FindNode("g/send");
  ASSERT_NE(send, nullptr);
  OpView op = graph.View(*send);
  EXPECT_EQ(op.String("channel"),
            "g#all-reduce.sum.f32[7].three-stage.0-2/0.0.1>2");
  EXPECT_EQ(op.Int("peer"), 2);
  EXPECT_EQ(graph.type(send->input(0)).ToString(), "f32[2]");
  EXPECT_THAT(
      send->provenance,
      ElementsAre("collective: three-stage all-reduce of 'g' over ranks "
                  "0-2, step reduce"));
  EXPECT_THAT(graph.FindNode("g/concat")->provenance[0],
              HasSubstr("over ranks 0-2, result"));
}

// One value to several peers is several nodes on one value: nothing is copied.
TEST(CollectiveTest, DirectSendsOneValueToAll) {
  Graph graph("g");
  Collective c = Make(Kind::kBroadcast, {4, 5, 6}, 4);
  ASSERT_TRUE(AddToGraph(&graph, c, {DType::kBool, {7}}).ok());
  EXPECT_THAT(OpsOf(graph), ElementsAre("weft.Variable", "weft.Send",
                                        "weft.Send", "weft.Output"));
}

// All chunks leave before the first is waited for; a chunk's result leaves
// before the next chunk is waited for.
TEST(CollectiveTest, ChunksFollowOneAnother) {
  Graph graph("g");
  Collective c = Make(Kind::kAllReduce, {0, 1}, 0);
  c.algorithm = Algorithm::kThreeStage;
  c.chunk_elements = 2;
  ASSERT_TRUE(AddToGraph(&graph, c, {DType::kF32, {8}}).ok());
  std::vector<std::string> moves;
  for (const Node* node : graph.Nodes()) {
    if (!node->Is(OpId::kSend) && !node->Is(OpId::kRecv)) continue;
    const std::string& channel = graph.View(*node).String("channel");
    moves.push_back(channel.substr(channel.rfind('/') + 1));
  }
  EXPECT_THAT(moves, ElementsAre("0.0.0>1", "0.1.0>1", "0.0.1>0", "1.0.0>1",
                                 "0.1.1>0", "1.1.0>1", "1.0.1>0", "1.1.1>0"));
}

TEST(CollectiveTest, ChannelsAreUnique) {
  for (int kind = 0; kind < kNumCollectiveKinds; ++kind) {
    std::set<std::string> channels;
    size_t sends = 0;
    for (int rank = 0; rank < 4; ++rank) {
      Collective c = Make(static_cast<Kind>(kind), {0, 1, 2, 3}, rank);
      c.chunk_elements = 3;
      Graph graph("g");
      ASSERT_TRUE(AddToGraph(&graph, c, {DType::kF32, {16}}).ok());
      for (const Node* node : graph.Nodes()) {
        if (!node->Is(OpId::kSend)) continue;
        channels.insert(graph.View(*node).String("channel"));
        ++sends;
      }
    }
    EXPECT_GT(sends, 0u);
    EXPECT_EQ(channels.size(), sends);
  }
}

TEST(CollectiveTest, PlacementAndRate) {
  Graph graph("g");
  Collective c = Make(Kind::kAllReduce, {0, 1});
  c.device = "cpu:1";
  c.stage = 3;
  c.rate = "micro";
  ASSERT_TRUE(AddToGraph(&graph, c, {DType::kF32, {2}}).ok());
  const Node* recv = graph.FindNode("g/recv");
  ASSERT_NE(recv, nullptr);
  EXPECT_EQ(recv->device, "cpu:1");
  EXPECT_EQ(recv->stage, 3);
  EXPECT_EQ(graph.View(*recv).String("rate"), "micro");
}

TEST(CollectiveTest, OneRankAloneAddsNothing) {
  for (int kind = 0; kind < kNumCollectiveKinds; ++kind) {
    Graph graph("g");
    Collective c = Make(static_cast<Kind>(kind), {5}, 5);
    ASSERT_TRUE(AddToGraph(&graph, c, {DType::kBF16, {2}}).ok());
    EXPECT_THAT(OpsOf(graph), ElementsAre("weft.Variable", "weft.Output"));
  }
}

TEST(CollectiveTest, AutoIsTheCostModelsChoice) {
  Collective c = Make(Kind::kAllReduce, {0, 1, 2, 3});
  c.algorithm = Algorithm::kAuto;
  const TensorType type = {DType::kF32, {1 << 20}};
  auto choice = ChooseAlgorithm(c.kind, 4 << 20, c.group(), c.topology,
                                OrderClass::kTree);
  auto algorithm = AlgorithmOf(c, type);
  ASSERT_TRUE(choice.ok() && algorithm.ok());
  EXPECT_EQ(*algorithm, choice->algorithm);
  c.order = OrderClass::kRing;
  algorithm = AlgorithmOf(c, type);
  ASSERT_TRUE(algorithm.ok());
  EXPECT_EQ(*algorithm, Algorithm::kRing);
}

// ---- Errors

struct BadCase {
  const char* name;
  void (*change)(Collective* c, TensorType* type);
  std::vector<const char*> parts;
};

class BadCollectiveTest : public testing::TestWithParam<BadCase> {};

TEST_P(BadCollectiveTest, IsRefused) {
  Collective c = Make(Kind::kReduceScatter, {0, 1, 2, 3}, 2);
  c.name = "fc1/grad";
  TensorType type = {DType::kF32, {4, 8}};
  GetParam().change(&c, &type);
  Graph graph("g");
  absl::Status status = AddToGraph(&graph, c, type);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kBadValue) << status;
  for (const char* part : GetParam().parts) {
    EXPECT_THAT(status.message(), HasSubstr(part));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BadCollectiveTest,
    testing::ValuesIn(std::vector<BadCase>{
        {"NotMine",
         [](Collective* c, TensorType*) { c->rank = 7; },
         {"reduce-scatter 'fc1/grad'", "rank 7 is not in the group", "0-3"}},
        {"Empty",
         [](Collective* c, TensorType*) { c->ranks.clear(); },
         {"rank 2 is not in the group"}},
        {"Twice",
         [](Collective* c, TensorType*) { c->ranks[3] = 1; },
         {"rank 1 is in the group twice", "0,1,2,1"}},
        {"Negative",
         [](Collective* c, TensorType*) { c->ranks[3] = -1; },
         {"rank -1 is negative"}},
        {"Indivisible",
         [](Collective* c, TensorType* type) {
           c->axis = -1;
           type->shape = Shape({4, 6});
         },
         {"'fc1/grad'", "axis 1 of f32[4,6] has 6 elements", "4 ranks"}},
        {"NoAxis",
         [](Collective* c, TensorType*) { c->axis = 2; },
         {"axis 2 of f32[4,8]"}},
        {"NoJoinAxis",
         [](Collective* c, TensorType*) {
           c->kind = Kind::kAllToAll;
           c->join_axis = -3;
         },
         {"axis -3 of f32[4,8]"}},
        {"Scalar",
         [](Collective*, TensorType* type) {
           const Shape scalar;
           type->shape = scalar;
         },
         {"axis 0 of f32[]"}},
        {"DType",
         [](Collective*, TensorType* type) { type->dtype = DType::kBool; },
         {"no sum of bool", "f32, f64, f16, bf16, i32, i64"}},
        {"Root",
         [](Collective* c, TensorType*) {
           c->kind = Kind::kBroadcast;
           c->root = 4;
         },
         {"the root is position 4", "0-3"}},
        {"NegativeRoot",
         [](Collective* c, TensorType*) {
           c->kind = Kind::kGather;
           c->root = -1;
         },
         {"the root is position -1"}},
        {"KindOfAlgorithm",
         [](Collective* c, TensorType*) { c->algorithm = Algorithm::kTree; },
         {"tree cannot do reduce-scatter",
          "these can: direct, ring, halving-doubling"}},
        {"PowerOfTwo",
         [](Collective* c, TensorType* type) {
           c->ranks = {0, 1, 2};
           type->shape = Shape({3});
           c->algorithm = Algorithm::kHalvingDoubling;
         },
         {"a power of two", "has 3", "these can: direct, ring"}},
        {"UnalignedHosts",
         [](Collective* c, TensorType*) {
           c->kind = Kind::kAllReduce;
           c->algorithm = Algorithm::kHierarchical;
           c->hosts = {{0, 2}, {1, 3}};
         },
         {"hierarchical needs hosts", "these can: direct, three-stage"}},
        {"HostsOfOthers",
         [](Collective* c, TensorType*) {
           c->hosts = {{0, 1}, {2, 4}};
         },
         {"the hosts hold positions 0,1,2,4", "0-3"}},
        {"Name", [](Collective* c, TensorType*) { c->name = "a#b"; }, {"'#'"}},
        {"Rate",
         [](Collective* c, TensorType*) { c->rate = "epoch"; },
         {"rate 'epoch'"}},
        {"Chunks",
         [](Collective* c, TensorType*) { c->chunk_elements = -2; },
         {"chunks of -2 elements"}},
    }),
    [](const testing::TestParamInfo<BadCase>& info) {
      return std::string(info.param.name);
    });

TEST(CollectiveTest, OperandsThatDoNotFit) {
  Graph graph("g");
  auto x =
      graph.Add("weft.Variable", "x", {},
                {{"dtype", DType::kF32}, {"shape", std::vector<int64_t>{4}}});
  ASSERT_TRUE(x.ok());
  const Value value = (*x)->output(0);
  Collective c = Make(Kind::kAllReduce, {0, 1});
  auto error = [&](Value input, const TensorType& type) {
    absl::Status status = AddCollective(&graph, c, input, type).status();
    EXPECT_FALSE(status.ok());
    return status;
  };
  absl::Status status = error(value, {DType::kF32, {5}});
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kShapeMismatch);
  EXPECT_THAT(status.message(), HasSubstr("its type is f32[5]"));
  EXPECT_THAT(status.message(), HasSubstr("'x' is f32[4]"));
  status = error(value, {DType::kF64, {4}});
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kDTypeMismatch);
  status = error({}, {DType::kF32, {4}});
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kBadValue);
  EXPECT_THAT(status.message(), HasSubstr("rank 0 gives no operand"));
  c.kind = Kind::kScatter;
  c.root = 1;
  status = error(value, {DType::kF32, {4}});
  EXPECT_EQ(ErrorCodeOf(status), ErrorCode::kBadValue);
  EXPECT_THAT(status.message(), HasSubstr("only the root does, rank 1"));
}

}  // namespace
}  // namespace weft
