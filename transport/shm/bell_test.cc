#include "transport/shm/bell.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>

#include "gtest/gtest.h"
#include "transport/shm/os.h"

namespace weft_shm {
namespace {

constexpr int kLines = 5;
constexpr uint32_t kRounds = 20'000;

// A record of several lines, and how far both sides are.
struct Page {
  struct alignas(kLine) Line {
    std::atomic<uint32_t> value;
  };
  Line record[kLines];
  Line round, rung;
};

// Yields at times, for there may be one core.
void Await(const Page::Line& line, uint32_t wanted) {
  for (uint32_t i = 0; line.value.load() != wanted; ++i) {
    if (i > 1000) sched_yield();
  }
}

void WriteAndRing(const Fd& bell_fd, Page* page) {
  Bell bell(bell_fd, Bell::Whose::kPeers);
  for (uint32_t round = 1; round <= kRounds; ++round) {
    Await(page->round, round);
    for (Page::Line& line : page->record) {
      line.value.store(round, std::memory_order_release);
    }
    bell.Ring();
    page->rung.value.store(round);
  }
}

// In each round the peer writes and rings while the sleeper announces itself
// and looks: a little later where it came first in the last round, and a little
// earlier where it did not, so that they keep meeting. The sleeper has had the
// lines, so it takes the peer some time until its stores are seen.
TEST(BellTest, WhoFindsNothingIsRung) {
  const Fd page_fd = NewSealed("page", kPage);
  const Fd bell_fd = NewSealed("bell", kPage);
  const Mapping mapping = MapSealed(page_fd, kPage);
  Page* const page = mapping.At<Page>(0);
  Bell bell(bell_fd, Bell::Whose::kOwn);
  const pid_t peer = fork();
  if (peer == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    WriteAndRing(bell_fd, page);
    _exit(0);
  }
  ASSERT_GT(peer, 0);
  uint32_t lost = 0, late = 0;
  for (uint32_t round = 1; round <= kRounds; ++round) {
    for (int i = 0; i + 1 < kLines; ++i) page->record[i].value.store(0);
    page->round.value.store(round);
    for (volatile uint32_t i = 0; i < late; i = i + 1) {
    }
    const uint32_t seen = bell.Announce();
    const Page::Line& last = page->record[kLines - 1];
    const bool found = last.value.load(std::memory_order_acquire) == round;
    Await(page->rung, round);
    const bool rang = __atomic_load_n(bell.word(), __ATOMIC_SEQ_CST) != seen;
    bell.Awake();
    if (!found && !rang) ++lost;
    if (rang) {
      ++late;
    } else if (late > 0) {
      --late;
    }
  }
  EXPECT_EQ(lost, 0u);
  int status = 0;
  ASSERT_EQ(waitpid(peer, &status, 0), peer);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace weft_shm
