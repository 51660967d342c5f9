#include "transport/shm/fence.h"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace weft_shm {
namespace {

// The two sides of the header, again and again: without the fences a core loads
// before others see what it has stored.
class FenceTest : public testing::TestWithParam<Reach> {
 protected:
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

TEST_P(FenceTest, OneOfTheTwoSeesTheOther) {
  if (!HasFences()) GTEST_SKIP() << "no membarrier";
  std::thread often([this] { Often(); });
  std::vector<uint64_t> saw(kRounds + 1, 0);  // by round
  for (int round = 1; round <= kRounds; ++round) {
    Await(saw[round - 1]);
    seldom_.store(round, std::memory_order_relaxed);
    HeavyFence(GetParam());
    saw[round] = often_.load(std::memory_order_relaxed);
  }
  often.join();
  uint64_t last_before = 0;
  for (int round = 1; round <= kRounds; ++round) {
    if (last_[round - 1] != 0) last_before = last_[round - 1];
    EXPECT_LE(last_before, saw[round])
        << "neither saw the other in round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Both, FenceTest,
                         testing::Values(Reach::kProcess, Reach::kMachine));

}  // namespace
}  // namespace weft_shm
