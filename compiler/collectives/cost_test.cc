#include "compiler/collectives/cost.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/collectives/rope.h"
#include "compiler/collectives/schedule.h"
#include "core/base/error.h"
#include "core/graph/graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using Algorithm = CollectiveAlgorithm;
using Kind = CollectiveKind;
using testing::ElementsAre;
using testing::HasSubstr;

// One link for all, and reduction that takes no time.
Topology Flat(double latency, double bytes_per_s) {
  Topology t;
  t.in_host = t.across = {latency, 0, bytes_per_s};
  t.reduce_bytes_per_s = INFINITY;
  return t;
}

CollectiveGroup TwoHosts(int ranks) {
  CollectiveGroup group{ranks, 0, {{}, {}}};
  for (int p = 0; p < ranks; ++p) group.hosts[p * 2 / ranks].push_back(p);
  return group;
}

Algorithm ChoiceOf(Kind kind, int64_t bytes, const CollectiveGroup& group,
                   const Topology& topology = {},
                   OrderClass order = OrderClass::kNone) {
  auto choice = ChooseAlgorithm(kind, bytes, group, topology, order);
  EXPECT_TRUE(choice.ok()) << choice.status();
  return choice.ok() ? choice->algorithm : Algorithm::kAuto;
}

// The well-known formulas, a = latency, b = seconds a byte.
TEST(CostTest, EqualsTheFormulasOfTheBooks) {
  const double a = 1e-5, b = 1e-9;
  const int64_t n = 1 << 20;
  const Topology t = Flat(a, 1 / b);
  for (int p : {2, 4, 8}) {
    const CollectiveGroup group{p, 0, {}};
    const double log_p = std::log2(p);
    const double part = n * b * (p - 1) / p;
    auto seconds = [&](Kind kind, Algorithm algorithm) {
      return CostOf(kind, algorithm, n, group, t).seconds;
    };
    auto near = [](double x) { return testing::DoubleNear(x, x * 1e-9); };
    EXPECT_THAT(seconds(Kind::kAllReduce, Algorithm::kRing),
                near(2 * (p - 1) * a + 2 * part));
    EXPECT_THAT(seconds(Kind::kAllReduce, Algorithm::kHalvingDoubling),
                near(2 * log_p * a + 2 * part));
    EXPECT_THAT(seconds(Kind::kAllReduce, Algorithm::kThreeStage),
                near(2 * a + 2 * part));
    EXPECT_THAT(seconds(Kind::kAllReduce, Algorithm::kTree),
                near(2 * log_p * (a + n * b)));
    EXPECT_THAT(seconds(Kind::kAllReduce, Algorithm::kDirect),
                near(a + (p - 1) * n * b));
    EXPECT_THAT(seconds(Kind::kAllGather, Algorithm::kRing),
                near((p - 1) * a + part));
    EXPECT_THAT(seconds(Kind::kBroadcast, Algorithm::kTree),
                near(log_p * (a + n * b)));
    EXPECT_THAT(seconds(Kind::kGather, Algorithm::kTree),
                near(log_p * a + part));
    EXPECT_THAT(seconds(Kind::kAllToAll, Algorithm::kDirect), near(a + part));
  }
}

TEST(CostTest, CountsBytesAndSteps) {
  const CollectiveGroup group = TwoHosts(4);
  CollectiveCost cost =
      CostOf(Kind::kAllReduce, Algorithm::kThreeStage, 400, group, {});
  EXPECT_EQ(cost.steps, 2);
  EXPECT_EQ(cost.rank_bytes, 600);
  EXPECT_EQ(cost.total_bytes, 2400);
  EXPECT_EQ(cost.across_bytes, 1600);
  // Hierarchical sends less across: 2 x 1/2 of the bytes for each host.
  cost = CostOf(Kind::kAllReduce, Algorithm::kHierarchical, 400, group, {});
  EXPECT_EQ(cost.steps, 4);
  EXPECT_EQ(cost.across_bytes, 800);
  // Nothing moves: no step.
  cost = CostOf(Kind::kAllReduce, Algorithm::kRing, 0, group, {});
  EXPECT_EQ(cost.steps, 0);
  EXPECT_EQ(cost.seconds, 0);
}

