#include "core/base/pattern.h"

#include <string>

#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

TEST(PatternTest, MatchesTheWholeOrAPart) {
  absl::StatusOr<Pattern> pattern = Pattern::Compile("bias|norm");
  ASSERT_TRUE(pattern.ok()) << pattern.status();
  EXPECT_TRUE(pattern->MatchesAll("bias"));
  EXPECT_FALSE(pattern->MatchesAll("fc1/bias"));
  EXPECT_TRUE(pattern->MatchesPart("fc1/bias"));
  EXPECT_FALSE(pattern->MatchesPart("fc1/weight"));
}

TEST(PatternTest, AnEmptyPatternMatchesOnlyAnEmptyWhole) {
  absl::StatusOr<Pattern> pattern = Pattern::Compile("");
  ASSERT_TRUE(pattern.ok()) << pattern.status();
  EXPECT_TRUE(pattern->MatchesAll(""));
  EXPECT_FALSE(pattern->MatchesAll("x"));
}

TEST(PatternTest, SaysWhatIsWrong) {
  for (const std::string& text :
       {std::string("fc(1"), std::string("*"), std::string("(a)\\1"),
        std::string("(x{900}){900}")}) {
    absl::StatusOr<Pattern> pattern = Pattern::Compile(text);
    EXPECT_TRUE(IsError(pattern.status(), ErrorCode::kBadValue)) << text;
    EXPECT_THAT(std::string(pattern.status().message()), HasSubstr(text));
  }
  absl::Status status = Pattern::Compile(std::string(1001, 'a')).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kBadValue));
  EXPECT_THAT(std::string(status.message()), HasSubstr("1001 characters"));
}

// Exponential for an engine that backtracks: the test would not end.
TEST(PatternTest, NestedRepetitionsTakeLinearTime) {
  absl::StatusOr<Pattern> pattern = Pattern::Compile("(((a*)*)*)*b");
  ASSERT_TRUE(pattern.ok()) << pattern.status();
  EXPECT_FALSE(pattern->MatchesAll(std::string(5000, 'a')));
}

}  // namespace
}  // namespace weft
