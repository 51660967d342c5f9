#include "runtime/rendezvous/local_rendezvous.h"

#include <thread>

#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kLong = 60'000'000'000;

TEST(LocalRendezvousTest, EveryRankGetsWhatAllGave) {
  LocalRendezvous meeting(3, kLong);
  std::vector<std::thread> ranks;
  for (uint32_t r = 0; r < 3; ++r) {
    ranks.emplace_back([&meeting, r] {
      for (int round = 0; round < 50; ++round) {
        const std::string n = std::to_string(round);
        auto all =
            meeting.AllGather(r, "round " + n, n + "." + std::to_string(r));
        ASSERT_TRUE(all.ok()) << all.status();
        EXPECT_THAT(*all, ElementsAre(n + ".0", n + ".1", n + ".2"));
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(LocalRendezvousTest, AMissingRankIsNamed) {
  LocalRendezvous meeting(3, /*deadline_ns=*/1);
  auto all = meeting.AllGather(1, "address", "x");
  EXPECT_TRUE(IsError(all.status(), ErrorCode::kPeerLost));
  EXPECT_THAT(std::string(all.status().message()), HasSubstr("0, 2"));
  EXPECT_THAT(std::string(all.status().message()), HasSubstr("'address'"));
}

TEST(LocalRendezvousTest, AFailureEndsAllWaiting) {
  LocalRendezvous meeting(2, kLong);
  std::thread waits([&meeting] {
    auto all = meeting.AllGather(0, "address", "x");
    EXPECT_TRUE(IsError(all.status(), ErrorCode::kDataMissing));
    EXPECT_THAT(std::string(all.status().message()), HasSubstr("rank 1: gone"));
  });
  meeting.Fail(1, MakeError(ErrorCode::kDataMissing, "gone"));
  meeting.Fail(1, MakeError(ErrorCode::kInternal, "later"));
  waits.join();
  EXPECT_TRUE(IsError(meeting.failure(), ErrorCode::kDataMissing));
  EXPECT_FALSE(meeting.AllGather(1, "end", "").ok());
}

TEST(LocalRendezvousTest, NobodyComesTwice) {
  LocalRendezvous meeting(2, 1);
  EXPECT_FALSE(meeting.AllGather(0, "a", "").ok());
  EXPECT_TRUE(
      IsError(meeting.AllGather(0, "a", "").status(), ErrorCode::kInternal));
}

}  // namespace
}  // namespace weft::runtime
