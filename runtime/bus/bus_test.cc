#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/bus/futex_word.h"
#include "runtime/bus/mailbox.h"
#include "runtime/bus/wake_token.h"

namespace weft::runtime {
namespace {

struct Note {
  uint64_t producer;
  uint64_t number;
  uint64_t pad[2];
};

TEST(MailboxTest, DrainTakesABatchInOrder) {
  Mailbox<Note> box(3);
  EXPECT_TRUE(box.Empty());
  std::vector<uint64_t> got;
  for (uint64_t round = 0; round < 5; ++round) {
    for (uint64_t i = 0; i < 4; ++i) box.Push({0, round * 4 + i, {}});
    EXPECT_EQ(box.Drain([&](const Note& n) { got.push_back(n.number); }), 4u);
    EXPECT_TRUE(box.Empty());
  }
  for (uint64_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], i);
  EXPECT_EQ(got.size(), 20u);
}

TEST(MailboxDeathTest, OverflowIsADefect) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  Mailbox<Note> box(2);
  box.Push({});
  box.Push({});
  EXPECT_DEATH(box.Push({}), "overflowed");
}

// Producers keep at most `kCredits` notes each under way, as actors do.
TEST(MailboxTest, ManyProducersLoseNothingAndKeepTheirOrder) {
  constexpr uint64_t kProducers = 4, kEach = 5000, kCredits = 3;
  Mailbox<Note> box(kProducers * kCredits);
  FutexWord word;
  std::atomic<uint64_t> taken[kProducers] = {};
  std::vector<std::thread> producers;
  for (uint64_t p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (uint64_t i = 0; i < kEach; ++i) {
        while (i - taken[p].load(std::memory_order_acquire) >= kCredits) {
          std::this_thread::yield();
        }
        box.Push({p, i, {}});
        word.Post();
      }
    });
  }
  uint64_t next[kProducers] = {};
  uint64_t total = 0;
  bool ordered = true;
  while (total < kProducers * kEach) {
    uint32_t n = box.Drain([&](const Note& note) {
      ordered = ordered && note.number == next[note.producer]++;
      taken[note.producer].fetch_add(1, std::memory_order_release);
    });
    total += n;
    if (n != 0) continue;
    uint32_t seen = word.Announce();
    if (box.Empty()) {
      // A lost wake-up would end in this time-out.
      EXPECT_TRUE(word.SleepFor(seen, 20'000'000'000u));
    }
    word.Awake();
  }
  for (std::thread& t : producers) t.join();
  EXPECT_TRUE(ordered);
  EXPECT_TRUE(box.Empty());
}

TEST(FutexWordTest, PostBetweenAnnounceAndSleepIsNotLost) {
  FutexWord word;
  uint32_t seen = word.Announce();
  word.Post();
  EXPECT_TRUE(word.SleepFor(seen, 20'000'000'000u));
  word.Awake();
}

TEST(FutexWordTest, CountsPostsAndNothingElse) {
  FutexWord word;
  const uint32_t before = word.posts();
  word.Announce();
  EXPECT_EQ(word.posts(), before);
  word.Post();
  EXPECT_EQ(word.posts(), before + 1);
  word.Awake();
  EXPECT_EQ(word.posts(), before + 1);
}

TEST(FutexWordTest, SleepHasADeadline) {
  FutexWord word;
  uint32_t seen = word.Announce();
  // Signals may end a sleep early; the word itself never changes.
  while (word.SleepFor(seen, 1000)) {
  }
  word.Awake();
  EXPECT_GE(word.sleeps(), 1u);
}

TEST(FutexWordTest, SleepsOnWordsOfOthersToo) {
  if (!FutexWord::CanSleepOnSeveral()) {
    GTEST_SKIP() << "this kernel has no futex_waitv";
  }
  FutexWord word, one, two;
  const auto wait = [&](uint64_t timeout_ns, auto&& meanwhile) {
    const uint32_t seen = word.Announce();
    const FutexWord::Other others[] = {{one.raw(), one.Announce()},
                                       {two.raw(), two.Announce()}};
    std::thread thread(meanwhile);
    const bool woken = word.SleepFor(seen, timeout_ns, others, 2);
    thread.join();
    for (FutexWord* w : {&word, &one, &two}) w->Awake();
    return woken;
  };
  for (FutexWord* by : {&word, &one, &two}) {
    EXPECT_TRUE(wait(20'000'000'000u, [&] { by->Post(); }));
  }
  while (wait(1000, [] {})) {
  }
  const uint32_t seen = word.Announce();
  FutexWord::Other changed = {one.raw(), one.Announce()};
  one.Post();
  EXPECT_TRUE(word.SleepFor(seen, 20'000'000'000u, &changed, 1));
}

TEST(FutexWordTest, SleepsOnItsOwnWhereThoseOfOthersAreNone) {
  if (!FutexWord::CanSleepOnSeveral()) {
    GTEST_SKIP() << "this kernel has no futex_waitv";
  }
  FutexWord word;
  const FutexWord::Other nowhere = {reinterpret_cast<const uint32_t*>(64), 0};
  const uint32_t seen = word.Announce();
  int early = 0;  // a signal may do that
  while (word.SleepFor(seen, 1000, &nowhere, 1) && ++early < 1000) {
  }
  EXPECT_LT(early, 1000);
  word.Post();
  EXPECT_TRUE(word.SleepFor(seen, 20'000'000'000u, &nowhere, 1));
  word.Awake();
}

TEST(WakeTokenTest, WakesItsWordWhileItLives) {
  FutexWord word, other;
  uint64_t number = 0;
  {
    WakeToken token(&word), next(&other);
    number = token.number();
    EXPECT_NE(number, 0u);
    EXPECT_NE(number, next.number());
    const uint32_t seen = word.Announce();
    WakeToken::Notify(number);
    EXPECT_TRUE(word.SleepFor(seen, 20'000'000'000u));
    word.Awake();
  }
  const uint32_t before = *word.raw();
  WakeToken::Notify(number);
  WakeToken::Notify(0);
  WakeToken::Notify(~uint64_t{0});
  EXPECT_EQ(*word.raw(), before);
  EXPECT_NE(WakeToken(&word).number(), number);
}

TEST(WakeTokenTest, BeyondTheTableThereIsNoNumber) {
  FutexWord word;
  std::vector<std::unique_ptr<WakeToken>> tokens;
  while (tokens.empty() || tokens.back()->number() != 0) {
    tokens.push_back(std::make_unique<WakeToken>(&word));
    ASSERT_LE(tokens.size(), 1025u);
  }
  EXPECT_EQ(tokens.size(), 1025u);
  tokens.clear();
  EXPECT_NE(WakeToken(&word).number(), 0u);
}

// Tokens come and go while others notify: a word is never posted to once its
// token is gone.
TEST(WakeTokenTest, NobodyPostsAfterTheEnd) {
  std::atomic<uint64_t> number{0};
  std::atomic<bool> end{false};
  std::vector<std::thread> notifiers;
  for (int i = 0; i < 2; ++i) {
    notifiers.emplace_back([&] {
      while (!end.load()) WakeToken::Notify(number.load());
    });
  }
  for (int i = 0; i < 2000; ++i) {
    FutexWord word;
    {
      WakeToken token(&word);
      number = token.number();
      std::this_thread::yield();
    }
    const uint32_t before = *word.raw();
    std::this_thread::yield();
    ASSERT_EQ(*word.raw(), before);
  }
  end = true;
  for (std::thread& t : notifiers) t.join();
}

TEST(FutexWordTest, ForeignAdditionOfOneWakesToo) {
  FutexWord word;
  uint32_t seen = word.Announce();
  __atomic_fetch_add(word.raw(), 1, __ATOMIC_SEQ_CST);
  EXPECT_TRUE(word.SleepFor(seen, 20'000'000'000u));
  word.Awake();
  // The bit may be wrong now; the next announcement still works.
  seen = word.Announce();
  word.Post();
  EXPECT_TRUE(word.SleepFor(seen, 20'000'000'000u));
  word.Awake();
}

}  // namespace
}  // namespace weft::runtime
