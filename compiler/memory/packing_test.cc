#include "compiler/memory/packing.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "compiler/memory/state_layout.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

uint64_t Next(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

bool Together(const Block& a, const Block& b) {
  return a.first <= b.last && b.first <= a.last;
}

// Fails where two blocks that live together overlap, or one sticks out.
void ExpectLegal(const std::vector<Block>& blocks, const Packing& packing,
                 uint64_t alignment) {
  ASSERT_EQ(packing.offsets.size(), blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(packing.offsets[i] % alignment, 0u);
    EXPECT_LE(packing.offsets[i] + blocks[i].bytes, packing.bytes);
    for (size_t j = 0; j < i; ++j) {
      if (!Together(blocks[i], blocks[j])) continue;
      bool apart = packing.offsets[i] + blocks[i].bytes <= packing.offsets[j] ||
                   packing.offsets[j] + blocks[j].bytes <= packing.offsets[i];
      EXPECT_TRUE(apart || blocks[i].bytes == 0 || blocks[j].bytes == 0)
          << i << " and " << j;
    }
  }
}

// First fit in a given order; the search's step.
uint64_t FirstFit(const std::vector<Block>& blocks,
                  const std::vector<int>& order, uint64_t alignment) {
  std::vector<uint64_t> at(blocks.size(), 0);
  std::vector<int> placed;
  uint64_t top = 0;
  for (int b : order) {
    uint64_t offset = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (int p : placed) {
        uint64_t end = at[p] + AlignUp(blocks[p].bytes, alignment);
        if (!Together(blocks[b], blocks[p]) || end <= offset ||
            at[p] >= offset + AlignUp(blocks[b].bytes, alignment)) {
          continue;
        }
        offset = end;
        moved = true;
      }
    }
    at[b] = offset;
    placed.push_back(b);
    top = std::max(top, offset + AlignUp(blocks[b].bytes, alignment));
  }
  return top;
}

// The best of many random orders.
uint64_t BestBySearch(const std::vector<Block>& blocks, uint64_t alignment,
                      int tries, uint64_t seed) {
  std::vector<int> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  uint64_t best = FirstFit(blocks, order, alignment);
  for (int t = 0; t < tries; ++t) {
    for (size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[Next(&seed) % i]);
    }
    best = std::min(best, FirstFit(blocks, order, alignment));
  }
  return best;
}

TEST(PackingTest, SharesBytesOfBlocksThatNeverMeet) {
  std::vector<Block> blocks = {{1024, 0, 3}, {512, 2, 5}, {1024, 4, 6}};
  Packing packing = PackBlocks(blocks, 64);
  ExpectLegal(blocks, packing, 64);
  EXPECT_EQ(packing.bytes, 1536u);
  EXPECT_EQ(MostLiveBytes(blocks, 64), 1536u);
}

TEST(PackingTest, NothingAndEmptyBlocks) {
  EXPECT_EQ(PackBlocks({}, 64).bytes, 0u);
  std::vector<Block> blocks = {{0, 0, 1}, {1, 0, 1}};
  Packing packing = PackBlocks(blocks, 64);
  EXPECT_EQ(packing.bytes, 64u);
  ExpectLegal(blocks, packing, 64);
}

TEST(PackingTest, WithinTenPercentOfTheBestFoundBySearch) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    uint64_t state = seed;
    std::vector<Block> blocks;
    const int n = 10 + static_cast<int>(Next(&state) % 20);
    for (int i = 0; i < n; ++i) {
      int first = static_cast<int>(Next(&state) % n);
      int life = static_cast<int>(Next(&state) % 8);
      blocks.push_back({64 * (1 + Next(&state) % 50), first, first + life});
    }
    Packing packing = PackBlocks(blocks, 64);
    ExpectLegal(blocks, packing, 64);
    uint64_t best = BestBySearch(blocks, 64, 1000, seed);
    EXPECT_LE(static_cast<double>(packing.bytes), 1.1 * best) << seed;
    EXPECT_GE(packing.bytes, MostLiveBytes(blocks, 64));
  }
}

// Forward values live until their backward reader: the shape of training.
TEST(PackingTest, TrainingChainIsNearTheBound) {
  std::vector<Block> blocks;
  const int layers = 20;
  for (int i = 0; i < layers; ++i) {
    blocks.push_back({4096u << (i % 3), i, 2 * layers - i});
    blocks.push_back({4096u << (i % 3), 2 * layers - i, 2 * layers - i + 1});
  }
  Packing packing = PackBlocks(blocks, 64);
  ExpectLegal(blocks, packing, 64);
  EXPECT_LE(static_cast<double>(packing.bytes),
            1.05 * MostLiveBytes(blocks, 64));
}

TEST(PackingTest, ConflictsWithoutTime) {
  // A path 0 - 1 - 2 - 3: two colours are enough.
  std::vector<uint64_t> bytes = {100, 100, 100, 100};
  Packing packing =
      PackConflicting(bytes, 1, [](int i, int j) { return j - i == 1; });
  EXPECT_EQ(packing.bytes, 200u);
  Packing apart = PackConflicting(bytes, 1, [](int, int) { return true; });
  EXPECT_EQ(apart.bytes, 400u);
}

}  // namespace
}  // namespace weft
