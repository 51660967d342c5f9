#include "transport/shm/fence.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace weft_shm {
namespace {

// The two sides of the header, again and again: without the fences a core loads
// before others see what it has stored.
class Sides {
 public:
  // The rounds in which neither saw the other.
  std::vector<int> Meet(Reach reach) {
    std::thread often([this] { Often(); });
    std::vector<uint64_t> saw(kRounds + 1, 0);  // by round
    for (int round = 1; round <= kRounds; ++round) {
      Await(saw[round - 1]);
      seldom_.store(round, std::memory_order_relaxed);
      HeavyFence(reach);
      saw[round] = often_.load(std::memory_order_relaxed);
    }
    often.join();
    std::vector<int> out;
    uint64_t last_before = 0;
    for (int round = 1; round <= kRounds; ++round) {
      if (last_[round - 1] != 0) last_before = last_[round - 1];
      if (last_before > saw[round]) out.push_back(round);
    }
    return out;
  }

 private:
  static constexpr int kRounds = 1'000;

  // Until it sees the last round. Of each round, the last number that it had
  // stored when it saw that one still.
  void Often() {
    int seen = 0;
    for (uint64_t number = 1; seen < kRounds; ++number) {
      often_.store(number, std::memory_order_relaxed);
      LightFence();
      seen = seldom_.load(std::memory_order_relaxed);
      last_[seen] = number;
      if (number % 10'000 == 0) std::this_thread::yield();  // on the same core
    }
  }

  // Until the other side has gone on from there.
  void Await(uint64_t number) const {
    for (int looks = 1; often_.load() < number + 3; ++looks) {
      if (looks % 10'000 == 0) std::this_thread::yield();
    }
  }

  alignas(64) std::atomic<uint64_t> often_{0};
  alignas(64) std::atomic<int> seldom_{0};
  std::vector<uint64_t> last_ = std::vector<uint64_t>(kRounds + 1, 0);
};

bool RunOn(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  return sched_setaffinity(0, sizeof(one), &one) == 0;
}

enum Outcome { kReached, kLeftOut, kNoFences };

// Of a process of its own, which has been on another core before it takes part:
// whether its fences reach that one.
int OutcomeAfterLeaving(int other, int own) {
  const pid_t child = fork();
  if (child == 0) {
    bool moved = RunOn(other);
    for (std::atomic<int> turns{0}; turns < 200'000; ++turns) {
    }
    moved = moved && RunOn(own);
    if (!HasFences()) _exit(kNoFences);
    cpu_set_t both;
    CPU_ZERO(&both);
    CPU_SET(other, &both);
    CPU_SET(own, &both);
    moved = moved && sched_setaffinity(0, sizeof(both), &both) == 0;
    const bool met = Sides().Meet(Reach::kMachine).empty();
    _exit(moved && met ? kReached : kLeftOut);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status)
             ? WEXITSTATUS(status)
             : -1;
}

// Before any test in which this process takes part itself.
TEST(FenceTest, ReachesCoresThatTheProcessHadLeft) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &all)) cores.push_back(core);
  }
  if (cores.size() < 2) GTEST_SKIP() << "one core";
  for (int time = 0; time < 60; ++time) {
    const int outcome = OutcomeAfterLeaving(cores[1], cores[0]);
    if (outcome == kNoFences) GTEST_SKIP() << "no membarrier";
    EXPECT_EQ(outcome, kReached) << "time " << time;
  }
}

class ReachTest : public testing::TestWithParam<Reach> {};

TEST_P(ReachTest, OneOfTheTwoSeesTheOther) {
  if (!HasFences()) GTEST_SKIP() << "no membarrier";
  EXPECT_EQ(Sides().Meet(GetParam()), std::vector<int>());
}

INSTANTIATE_TEST_SUITE_P(Both, ReachTest,
                         testing::Values(Reach::kProcess, Reach::kMachine));

}  // namespace
}  // namespace weft_shm
