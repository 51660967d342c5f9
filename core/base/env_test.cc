#include "core/base/env.h"

#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(EnvironmentTest, ReadsTheProcess) {
  EXPECT_TRUE(Environment::FromProcess().Get("TEST_TMPDIR").has_value());
  EXPECT_FALSE(Environment::FromProcess().Get("NO_SUCH_VARIABLE").has_value());
}

TEST(EnvironmentTest, KnownVariablesPass) {
  for (const WeftVariable& v : WeftVariables()) {
    Environment env = Environment::Of({{std::string(v.name), "x"}});
    EXPECT_TRUE(env.CheckWeftVariables().ok()) << v.name;
  }
  EXPECT_TRUE(Environment::Of({{"PATH", "/bin"}}).CheckWeftVariables().ok());
}

TEST(EnvironmentTest, AnEmptyDirectoryIsNone) {
  Environment env = Environment::Of({{"WEFT_RUNS_DIR", ""}});
  EXPECT_TRUE(IsError(env.CheckWeftVariables(), ErrorCode::kBadValue));
}

TEST(EnvironmentTest, UnknownVariablesAreNamed) {
  Environment env = Environment::Of({{"WEFT_DEVICE", "cpu"}});
  absl::Status status = env.CheckWeftVariables();
  EXPECT_TRUE(IsError(status, ErrorCode::kUnknownEnvironment));
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("did you mean 'WEFT_DEVICES'"));
}

}  // namespace
}  // namespace weft
