#include "tools/weft/address_space.h"

#include <sys/resource.h>

#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/host/services.h"

namespace weft {
namespace {

TEST(AddressSpaceTest, WithoutALimitNothingIsRefused) {
  EXPECT_TRUE(CheckAddressSpace(~uint64_t{0}).ok());
}

TEST(AddressSpaceTest, WhatDoesNotFitIsRefused) {
  if ((HostServices::BuildFlags() & WEFT_BUILD_TSAN) != 0) {
    GTEST_SKIP() << "the thread sanitizer maps all the addresses there are";
  }
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  // Far above what the address sanitizer maps.
  const rlim_t bound = rlim_t{1} << 46;
  rlimit limit = {bound, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  SpareAddressSpace();
  EXPECT_TRUE(CheckAddressSpace(1 << 20).ok());
  for (uint64_t bytes : {uint64_t{bound}, ~uint64_t{0}}) {
    absl::Status status = CheckAddressSpace(bytes);
    EXPECT_TRUE(IsError(status, ErrorCode::kOutOfMemory)) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("ulimit -v"));
  }
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
}

}  // namespace
}  // namespace weft
