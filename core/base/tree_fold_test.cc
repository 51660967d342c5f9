#include "core/base/tree_fold.h"

#include <string>

#include "gtest/gtest.h"

namespace weft {
namespace {

std::string Fold(const std::string& parts) {
  TreeFold<std::string> fold([](const std::string& a, const std::string& b) {
    return "(" + a + b + ")";
  });
  for (char part : parts) fold.Take(std::string(1, part));
  return fold.Total();
}

TEST(TreeFoldTest, IsBalancedByPosition) {
  EXPECT_EQ(Fold("0"), "0");
  EXPECT_EQ(Fold("01"), "(01)");
  EXPECT_EQ(Fold("012"), "((01)2)");
  EXPECT_EQ(Fold("01234"), "(((01)(23))4)");
  EXPECT_EQ(Fold("0123456"), "(((01)(23))((45)6))");
  EXPECT_EQ(Fold("01234567"), "(((01)(23))((45)(67)))");
}

}  // namespace
}  // namespace weft