TEST(ChooseTest, BySizeAndTopology) {
  const CollectiveGroup eight{8, 0, {}};
  // Short messages: few steps. Long ones: few bytes.
  EXPECT_EQ(ChoiceOf(Kind::kBroadcast, 64, eight, Flat(1e-5, 1e9)),
            Algorithm::kDirect);
  EXPECT_NE(ChoiceOf(Kind::kBroadcast, 64 << 20, eight), Algorithm::kDirect);
  EXPECT_EQ(ChoiceOf(Kind::kAllReduce, 64 << 20, eight, Flat(1e-5, 1e9)),
            Algorithm::kThreeStage);
  // Each message keeps a rank busy: fewer of them.
  Topology busy = Flat(1e-6, 1e9);
  busy.in_host.per_message_s = 1e-4;
  EXPECT_EQ(ChoiceOf(Kind::kAllReduce, 1 << 20, eight, busy),
            Algorithm::kHalvingDoubling);
  // And of a small sum the fewest, where more than two ranks have a power.
  for (int ranks : {2, 3, 4, 8, 16}) {
    EXPECT_EQ(ChoiceOf(Kind::kAllReduce, 4 << 10, {ranks, 0, {}}),
              ranks < 4 ? Algorithm::kDirect : Algorithm::kDoubling)
        << ranks;
  }
  // Slow between hosts.
  EXPECT_EQ(ChoiceOf(Kind::kAllReduce, 64 << 20, TwoHosts(8)),
            Algorithm::kHierarchical);
}

TEST(ChooseTest, ByOrderClass) {
  const CollectiveGroup group{6, 0, {}};
  for (int64_t bytes : {64, 1 << 14, 64 << 20}) {
    EXPECT_EQ(
        ChoiceOf(Kind::kReduceScatter, bytes, group, {}, OrderClass::kRing),
        Algorithm::kRing);
    EXPECT_NE(
        ChoiceOf(Kind::kReduceScatter, bytes, group, {}, OrderClass::kTree),
        Algorithm::kRing);
    // A class asks nothing of what only moves.
    EXPECT_EQ(ChoiceOf(Kind::kAllToAll, bytes, group, {}, OrderClass::kRing),
              Algorithm::kDirect);
  }
}

// All a rank's messages are nodes of its plan.
TEST(ChooseTest, FewMessagesWithManyRanks) {
  for (int size : {8, 16, 60, 64, 100, 256, 1000}) {
    for (int64_t bytes : {4, 4 << 10, 64 << 10}) {
      auto choice = ChooseAlgorithm(Kind::kAllReduce, bytes, {size, 0, {}}, {},
                                    OrderClass::kTree);
      ASSERT_TRUE(choice.ok()) << choice.status();
      EXPECT_LE(choice->cost.messages, FewMessages(size)) << size << "\n"
                                                          << choice->explain;
    }
  }
  // Where that would take far longer, many.
  auto choice = ChooseAlgorithm(Kind::kAllReduce, 64 << 20, {60, 0, {}}, {},
                                OrderClass::kTree);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->algorithm, Algorithm::kThreeStage) << choice->explain;
  EXPECT_EQ(choice->cost.messages, 4 * 59);
  EXPECT_THAT(choice->explain, HasSubstr("236 messages"));
}

TEST(ChooseTest, ExplainsTheAlternatives) {
  auto choice = ChooseAlgorithm(Kind::kAllReduce, 1 << 20, {6, 0, {}}, {},
                                OrderClass::kTree);
  ASSERT_TRUE(choice.ok());
  for (int i = 1; i < kNumCollectiveAlgorithms; ++i) {
    EXPECT_THAT(choice->explain,
                HasSubstr(std::string(Name(static_cast<Algorithm>(i))) + ": "));
  }
  EXPECT_THAT(choice->explain, HasSubstr("order RING (TREE is asked for)"));
  EXPECT_THAT(choice->explain, HasSubstr("a power of two"));
  EXPECT_THAT(choice->explain, HasSubstr(" (chosen)"));
  EXPECT_EQ(choice->explain, ChooseAlgorithm(Kind::kAllReduce, 1 << 20,
                                             {6, 0, {}}, {}, OrderClass::kTree)
                                 ->explain);
}

// ---- Schedules

