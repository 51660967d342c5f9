#include "compiler/memory/packing.h"

#include <vector>

#include "compiler/memory/testing/packing_search.h"
#include "core/base/align.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

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

PackingProblem ProblemOf(const std::vector<Block>& blocks, uint64_t alignment) {
  PackingProblem problem;
  for (const Block& a : blocks) {
    problem.bytes.push_back(AlignUp(a.bytes, alignment));
    std::vector<bool> row;
    for (const Block& b : blocks) row.push_back(Together(a, b));
    problem.conflict.push_back(std::move(row));
  }
  return problem;
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
    const int n = 10 + static_cast<int>(NextRandom(&state, 20));
    for (int i = 0; i < n; ++i) {
      int first = static_cast<int>(NextRandom(&state, n));
      int life = static_cast<int>(NextRandom(&state, 8));
      blocks.push_back(
          {64 * (1 + NextRandom(&state, 50)), first, first + life});
    }
    Packing packing = PackBlocks(blocks, 64);
    ExpectLegal(blocks, packing, 64);
    uint64_t best = BestBySearch(ProblemOf(blocks, 64), 1000, seed);
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
  ConflictMatrix path(4);
  for (int i = 0; i < 3; ++i) path.Set(i, i + 1);
  EXPECT_EQ(PackConflicting(bytes, 1, path, {0, 1, 2, 3}).bytes, 200u);
  ConflictMatrix all(4);
  for (int i = 0; i < 4; ++i) all.SetRun(i, 0, 4);
  all.Mirror();
  EXPECT_EQ(PackConflicting(bytes, 1, all, {3, 2, 1, 0}).bytes, 400u);
}

TEST(ConflictMatrixTest, RunsAndTheirMirror) {
  const int n = 200;
  ConflictMatrix matrix(n);
  std::vector<std::vector<bool>> expected(n, std::vector<bool>(n, false));
  uint64_t state = 7;
  for (int i = 0; i < n; ++i) {
    const int from = static_cast<int>(NextRandom(&state, n));
    const int to = from + static_cast<int>(NextRandom(&state, n + 1 - from));
    matrix.SetRun(i, from, to);
    for (int j = from; j < to; ++j) {
      if (i != j) expected[i][j] = expected[j][i] = true;
    }
  }
  matrix.Mirror();
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      ASSERT_EQ(matrix.Has(i, j), expected[i][j]) << i << " " << j;
    }
  }
}

}  // namespace
}  // namespace weft
