#include "runtime/rendezvous/local_rendezvous.h"

#include <thread>

#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/rendezvous/agreement.h"

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

TEST(LocalRendezvousTest, AFailureWakes) {
  LocalRendezvous meeting(3, kLong);
  int woken = 0;
  int gone = 0;
  meeting.SetWake(0, [&] { ++woken; });
  meeting.SetWake(1, [&] { ++gone; });
  meeting.SetWake(1, nullptr);
  meeting.Fail(2, MakeError(ErrorCode::kNotFinite, "nan"));
  meeting.Fail(1, MakeError(ErrorCode::kNotFinite, "nan"));
  EXPECT_EQ(woken, 1);
  EXPECT_EQ(gone, 0);
  meeting.SetWake(1, [&] { ++gone; });  // where there is one already
  EXPECT_EQ(gone, 1);
  const absl::Status mine = MakeError(ErrorCode::kPeerLost, "rank 2");
  EXPECT_EQ(meeting.Verdict(1, mine), mine);
}

TEST(AgreementTest, WhoDiffersIsNamedToAll) {
  LocalRendezvous meeting(3, kLong);
  absl::Status statuses[3];
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      EXPECT_TRUE(Agree(&meeting, r, "version", "1").ok());
      statuses[r] = Agree(&meeting, r, "job file",
                          r == 1 ? "seed: 1\nsteps: 2" : "seed: 1\nsteps: 3");
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) {
    EXPECT_TRUE(IsError(status, ErrorCode::kBadLaunch)) << status;
    EXPECT_EQ(status.message(),
              "ranks differ in the job file: rank 1 has 'steps: 2', rank 0 has "
              "'steps: 3'");
  }
}

TEST(AgreementTest, TheFirstLineThatDiffersIsShown) {
  const auto shown = [](const std::string& a, const std::string& b) {
    const auto [left, right] = FirstDifference(a, b);
    return left + " | " + right;
  };
  EXPECT_EQ(shown("a", "b"), "'a' | 'b'");
  EXPECT_EQ(shown("a\n  b", "a\n c\nd"), "'b' | 'c'");
  EXPECT_EQ(shown("a", "a\nb"), "nothing more | 'b'");
  EXPECT_EQ(shown(std::string(200, 'x'), ""),
            "'" + std::string(100, 'x') + "...' | ''");
}

}  // namespace
}  // namespace weft::runtime
