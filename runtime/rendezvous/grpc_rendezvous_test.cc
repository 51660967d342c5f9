// Ranks and a coordinator over real connections, as threads of one process.

#include "runtime/rendezvous/grpc_rendezvous.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/rendezvous/coordinator.h"

namespace weft::runtime {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr char kSecret[] = "0123456789abcdef";

class GrpcRendezvousTest : public ::testing::Test {
 protected:
  void Start(uint32_t ranks) {
    coordinator_options_.ranks = ranks;
    coordinator_options_.job_id = "job";
    coordinator_options_.secret = Secret::Of(kSecret);
    auto coordinator = Coordinator::Start(coordinator_options_);
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    coordinator_ = *std::move(coordinator);
  }

  RendezvousOptions OptionsOf(uint32_t rank) const {
    RendezvousOptions options;
    options.address = coordinator_->address();
    options.rank = rank;
    options.ranks = coordinator_options_.ranks;
    options.job_id = "job";
    options.secret = Secret::Of(kSecret);
    options.facts = {{"Weft version", "1"}};
    return options;
  }

  // Every rank on a thread of its own; `change` may make one odd.
  std::vector<absl::Status> Join(
      uint32_t ranks,
      const std::function<void(uint32_t, RendezvousOptions*)>& change = {}) {
    Start(ranks);
    std::vector<absl::Status> statuses(ranks);
    ranks_.clear();
    ranks_.resize(ranks);
    InAll([&](uint32_t r) {
      RendezvousOptions options = OptionsOf(r);
      if (change) change(r, &options);
      auto rank = GrpcRendezvous::Connect(options);
      statuses[r] = rank.status();
      if (rank.ok()) ranks_[r] = *std::move(rank);
    });
    return statuses;
  }
  void JoinAll(uint32_t ranks) {
    for (const absl::Status& s : Join(ranks)) ASSERT_TRUE(s.ok()) << s;
  }

