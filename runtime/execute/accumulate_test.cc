#include "runtime/execute/accumulate.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace weft::runtime {
namespace {

// Runs the steps on text: the result shows the order of every addition.
std::string Sum(uint32_t acts) {
  std::map<int, std::string> memory;
  for (uint32_t act = 0; act < acts; ++act) {
    memory[kAccumulateInput] = absl::StrCat(act);
    if (act + 1 < acts) memory[kAccumulateOutput] = "another's";
    for (const AccumulateStep& s : AccumulateSteps(act, acts)) {
      EXPECT_NE(s.result, s.left) << act << " of " << acts;
      EXPECT_NE(s.result, s.right) << act << " of " << acts;
      EXPECT_NE(s.result, kAccumulateInput);
      EXPECT_LT(s.result, static_cast<int>(NumAccumulators(acts)));
      memory[s.result] =
          s.left == kAccumulateNothing
              ? memory.at(s.right)
              : absl::StrCat("(", memory.at(s.left), memory.at(s.right), ")");
    }
    // Until it is acquired, at the last act, the output is not touched.
    if (act + 1 < acts) {
      EXPECT_EQ(memory[kAccumulateOutput], "another's")
          << act << " of " << acts;
    }
  }
  return memory[kAccumulateOutput];
}

// The definition: full trees of the binary digits of n, lowest added first.
std::string Tree(uint32_t first, uint32_t n) {
  if (n == 1) return absl::StrCat(first);
  return absl::StrCat("(", Tree(first, n / 2), Tree(first + n / 2, n / 2), ")");
}

std::string Expected(uint32_t n) {
  std::string sum;
  for (uint32_t done = n, bit = 1; done > 0; bit *= 2) {
    if ((n & bit) == 0) continue;
    done -= bit;
    std::string part = Tree(done, bit);
    sum = sum.empty() ? part : absl::StrCat("(", part, sum, ")");
  }
  return sum;
}

TEST(AccumulateTest, TreeOverTheIndex) {
  EXPECT_EQ(Sum(1), "0");
  EXPECT_EQ(Sum(4), "((01)(23))");
  EXPECT_EQ(Sum(7), "(((01)(23))((45)6))");
  for (uint32_t n = 1; n <= 300; ++n) ASSERT_EQ(Sum(n), Expected(n)) << n;
}

}  // namespace
}  // namespace weft::runtime
