#include "transport/shm/biased_mutex.h"

#include <mutex>
#include <thread>

#include "gtest/gtest.h"

namespace weft_shm {
namespace {

void LockTimes(BiasedMutex* mu, uint32_t times) {
  for (uint32_t i = 0; i < times; ++i) std::lock_guard<BiasedMutex> lock(*mu);
}

TEST(BiasedMutexTest, FavorsWhoLocksItAgainAndAgain) {
  BiasedMutex mu;
  LockTimes(&mu, BiasedMutex::kStreak - 1);
  EXPECT_FALSE(mu.favors_me());
  LockTimes(&mu, 1);
  EXPECT_EQ(mu.favors_me(), HasFences());
  LockTimes(&mu, 10);
  EXPECT_EQ(mu.favors_me(), HasFences());
}

TEST(BiasedMutexTest, AnotherThreadTakesTheFavorAway) {
  BiasedMutex mu;
  LockTimes(&mu, BiasedMutex::kStreak);
  std::thread([&mu] {
    EXPECT_FALSE(mu.favors_me());
    LockTimes(&mu, 1);
  }).join();
  EXPECT_FALSE(mu.favors_me());
  LockTimes(&mu, BiasedMutex::kStreak - 1);
  EXPECT_FALSE(mu.favors_me()) << "its streak begins anew";
  LockTimes(&mu, 1);
  EXPECT_EQ(mu.favors_me(), HasFences());
}

TEST(BiasedMutexTest, AnotherThreadMayBecomeTheFavoredOne) {
  BiasedMutex mu;
  LockTimes(&mu, BiasedMutex::kStreak);
  std::thread([&mu] {
    LockTimes(&mu, BiasedMutex::kStreak);
    EXPECT_EQ(mu.favors_me(), HasFences());
  }).join();
  EXPECT_FALSE(mu.favors_me());
}

// Whoever waits has it once the favored thread lets go.
TEST(BiasedMutexTest, AFavoredThreadIsWaitedFor) {
  BiasedMutex mu;
  LockTimes(&mu, BiasedMutex::kStreak);
  int last = 0;
  std::unique_lock<BiasedMutex> lock(mu);
  std::thread other([&mu, &last] {
    std::lock_guard<BiasedMutex> theirs(mu);
    last = 2;
  });
  while (HasFences() && mu.favors_me()) std::this_thread::yield();
  last = 1;
  lock.unlock();
  other.join();
  EXPECT_EQ(last, 2);
}

// Every increment counts, whoever is favored meanwhile.
TEST(BiasedMutexTest, OneAtATime) {
  BiasedMutex mu;
  uint64_t count = 0;
  constexpr uint32_t kRounds = 40;
  const auto run = [&mu, &count](uint32_t burst) {
    for (uint32_t i = 0; i < kRounds * 4 * BiasedMutex::kStreak; ++i) {
      if (i % burst == 0) std::this_thread::yield();
      std::lock_guard<BiasedMutex> lock(mu);
      ++count;
    }
  };
  std::thread often(run, 4 * BiasedMutex::kStreak);
  std::thread seldom([&mu, &count] {
    for (uint32_t i = 0; i < kRounds; ++i) {
      for (int k = 0; k < 100; ++k) std::this_thread::yield();
      std::lock_guard<BiasedMutex> lock(mu);
      ++count;
    }
  });
  std::thread third(run, 7 * BiasedMutex::kStreak);
  often.join();
  seldom.join();
  third.join();
  EXPECT_EQ(count, 2 * kRounds * 4 * BiasedMutex::kStreak + kRounds);
}

}  // namespace
}  // namespace weft_shm
