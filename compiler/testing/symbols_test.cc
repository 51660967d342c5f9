#include "compiler/testing/symbols.h"

#include <cstdint>
#include <vector>

#include "core/ops/schema.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

// Results that may lie in any operand are one value; squares of it are another.
TEST(OpSymbolsTest, ResultsToAllAreOneValueAndTheirSquaresAnother) {
  plan::Kernel kernel;
  kernel.set_op(static_cast<uint32_t>(OpId::kReduceToAll));
  const std::vector<uint64_t> got = OpSymbols(kernel, {11, 12}, 3);
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0], got[1]);
  EXPECT_NE(got[0], got[2]);
}

TEST(OpSymbolsTest, ResultsOfOtherOpsDiffer) {
  plan::Kernel kernel;
  kernel.set_op(static_cast<uint32_t>(OpId::kSplit));
  const std::vector<uint64_t> got = OpSymbols(kernel, {11}, 2);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_NE(got[0], got[1]);
}

}  // namespace
}  // namespace weft
