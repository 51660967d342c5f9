#include "core/actor/pattern.h"

#include "gtest/gtest.h"

namespace weft::actor {
namespace {

TEST(PatternTest, OfOneActDoesBothAtThatAct) {
  EXPECT_EQ(Held(1), EveryAct());
  EXPECT_EQ(Accumulated(1), EveryAct());
  EXPECT_EQ(GivenLast(1), EveryAct());
  EXPECT_EQ(Shortest(Sliced(3)), Sliced(1));
  EXPECT_EQ(PatternBits("", 5), kTake | kAck);
  EXPECT_EQ(PatternBits(Held(3), 3), kTake);
  EXPECT_EQ(PatternBits(Held(3), 5), kAck);
}

TEST(PatternTest, OpensAndClosesWhereItsNameSays) {
  EXPECT_EQ(Held(3), std::string({kTake, 0, kAck}));
  EXPECT_EQ(Accumulated(3), std::string({kAcquire, 0, kGive}));
  EXPECT_EQ(GivenLast(3), std::string({0, 0, kAcquire | kGive}));
  EXPECT_EQ(Sliced(2), std::string({kGive, kGive}));
  EXPECT_EQ(SharedPhase(), std::string({kAcquire | kGive, kHome}));
  EXPECT_EQ(ExclusivePhase(), std::string({kHome, kAcquire | kGive}));
}

}  // namespace
}  // namespace weft::actor
