#include "runtime/session/spin.h"

#include "gtest/gtest.h"

namespace weft::runtime {
namespace {

bool Spins(const SpinPlace& place, uint32_t worker) {
  return SpinNsOf(place, worker) != 0;
}

TEST(Spin, OneRankSpinsWhereEachWorkerHasACore) {
  for (uint32_t worker : {0u, 1u}) {
    EXPECT_TRUE(Spins({/*cores=*/2, 1, /*workers=*/2}, worker));
    EXPECT_FALSE(Spins({/*cores=*/2, 1, /*workers=*/3}, worker));
    EXPECT_FALSE(Spins({/*cores=*/1, 1, /*workers=*/1}, worker));
  }
}

// The worker that reads data took a third of its neighbour's core.
TEST(Spin, OnlyTheFirstWorkerSpinsWhereEachRankHasACore) {
  const SpinPlace two_ranks_two_cores{2, 2, 2, /*peers=*/true};
  EXPECT_TRUE(Spins(two_ranks_two_cores, 0));
  EXPECT_FALSE(Spins(two_ranks_two_cores, 1));
  const SpinPlace bound_to_a_core{1, 1, 2, /*peers=*/true};
  EXPECT_TRUE(Spins(bound_to_a_core, 0));
  EXPECT_FALSE(Spins(bound_to_a_core, 1));
}

TEST(Spin, NobodySpinsWhereRanksShareACore) {
  for (uint32_t worker : {0u, 1u}) {
    EXPECT_FALSE(Spins({2, /*ranks=*/4, 2, true}, worker));
    EXPECT_FALSE(Spins({1, /*ranks=*/2, 2, true}, worker));
  }
}

TEST(Spin, AllSpinWhereCoresAreLeft) {
  for (uint32_t worker : {0u, 1u}) {
    EXPECT_TRUE(Spins({4, /*ranks=*/2, /*workers=*/2, true}, worker));
  }
}

TEST(Spin, LongerForPeersThanForTheOwnRank) {
  const SpinPlace place{4, 2, 2, true};
  EXPECT_GT(SpinNsOf(place, 0), SpinNsOf(place, 1));
}

}  // namespace
}  // namespace weft::runtime
