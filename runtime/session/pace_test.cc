#include "runtime/session/pace.h"

#include "gtest/gtest.h"

namespace weft::runtime {
namespace {

constexpr uint64_t kMs = 1'000'000;

TEST(PaceTest, CoversAsManyShortPeriodsAsFinishInItsTime) {
  Pace pace(2, 240);
  pace.Begin(1000, 7 * kMs);
  EXPECT_EQ(pace.Ahead(1000, 8 * kMs), 2u);
  // A millisecond each: twice as many at most.
  EXPECT_EQ(pace.Ahead(1002, 9 * kMs), 4u);
  EXPECT_EQ(pace.Ahead(1006, 13 * kMs), 8u);
  EXPECT_EQ(pace.Ahead(1014, 21 * kMs), 10u);
  EXPECT_EQ(pace.Ahead(1014, 30 * kMs), 10u);  // nothing new
}

TEST(PaceTest, StaysWithinItsBounds) {
  Pace pace(2, 9);
  pace.Begin(0, 0);
  uint64_t ahead = 0;
  for (uint64_t n = 1; n < 10; ++n) ahead = pace.Ahead(n, n);
  EXPECT_EQ(ahead, 9u);
  EXPECT_EQ(pace.Ahead(10, 1000 * kMs), 2u);  // long ones
  Pace none(0, 9);
  none.Begin(0, 0);
  EXPECT_EQ(none.Ahead(5, 1), 0u);
  Pace many(20, 9);  // what is asked for
  many.Begin(0, 0);
  EXPECT_EQ(many.Ahead(5, 1), 20u);
}

}  // namespace
}  // namespace weft::runtime
