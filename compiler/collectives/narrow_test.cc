// Collectives whose f32 travels as bf16: half the bytes, the same bits on all
// ranks, and an error within bounds.

#include "compiler/collectives/narrow.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "compiler/collectives/collective.h"
#include "compiler/collectives/kinds.h"
#include "compiler/collectives/testing.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

Collective Make(CollectiveKind kind, CollectiveAlgorithm algorithm, int ranks) {
  Collective c;
  c.kind = kind;
  c.algorithm = algorithm;
  for (int r = 0; r < ranks; ++r) c.ranks.push_back(r);
  c.name = "narrow";
  c.order = OrderClass::kNone;
  c.narrow = true;
  if (algorithm == CollectiveAlgorithm::kHierarchical && ranks % 2 == 0) {
    c.hosts.resize(2);
    for (int r = 0; r < ranks; ++r) c.hosts[r * 2 / ranks].push_back(r);
  }
  return c;
}

// Roundings on the way, each by up to 2^-8 of what is there: the operand, and
// each sum of an algorithm that adds step by step.
double Bound(int ranks) { return ranks * ranks * std::ldexp(1.0, -8); }

TEST(NarrowTest, AllRanksHaveOneResultNearTheExactOne) {
  const TensorType type{DType::kF32, Shape({37})};
  int tried = 0;
  for (int a = 0; a < kNumCollectiveAlgorithms; ++a) {
    const auto algorithm = static_cast<CollectiveAlgorithm>(a);
    for (int ranks : {2, 3, 4, 8}) {
      SCOPED_TRACE(std::string(Name(algorithm)) + " " + std::to_string(ranks));
      const Collective c = Make(CollectiveKind::kAllReduce, algorithm, ranks);
      if (algorithm != CollectiveAlgorithm::kAuto &&
          !WhyNot(c.kind, algorithm, c.group()).empty()) {
        continue;
      }
      ++tried;
      const auto operands = Operands(c, type, Values::kRandom);
      auto results = RunCollective(c, type, operands);
      ASSERT_TRUE(results.ok()) << results.status();
      const auto exact = ExpectedResults(c, type, operands);
      for (const Literal& result : *results) EXPECT_EQ(result, (*results)[0]);
      const auto x = exact[0].ToDoubles(), y = (*results)[0].ToDoubles();
      double worst = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        worst = std::max(worst, std::abs(x[i] - y[i]));
      }
      EXPECT_LT(worst, Bound(ranks));
      EXPECT_GT(worst, 0);
    }
  }
  EXPECT_GT(tried, 15);
}

// Whole numbers that bf16 has come through whole.
TEST(NarrowTest, WhatBf16HasIsExact) {
  const TensorType type{DType::kF32, Shape({12, 4})};
  for (CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
        CollectiveKind::kAllToAll, CollectiveKind::kAllGather,
        CollectiveKind::kBroadcast}) {
    const Collective c = Make(kind, CollectiveAlgorithm::kAuto, 4);
    const auto operands = Operands(c, type, Values::kExact);
    auto results = RunCollective(c, type, operands);
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_EQ(*results, ExpectedResults(c, type, operands)) << Name(kind);
  }
}

int64_t SentBytes(const Graph& graph) {
  int64_t bytes = 0;
  for (const Node* node : graph.Nodes()) {
    if (!node->Is(OpId::kSend) || node->inputs().empty()) continue;
    bytes += static_cast<int64_t>(graph.type(node->input(0)).num_bytes());
  }
  return bytes;
}

TEST(NarrowTest, HalfTheBytesTravelAndOtherTypesAsTheyAre) {
  for (DType dtype : {DType::kF32, DType::kI32, DType::kF64}) {
    const TensorType type{dtype, Shape({64})};
    Collective c =
        Make(CollectiveKind::kAllReduce, CollectiveAlgorithm::kTree, 4);
    c.rank = 1;
    Graph narrow("narrow"), wide("wide");
    ASSERT_TRUE(AddToGraph(&narrow, c, type).ok());
    c.narrow = false;
    ASSERT_TRUE(AddToGraph(&wide, c, type).ok());
    ASSERT_GT(SentBytes(wide), 0);
    const int share = dtype == DType::kF32 ? 2 : 1;
    EXPECT_EQ(SentBytes(narrow) * share, SentBytes(wide)) << DTypeName(dtype);
  }
}

TEST(NarrowTest, WhatMayTravelNarrow) {
  const TensorType large{DType::kF32, Shape({kNarrowBytes / 4})};
  EXPECT_TRUE(MayTravelNarrow(large, {/*sum=*/true}));
  EXPECT_TRUE(MayTravelNarrow(large, {false, /*micro=*/true}));
  EXPECT_FALSE(MayTravelNarrow(large, {})) << "once a step";
  EXPECT_FALSE(MayTravelNarrow(large, {false, true, /*state=*/true}));
  EXPECT_FALSE(MayTravelNarrow({DType::kF32, Shape()}, {true, true}));
  EXPECT_FALSE(MayTravelNarrow({DType::kI32, large.shape}, {true, true}));
  EXPECT_FALSE(MayTravelNarrow({DType::kF16, large.shape}, {true, true}));
}

}  // namespace
}  // namespace weft