// Whatever the algorithm, every position has in the end what the kind promises,
// and no rank sends a place that it never had.
TEST(ScheduleTest, MovesWhatIsThere) {
  for (int k = 0; k < kNumCollectiveKinds; ++k) {
    const auto kind = static_cast<Kind>(k);
    for (int size = 2; size <= 16; ++size) {
      for (int root = 0; root < size; root += 3) {
        CollectiveGroup group =
            size % 2 == 0 ? TwoHosts(size) : CollectiveGroup{size, 0, {}};
        group.root = root;
        for (Algorithm algorithm : AlgorithmsFor(kind, group)) {
          const CollectiveSchedule s = MakeSchedule(kind, algorithm, group);
          std::vector<std::vector<bool>> has(size);
          for (int p = 0; p < size; ++p) {
            for (int block : s.order) {
              has[p].push_back(HasBefore(kind, group, p, block));
            }
          }
          for (const CollectiveStep& step : s.steps) {
            std::set<std::pair<int, int>> pairs;
            std::map<int, int> shared;  // where contributions go, by receiver
            for (const CollectiveMove& m : step.moves) {
              // One channel a pair, step and chunk; one range a receiver.
              ASSERT_TRUE(pairs.insert({m.from, m.to}).second);
              if (m.action == CollectiveAction::kContribute) {
                ASSERT_EQ(shared.emplace(m.to, m.target).first->second,
                          m.target);
              }
              for (int i = 0; i < m.count; ++i) {
                ASSERT_TRUE(has[m.from][m.source + i])
                    << Name(kind) << " " << Name(algorithm) << " " << size;
              }
            }
            for (const CollectiveMove& m : step.moves) {
              for (int i = 0; i < m.count; ++i) has[m.to][m.target + i] = true;
            }
          }
          for (int p = 0; p < size; ++p) {
            for (int v = 0; v < s.num_blocks; ++v) {
              if (!HasAfter(kind, group, p, s.order[v])) continue;
              ASSERT_TRUE(has[p][v])
                  << Name(kind) << " " << Name(algorithm) << " " << size;
            }
          }
        }
      }
    }
  }
}

TEST(ScheduleTest, BalancedBlocks) {
  EXPECT_THAT(BlockSizes(7, 3), ElementsAre(3, 2, 2));
  EXPECT_THAT(BlockSizes(2, 4), ElementsAre(1, 1, 0, 0));
}

TEST(KindsTest, AlignedHosts) {
  EXPECT_EQ(AlignedHostSize({4, 0, {{0, 1}, {2, 3}}}), 2);
  EXPECT_EQ(AlignedHostSize({4, 0, {{0, 1, 2, 3}}}), 4);
  EXPECT_EQ(AlignedHostSize({4, 0, {}}), 0);
  EXPECT_EQ(AlignedHostSize({4, 0, {{0, 1}, {3, 2}}}), 0);
  EXPECT_EQ(AlignedHostSize({3, 0, {{0, 1}, {2}}}), 0);
  EXPECT_EQ(AlignedHostSize({6, 0, {{0, 1, 2}, {3, 4, 5}}}), 0);
}

TEST(InPlaceTest, OfNoMoreRanksThanKernelsTake) {
  Topology maps;
  maps.mapped_bytes = 1;
  for (const auto& [kind, algorithm] :
       {std::make_pair(Kind::kAllReduce, Algorithm::kThreeStage),
        std::make_pair(Kind::kAllGather, Algorithm::kDirect)}) {
    for (int ranks : {1, 2, 32, 33}) {
      EXPECT_EQ(InPlace(kind, algorithm, int64_t{ranks} << 20, {ranks}, maps),
                ranks == 2 || ranks == 32)
          << ranks;
    }
  }
}

TEST(InPlaceTest, NotCutNorNarrowNorGatheredByMicroBatches) {
  Topology maps;
  maps.mapped_bytes = 1;
  for (const auto& [kind, algorithm] :
       {std::make_pair(Kind::kAllReduce, Algorithm::kThreeStage),
        std::make_pair(Kind::kAllGather, Algorithm::kDirect)}) {
    const auto in_place = [&, kind = kind, algorithm = algorithm](
                              const CollectiveManner& manner) {
      return InPlace(kind, algorithm, 1 << 20, {2}, maps, manner);
    };
    EXPECT_TRUE(in_place({}));
    EXPECT_EQ(in_place({/*micro=*/true}), kind == Kind::kAllReduce);
    EXPECT_FALSE(in_place({false, /*cut=*/true}));
    EXPECT_FALSE(in_place({false, false, /*narrow=*/true}));
  }
}

