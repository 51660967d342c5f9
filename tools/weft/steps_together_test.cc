#include "tools/weft/steps_together.h"

#include <vector>

#include "gtest/gtest.h"

namespace weft {
namespace {

uint64_t Of(const std::vector<std::string>& said) {
  return StepsTogether(said);
}

TEST(StepsTogether, ASecondOfTheSlowestRank) {
  EXPECT_EQ(Of({"1000000", "2000000"}), 500u);
  EXPECT_EQ(Of({"2000000", "1000000"}), 500u);
}

TEST(StepsTogether, NeitherOftenNorForEver) {
  EXPECT_EQ(Of({"70000000", "1"}), 14u);
  EXPECT_EQ(Of({"9000000000", "1"}), 1u);  // longer than a second
  EXPECT_EQ(Of({"1", "1"}), 65536u);
}

TEST(StepsTogether, OneWhileNobodyKnowsHowLongAStepTakes) {
  EXPECT_EQ(Of({"0", "0"}), 1u);
}

TEST(StepsTogether, NoneWhereOneWantsToStop) {
  EXPECT_EQ(Of({"1000000", kStopWish}), 0u);
  EXPECT_EQ(Of({kStopWish, "0"}), 0u);
}

}  // namespace
}  // namespace weft
