#include "runtime/rendezvous/host_port.h"

#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HostPortTest, ReadsWhatItWrites) {
  for (const char* text : {"n1:80", "10.0.0.1:1", "[2001:db8::1]:65535"}) {
    absl::StatusOr<HostPort> at = ParseHostPort("x", text);
    ASSERT_TRUE(at.ok()) << at.status();
    EXPECT_EQ(JoinHostPort(at->host, at->port), text);
  }
  EXPECT_EQ(ParseHostPort("x", "[::1]:80")->host, "::1");
  EXPECT_EQ(ParseHostPort("x", "n1:0", /*lowest=*/0)->port, 0u);
  EXPECT_EQ(JoinHostPort("[::1]", 7), "[::1]:7");
  EXPECT_EQ(JoinHostPort("::1", "7"), "[::1]:7");
}

TEST(HostPortTest, WhatIsNone) {
  for (const char* text : {"", "n1", ":80", "[]:80", "n1:", "n1:x", "n1:0",
                           "n1:-1", "n1:65536", "2001:db8::1", "[::1]"}) {
    const absl::Status status = ParseHostPort("--flag", text).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kBadLaunch)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--flag is '"));
  }
}

TEST(HostPortTest, NamesOfTheMachineItself) {
  for (const char* host :
       {"localhost", "LOCALHOST", "127.0.0.1", "127.0.1.1", "::1", "[::1]"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"n1", "10.0.0.1", "0.0.0.0", "::", "fd00::1"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

TEST(HostPortTest, AddressesOfAll) {
  for (const char* host : {"0.0.0.0", "::", "[::]", "::0", "0:0::0"}) {
    EXPECT_TRUE(IsAnyAddress(host)) << host;
  }
  for (const char* host : {"127.0.0.1", "::1", "n1", "", "0.0.0.1"}) {
    EXPECT_FALSE(IsAnyAddress(host)) << host;
  }
}

TEST(HostPortTest, OthersReachWhatIsOutside) {
  EXPECT_THAT(*OutsideAddresses("10.0.0.1"), ElementsAre("10.0.0.1"));
  EXPECT_THAT(*OutsideAddresses("[2001:db8::1]"), ElementsAre("2001:db8::1"));
  // As a name that /etc/hosts has for the machine itself.
  const absl::Status inside = OutsideAddresses("127.0.1.1").status();
  EXPECT_TRUE(IsError(inside, ErrorCode::kBadLaunch));
  EXPECT_THAT(std::string(inside.message()),
              HasSubstr("host '127.0.1.1' is 127.0.1.1 on this machine"));
  EXPECT_TRUE(
      IsError(OutsideAddresses("no host").status(), ErrorCode::kBadLaunch));
}

}  // namespace
}  // namespace weft::runtime
