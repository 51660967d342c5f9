#include "core/base/descriptors.h"

#include <sys/resource.h>

#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

rlim_t Soft() {
  rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

TEST(ReserveDescriptorsTest, RaisesTheLimitAsFarAsItMay) {
  const rlimit limit = {40, 80};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(ReserveDescriptors(30, "it").ok());
  EXPECT_EQ(Soft(), 40u);
  EXPECT_TRUE(ReserveDescriptors(70, "it").ok());
  EXPECT_EQ(Soft(), 70u);
  const absl::Status refused = ReserveDescriptors(81, "a rank of 9");
  EXPECT_TRUE(IsError(refused, ErrorCode::kNoDescriptor)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("a rank of 9 needs some 81 file descriptors, the limit "
                        "is 80"));
  EXPECT_EQ(Soft(), 70u);
}

}  // namespace
}  // namespace weft