  void InAll(const std::function<void(uint32_t)>& body) {
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      threads.emplace_back([&body, r] { body(r); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  CoordinatorOptions coordinator_options_;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::unique_ptr<GrpcRendezvous>> ranks_;
};

// On several hosts a launcher may start its ranks again before the first host's
// has seen that the start before is over.
TEST_F(GrpcRendezvousTest, WhoComesTooEarlyWaitsForTheNextStart) {
  Start(1);
  RendezvousOptions options = OptionsOf(0);
  options.epoch = 1;
  auto early = std::async(std::launch::async,
                          [&] { return GrpcRendezvous::Connect(options); });
  auto stale = GrpcRendezvous::Connect(OptionsOf(0));
  ASSERT_TRUE(stale.ok()) << stale.status();
  coordinator_options_.listen = coordinator_->address();
  coordinator_options_.epoch = 1;
  coordinator_.reset();
  Start(1);
  auto joined = early.get();
  EXPECT_TRUE(joined.ok()) << joined.status();
  EXPECT_FALSE((*stale)->failure().ok());
}

TEST_F(GrpcRendezvousTest, RanksMeetAndLeave) {
  JoinAll(4);
  const std::string large(3 << 20, 'x');
  InAll([&](uint32_t r) {
    for (int round = 0; round < 20; ++round) {
      auto all = ranks_[r]->AllGather(r, "key", absl::StrCat(round, ".", r));
      ASSERT_TRUE(all.ok()) << all.status();
      for (uint32_t other = 0; other < 4; ++other) {
        EXPECT_EQ((*all)[other], absl::StrCat(round, ".", other));
      }
    }
    auto all = ranks_[r]->AllGather(r, "large", r == 2 ? large : "");
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_EQ((*all)[2], large);
    if (r == 1) {
      EXPECT_TRUE(ranks_[r]->Put("path", "runs/x").ok());
    }
    auto path = ranks_[r]->Get("path");
    ASSERT_TRUE(path.ok()) << path.status();
    EXPECT_EQ(*path, "runs/x");
  });
  EXPECT_FALSE(coordinator_->WaitForEnd(0));
  InAll([&](uint32_t r) {
    EXPECT_TRUE(ranks_[r]->Leave().ok());
    ranks_[r].reset();
  });
  EXPECT_TRUE(coordinator_->WaitForEnd(60 * kSecond));
  EXPECT_FALSE(coordinator_->failure().has_value());
}

TEST_F(GrpcRendezvousTest, AFailureReachesAllThatWaitAndAllThatDoNot) {
  std::promise<JobFailure> told;
  coordinator_options_.on_failure = [&](const JobFailure& f) {
    told.set_value(f);
  };
  JoinAll(3);
  std::promise<void> woken;
  ranks_[2]->SetWake(2, [&woken, once = false]() mutable {
    if (!std::exchange(once, true)) woken.set_value();
  });
  std::thread waiting([&] {
    absl::Status status = ranks_[0]->AllGather(0, "never", "").status();
    EXPECT_TRUE(IsError(status, ErrorCode::kPeerLost)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("failed with WEFT-6001: loss is nan"));
    EXPECT_EQ(status.GetPayload(kCauseName), absl::Cord("WEFT-6001"));
  });
  const absl::Status cause = MakeError(ErrorCode::kNotFinite, "loss is nan");
  ranks_[1]->Fail(1, cause);
  waiting.join();
  woken.get_future().wait();
  ranks_[2]->SetWake(2, nullptr);
  // The rank itself ends with its own, the others with the loss of it.
  EXPECT_EQ(ranks_[1]->Verdict(1, cause), cause);
  const absl::Status heard = MakeError(ErrorCode::kPeerLost, "no rank 1");
  ranks_[2]->Fail(2, heard);
  EXPECT_THAT(std::string(ranks_[2]->Verdict(2, heard).message()),
              HasSubstr("rank 1 (host "));
  EXPECT_EQ(told.get_future().get().rank, 1u);
  ranks_.clear();
  EXPECT_TRUE(coordinator_->WaitForEnd(60 * kSecond));
  EXPECT_EQ(coordinator_->failure()->rank, 1u);
}

// What another rank's last words said is not this one's own failure.
TEST_F(GrpcRendezvousTest, TheCauseIsWhoHadIt) {
  coordinator_options_.cause_ns = 60 * kSecond;
  JoinAll(2);
  absl::Status heard = MakeError(ErrorCode::kOutOfMemory, "rank 1: too big");
  heard.SetPayload(kOfAnotherRank, absl::Cord("1"));
  ranks_[0]->Fail(0, heard);
  ranks_[1]->Fail(1, MakeError(ErrorCode::kOutOfMemory, "too big"));
  const absl::Status verdict = ranks_[0]->Verdict(0, heard);
  EXPECT_TRUE(IsError(verdict, ErrorCode::kPeerLost)) << verdict;
  EXPECT_THAT(std::string(verdict.message()), HasSubstr("WEFT-3001"));
  EXPECT_EQ(coordinator_->failure()->rank, 1u);
}

// After the end, what a rank fails with is a consequence, unless it is the
// same.
TEST_F(GrpcRendezvousTest, LateFailures) {
  JoinAll(3);
  const absl::Status first = MakeError(ErrorCode::kBadJob, "batch");
  const absl::Status other = MakeError(ErrorCode::kWriteFailed, "no directory");
  ranks_[0]->Fail(0, first);
  for (uint32_t r : {1, 2}) {
    EXPECT_FALSE(ranks_[r]->AllGather(r, "never", "").ok());
  }
  ranks_[1]->Fail(1, first);
  ranks_[2]->Fail(2, other);
  EXPECT_EQ(ranks_[1]->Verdict(1, first), first);
  const absl::Status verdict = ranks_[2]->Verdict(2, other);
  EXPECT_TRUE(IsError(verdict, ErrorCode::kPeerLost)) << verdict;
  EXPECT_THAT(std::string(verdict.message()), HasSubstr("WEFT-1004: batch"));
}

// A rank that fails and is gone at once was heard.
TEST_F(GrpcRendezvousTest, LastWordsAreHeard) {
  for (int i = 0; i < 20; ++i) {
    JoinAll(2);
    ranks_[1]->Fail(1, MakeError(ErrorCode::kNotFinite, "loss is nan"));
    ranks_[1].reset();
    const absl::Status status = ranks_[0]->AllGather(0, "never", "").status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("loss is nan"));
    ranks_.clear();
  }
}

TEST_F(GrpcRendezvousTest, ARankThatDiesIsNamed) {
  JoinAll(3);
  std::thread dies([&] { ranks_[2].reset(); });
  absl::Status status = ranks_[0]->AllGather(0, "never", "").status();
  dies.join();
  EXPECT_TRUE(IsError(status, ErrorCode::kPeerLost)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("pid ", getpid(), ") is lost")));
  EXPECT_EQ(coordinator_->failure()->rank, 2u);
}

TEST_F(GrpcRendezvousTest, ACoordinatorThatDiesIsNamed) {
  coordinator_options_.host_rank = 0;
  JoinAll(2);
  std::thread dies([&] { coordinator_.reset(); });
  absl::Status status = ranks_[1]->AllGather(1, "never", "").status();
  dies.join();
  EXPECT_TRUE(IsError(status, ErrorCode::kPeerLost)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("(rank 0, host "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("is gone"));
  ranks_[1]->Fail(1, status);
  EXPECT_EQ(ranks_[1]->Verdict(1, status), status);
}

TEST_F(GrpcRendezvousTest, MismatchesAndStrangers) {
  for (const absl::Status& status :
       Join(3, [](uint32_t rank, RendezvousOptions*options) {
         if (rank == 1) options->facts[0].second = "2";
       })) {
    EXPECT_TRUE(IsError(status, ErrorCode::kBadLaunch)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("ranks differ in the Weft version"));
  }
  JoinAll(2);
  RendezvousOptions options = OptionsOf(1);
  EXPECT_THAT(std::string(GrpcRendezvous::Connect(options).status().message()),
              HasSubstr("there are two of one rank"));
  options.secret = Secret::Of("another");
  EXPECT_THAT(std::string(GrpcRendezvous::Connect(options).status().message()),
              HasSubstr("does not have the secret"));
  InAll([&](uint32_t r) {
    EXPECT_TRUE(ranks_[r]->AllGather(r, "still here", "").ok());
  });
}

TEST_F(GrpcRendezvousTest, BeatsSayHowFarARankIs) {
  JoinAll(2);
  ranks_[1]->Report(1, 3);
  ranks_[1]->SetActs(1, [] { return uint64_t{7}; });
  while (coordinator_->progress()[1].act != 7) std::this_thread::yield();
  EXPECT_EQ(coordinator_->progress()[1].step, 3u);
  EXPECT_EQ(coordinator_->progress()[0].act, 0u);
  ranks_[1]->SetActs(1, nullptr);
}

// Bytes that are no message disturb nobody.
TEST_F(GrpcRendezvousTest, Garbage) {
  JoinAll(2);
  const std::vector<std::string> address =
      absl::StrSplit(coordinator_->address(), ':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address[1])));
  inet_pton(AF_INET, address[0].c_str(), &to.sin_addr);
  for (int i = 0; i < 100; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    const std::string bytes(static_cast<size_t>(i) * 7, static_cast<char>(i));
    EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    close(fd);
  }
  InAll([&](uint32_t r) {
    EXPECT_TRUE(ranks_[r]->AllGather(r, "still here", "").ok());
  });
}

TEST_F(GrpcRendezvousTest, AddressesThatCannotBe) {
  CoordinatorOptions options;
  for (const char* bad : {"", "host", "127.0.0.1:", ":80", "host:80:"}) {
    options.listen = bad;
    absl::Status status = Coordinator::Start(options).status();
    EXPECT_TRUE(IsError(status, ErrorCode::kBadLaunch)) << bad << status;
  }
  options.listen = "0.0.0.0:0";
  absl::Status open = Coordinator::Start(options).status();
  EXPECT_TRUE(IsError(open, ErrorCode::kBadLaunch)) << open;
  EXPECT_THAT(std::string(open.message()), HasSubstr("has no secret"));
  Start(2);
  options.listen = coordinator_->address();
  absl::Status taken = Coordinator::Start(options).status();
  EXPECT_TRUE(IsError(taken, ErrorCode::kBadLaunch)) << taken;
  EXPECT_THAT(std::string(taken.message()), HasSubstr("another process does"));
  // Where nobody is.
  RendezvousOptions nobody = OptionsOf(1);
  coordinator_.reset();
  nobody.join_ns = 0;
  absl::Status alone = GrpcRendezvous::Connect(nobody).status();
  EXPECT_TRUE(IsError(alone, ErrorCode::kPeerLost)) << alone;
  EXPECT_THAT(std::string(alone.message()), HasSubstr("is no coordinator at"));
  EXPECT_THAT(std::string(alone.message()), HasSubstr("loopback address"));
}

TEST_F(GrpcRendezvousTest, WhoIsMissingIsNamed) {
  Start(3);
  RendezvousOptions options = OptionsOf(1);
  options.join_ns = 1;
  absl::Status status = GrpcRendezvous::Connect(options).status();
  EXPECT_TRUE(IsError(status, ErrorCode::kPeerLost)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("have not come: 0"));
}

}  // namespace
}  // namespace weft::runtime
