#include "transport/common/greeting.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft_transport {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(GreetingTest, WhatDoesNotFitIsCutOff) {
  struct {
    uint64_t eager_max = 1;
    uint32_t eager_credits = 2;
    uint32_t max_inflight = 3;
  } options;
  const weft_transport_info info =
      InfoOf("here", std::string(10 * sizeof(info.locality), 'x'), options);
  EXPECT_EQ(info.struct_size, sizeof(info));
  EXPECT_STREQ(info.name, "here");
  EXPECT_EQ(info.locality, std::string(sizeof(info.locality) - 1, 'x'));
  EXPECT_EQ(info.eager_max, 1u);
  EXPECT_EQ(info.eager_credits, 2u);
  EXPECT_EQ(info.max_inflight, 3u);
}

TEST(GreetingTest, WhereAProcessIs) {
  EXPECT_THAT(BootAndNamespace("net"),
              AllOf(StartsWith("boot "), HasSubstr(" net:[")));
  EXPECT_EQ(BootAndNamespace("pid"), BootAndNamespace("pid"));
  EXPECT_NE(BootAndNamespace("pid"), BootAndNamespace("net"));
}

TEST(GreetingTest, APeerMayBeSilentForSoLong) {
  weft_sdk::DomainConfig config;
  EXPECT_EQ(PeerTimeoutNs(config), 3'500'000'000u);
  config.peer_timeout_ms = 4'000'000;
  EXPECT_EQ(PeerTimeoutNs(config), 4'000'000'000'000u);
}

}  // namespace
}  // namespace weft_transport
