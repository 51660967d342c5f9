#include "core/base/suggest.h"

#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(EditDistance, CountsEditsIgnoringCase) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("abc", ""), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("relu", "Relu"), 0);
  EXPECT_EQ(EditDistance("axsi", "axis"), 1);  // neighbours swapped
}

TEST(DidYouMean, NamesTheNearestWithinAThirdOfTheWord) {
  std::vector<std::string> ops = {"Relu", "weft.Gelu", "MatMul", "MaxPool"};
  EXPECT_EQ(DidYouMean("Matmull", ops), "; did you mean 'MatMul'?");
  EXPECT_EQ(DidYouMean("Rel", ops), "; did you mean 'Relu'?");
  EXPECT_EQ(DidYouMean("Convolution", ops), "");
  EXPECT_EQ(DidYouMean("x", {}), "");
}

TEST(DidYouMean, TiesGoToTheFirst) {
  EXPECT_EQ(Nearest("bat", std::vector<std::string>{"cat", "hat"}), "cat");
}

}  // namespace
}  // namespace weft
