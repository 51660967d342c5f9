#include "core/base/ring.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(RingTest, CapacityIsAPowerOfTwo) {
  EXPECT_EQ(RingCapacity(0), 2u);
  EXPECT_EQ(RingCapacity(2), 2u);
  EXPECT_EQ(RingCapacity(5), 8u);
}

TEST(RingTest, KeepsOrderAcrossManyRounds) {
  Ring<uint64_t> ring(5);
  EXPECT_EQ(ring.capacity(), 8u);
  uint64_t pushed = 0, popped = 0;
  for (int round = 0; round < 100; ++round) {
    for (uint32_t i = 0; i < 1 + round % 8u; ++i) ring.Push(pushed++);
    EXPECT_EQ(ring.Front(), popped);
    while (!ring.empty()) EXPECT_EQ(ring.Pop(), popped++);
  }
  EXPECT_EQ(pushed, popped);
}

TEST(RingTest, AWriterAddsSeveralAtOnce) {
  Ring<int> ring(4);
  ring.Push(1);
  Ring<int>::Writer writer = ring.BeginPush();
  *writer.Next() = 2;
  *writer.Next() = 3;
  EXPECT_EQ(ring.size(), 1u);
  ring.EndPush(writer);
  EXPECT_EQ(ring.size(), 3u);
  for (int want : {1, 2, 3}) EXPECT_EQ(ring.Pop(), want);
}

TEST(RingDeathTest, OverflowIsADefect) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  Ring<int> ring(2);
  ring.Push(1);
  ring.Push(2);
  EXPECT_DEATH(ring.Push(3), "overflowed");
  Ring<int>::Writer writer = ring.BeginPush();
  writer.Next();
  EXPECT_DEATH(ring.EndPush(writer), "overflowed");
}

}  // namespace
}  // namespace weft