// What is mapped costs what is read or written of it, each part once by each
// rank that did not have it; a sum in place leaves its result where it belongs.
TEST(InPlaceTest, CostsWhatIsCopied) {
  Topology t;
  t.in_host = {1e-5, 0, 1};  // sending would take for ever
  t.reduce_bytes_per_s = 1e9;
  t.mapped_bytes = 1;
  const int64_t bytes = 1 << 20;
  const auto near = [](double x) { return testing::DoubleNear(x, x * 1e-9); };
  for (int ranks : {2, 4}) {
    const CollectiveGroup group = {ranks, 0, {}};
    const auto seconds = [&](Kind kind, Algorithm algorithm,
                             const CollectiveManner& manner) {
      return CostOf(kind, algorithm, bytes, group, t, manner).seconds;
    };
    const double others = 1e-9 * bytes * (ranks - 1) / ranks;
    // By the owner, who writes it to all, or by each reader, with its own.
    EXPECT_THAT(seconds(Kind::kAllGather, Algorithm::kDirect, {}),
                near(1e-5 + others));
    EXPECT_THAT(seconds(Kind::kAllGather, Algorithm::kDirect, {/*micro=*/true}),
                near(1e-5 + 1e-9 * bytes));
    EXPECT_THAT(seconds(Kind::kAllReduce, Algorithm::kThreeStage, {}),
                near(2e-5 + others));
    EXPECT_THAT(
        seconds(Kind::kAllReduce, Algorithm::kThreeStage, {/*micro=*/true}),
        near(2e-5 + others));
    EXPECT_THAT(seconds(Kind::kAllReduce, Algorithm::kThreeStage,
                        {false, /*cut=*/true}),
                near(2e-5 + 2 * others));
  }
}

// ---- Ropes

class RopeTest : public testing::Test {
 protected:
  Value Variable(const char* name, int64_t length) {
    auto node = graph_.Add(
        "weft.Variable", name, {},
        {{"dtype", DType::kF32}, {"shape", std::vector<int64_t>{length}}});
    EXPECT_TRUE(node.ok()) << node.status();
    return (*node)->output(0);
  }

  Graph graph_{"g"};
  GraphEmitter emit_{&graph_, "", ""};
};

TEST_F(RopeTest, MakesAsFewNodesAsItCan) {
  Value x = Variable("x", 6), y = Variable("y", 2);
  Rope rope(&emit_);
  rope.Put(0, {x, 0, 4});
  rope.Put(4, {x, 4, 2});
  EXPECT_EQ(rope.Get(0, 6), x);  // successive pieces of one value
  Value slice = rope.Get(2, 5);
  EXPECT_EQ(graph_.node(slice)->op(), "Slice");
  EXPECT_EQ(rope.Get(2, 5), slice);
  EXPECT_EQ(rope.Get(0, 6), x);
  rope.Put(4, {y, 0, 2});
  EXPECT_EQ(rope.Get(4, 6), y);
  Value both = rope.Get(3, 6);
  EXPECT_EQ(graph_.node(both)->op(), "Concat");
  EXPECT_EQ(graph_.node(both)->input(1), y);
  EXPECT_EQ(rope.Get(3, 6), both);
  EXPECT_EQ(graph_.num_nodes(), 2 + 3);  // two slices of x, one concat
  EXPECT_TRUE(emit_.status().ok()) << emit_.status();
}

TEST_F(RopeTest, PutCutsWhatIsThere) {
  Value x = Variable("x", 6), y = Variable("y", 2);
  Rope rope(&emit_);
  rope.Put(0, {x, 0, 6});
  rope.Put(2, {y, 0, 2});
  rope.Put(3, {x, 0, 0});  // nothing
  std::vector<RopePiece> pieces = rope.Pieces(1, 6);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].offset, 1);
  EXPECT_EQ(pieces[0].length, 1);
  EXPECT_EQ(pieces[1].value, y);
  EXPECT_EQ(pieces[2].offset, 4);
  EXPECT_EQ(pieces[2].length, 2);
}

}  // namespace
}  // namespace weft
