// Random scripts: whatever is posted in whatever order, everything completes
// exactly once, in order, with the right bytes; also where endpoints end in the
// middle, and where every rank has a thread of its own.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <map>
#include <random>
#include <thread>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "core/base/mutex.h"
#include "plugins/host/services.h"
#include "transport/testing/transport_test.h"

namespace weft {
namespace {

using Kind = TransportEventKind;

// One message of a script.
struct Message {
  uint32_t from = 0;
  uint32_t to = 0;
  uint64_t tag = 0;
  std::string sent;
  std::string received;
  bool send_posted = false;
  bool recv_posted = false;
};

using Script = std::vector<Message>;
// Messages of one direction and tag, in order, as indices of the script.
using Lanes =
    std::map<std::tuple<uint32_t, uint32_t, uint64_t>, std::vector<size_t>>;

// Cookies of message i.
uint64_t SendCookie(size_t i) { return 2 * i + 1000; }
uint64_t RecvCookie(size_t i) { return 2 * i + 1001; }

Script MakeScript(std::mt19937_64& random, uint32_t world, uint64_t eager_max,
                  size_t count) {
  const uint64_t sizes[] = {
      0, 1, 33, eager_max - 1, eager_max, eager_max + 1, 3 * eager_max + 7};
  Script script(count);
  for (size_t i = 0; i < count; ++i) {
    Message& m = script[i];
    m.from = random() % world;
    m.to = (m.from + 1 + random() % (world - 1)) % world;
    m.tag = random() % 3;
    m.sent = Pattern(random(), sizes[random() % std::size(sizes)]);
    m.received.assign(m.sent.size(), '\0');
  }
  return script;
}

Lanes LanesOf(const Script& script) {
  Lanes lanes;
  for (size_t i = 0; i < script.size(); ++i) {
    lanes[{script[i].from, script[i].to, script[i].tag}].push_back(i);
  }
  return lanes;
}

// One side of a lane, and which of its messages comes next.
struct LaneSide {
  const std::vector<size_t>* messages;
  bool is_send;
  size_t at = 0;
};

std::vector<LaneSide> SidesOf(const Lanes& lanes) {
  std::vector<LaneSide> sides;
  for (const auto& [lane, messages] : lanes) {
    for (bool is_send : {true, false}) sides.push_back({&messages, is_send});
  }
  return sides;
}

// Posts the next of one side of a lane. An error is of an endpoint that ended.
absl::StatusOr<bool> PostNext(Node& node, Message* m, bool is_send, size_t i) {
  absl::StatusOr<bool> posted =
      is_send ? node.PostSend(m->to, m->tag, m->sent.data(), m->sent.size(),
                              SendCookie(i))
              : node.PostRecv(m->from, m->tag, m->received.data(),
                              m->received.size(), RecvCookie(i));
  if (posted.ok() && *posted)
    (is_send ? m->send_posted : m->recv_posted) = true;
  return posted;
}

// Sends completed in order, receives too, and what was received is what was
// sent. Where endpoints ended, after a whole front come only errors.
void CheckLanes(const Nodes& nodes, const Script& script, const Lanes& lanes,
                bool all_whole) {
  std::vector<std::map<uint64_t, size_t>> at(nodes.size());
  for (size_t rank = 0; rank < nodes.size(); ++rank) {
    const std::vector<uint64_t>& order = nodes[rank]->order();
    for (size_t i = 0; i < order.size(); ++i) at[rank][order[i]] = i;
  }
  for (const auto& [lane, messages] : lanes) {
    const auto [from, to, tag] = lane;
    SCOPED_TRACE(absl::StrCat(from, " to ", to, ", tag ", tag));
    for (bool is_send : {true, false}) {
      const Node& node = *nodes[is_send ? from : to];
      bool whole = true;
      size_t last = 0;
      for (size_t i : messages) {
        const Message& m = script[i];
        if (!(is_send ? m.send_posted : m.recv_posted)) continue;
        const uint64_t cookie = is_send ? SendCookie(i) : RecvCookie(i);
        ASSERT_TRUE(node.done(cookie));
        const absl::Status& status = node.result(cookie).status;
        EXPECT_TRUE(status.ok() || !all_whole) << status;
        EXPECT_TRUE(!status.ok() || whole) << "out of order";
        whole = whole && status.ok();
        if (!status.ok()) {
          EXPECT_TRUE(IsError(status, ErrorCode::kCancelled) ||
                      IsError(status, ErrorCode::kPeerLost))
              << status;
        } else if (!is_send) {
          EXPECT_EQ(m.received, m.sent);
        }
        const size_t place = at[node.rank()][cookie];
        EXPECT_GE(place, last) << "completed out of order";
        last = place;
      }
    }
  }
}

// Closes or aborts an endpoint that nobody expected to end.
void EndSomething(Nodes& nodes, std::mt19937_64& random) {
  Node& node = *nodes[random() % nodes.size()];
  const uint32_t peer =
      (node.rank() + 1 + random() % (nodes.size() - 1)) % nodes.size();
  EXPECT_TRUE(
      node.domain().CloseEndpoint(node.to(peer), random() % 2 == 0).ok());
}

// Runs a script on one thread. `ends`: an endpoint ends in the middle.
void RunScript(Nodes& nodes, uint64_t seed, size_t count, bool ends) {
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  Script script = MakeScript(random, nodes.size(),
                             nodes[0]->domain().info().eager_max, count);
  const Lanes lanes = LanesOf(script);
  std::vector<LaneSide> sides = SidesOf(lanes);
  const size_t end_at = ends ? random() % (2 * count) : SIZE_MAX;
  for (size_t step = 0; !sides.empty(); ++step) {
    if (step == end_at) EndSomething(nodes, random);
    const size_t which = random() % sides.size();
    LaneSide& side = sides[which];
    const size_t i = (*side.messages)[side.at];
    Message& m = script[i];
    Node& node = *nodes[side.is_send ? m.from : m.to];
    absl::StatusOr<bool> posted = PostNext(node, &m, side.is_send, i);
    EXPECT_TRUE(posted.ok() || ends) << posted.status();
    if (posted.ok() && *posted) ++side.at;
    if (!posted.ok() || side.at == side.messages->size()) {
      sides.erase(sides.begin() + which);
    }
    if (random() % 2 == 0) nodes[random() % nodes.size()]->Pump();
  }
  for (uint32_t a = 0; ends && a < nodes.size(); ++a) {
    for (uint32_t b = a + 1; b < nodes.size(); ++b) {
      EXPECT_TRUE(nodes[a]->domain().CloseEndpoint(nodes[a]->to(b)).ok());
    }
  }
  PumpUntil(nodes, [&] {
    return std::all_of(nodes.begin(), nodes.end(), [](const auto& node) {
      return node->outstanding() == 0;
    });
  });
  CheckLanes(nodes, script, lanes, !ends);
}

TEST_P(TransportTest, RandomScriptsOfTwoRanks) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Nodes nodes = Mesh(2);
    RunScript(nodes, seed, 200, /*ends=*/false);
  }
}

TEST_P(TransportTest, RandomScriptsOfFiveRanks) {
  for (uint64_t seed = 101; seed <= 110; ++seed) {
    Nodes nodes = Mesh(5);
    RunScript(nodes, seed, 600, /*ends=*/false);
  }
}

TEST_P(TransportTest, RandomScriptsWithEnds) {
  for (uint64_t seed = 201; seed <= 230; ++seed) {
    Nodes nodes = Mesh(2 + seed % 3);
    RunScript(nodes, seed, 100, /*ends=*/true);
  }
}

// ---- Threads ---------------------------------------------------------------

// Where a thread sleeps until its token is notified.
class Bell {
 public:
  // Returns at once where somebody rang since the last call.
  bool Sleep() {
    MutexLock lock(&mu_);
    while (rings_ == 0) {
      if (!rung_.WaitFor(&mu_, kPatience) && rings_ == 0) return false;
    }
    rings_ = 0;
    return true;
  }
  void Ring() {
    MutexLock lock(&mu_);
    ++rings_;
    rung_.NotifyAll();
  }

 private:
  Mutex mu_;
  CondVar rung_;
  uint64_t rings_ WEFT_GUARDED_BY(mu_) = 0;
};

// Tokens are numbers from 1.
std::vector<Bell>& Bells() {
  static auto* bells = new std::vector<Bell>(16);
  return *bells;
}

class HookedBells {
 public:
  HookedBells() {
    SetNotifyHook([](uint64_t token) { Bells().at(token).Ring(); });
  }
  ~HookedBells() { SetNotifyHook(nullptr); }
};

enum class SleepsOn { kItsBell, kTheTransportsWord };

// On the transport's word, which peers wake. False where nobody did.
bool SleepOnWord(Node& node) {
  const SleepWord sleep = node.domain().SleepBegin().value();
  bool woken = node.Pump();
  if (!woken) {
    const timespec patience{
        std::chrono::duration_cast<std::chrono::seconds>(kPatience).count(), 0};
    // EAGAIN: it differed already.
    const long result = syscall(SYS_futex, sleep.word, FUTEX_WAIT, sleep.seen,
                                &patience, nullptr, 0);
    woken = result == 0 || errno != ETIMEDOUT;
  }
  EXPECT_TRUE(node.domain().SleepEnd().ok());
  return woken;
}

// One rank posts and polls its part, and sleeps when there is nothing to do.
void RunRank(Node& node, Script* script, std::vector<LaneSide> sides,
             uint64_t seed, SleepsOn sleeps_on) {
  std::mt19937_64 random(seed);
  while (!sides.empty() || node.outstanding() != 0) {
    bool progress = false;
    std::shuffle(sides.begin(), sides.end(), random);
    for (LaneSide& side : sides) {
      const size_t i = (*side.messages)[side.at];
      absl::StatusOr<bool> posted =
          PostNext(node, &(*script)[i], side.is_send, i);
      ASSERT_TRUE(posted.ok()) << posted.status();
      side.at += *posted;
      progress = progress || *posted;
    }
    sides.erase(std::remove_if(sides.begin(), sides.end(),
                               [](const LaneSide& side) {
                                 return side.at == side.messages->size();
                               }),
                sides.end());
    progress = node.Pump() || progress;
    if (progress) continue;
    ASSERT_TRUE(sleeps_on == SleepsOn::kItsBell
                    ? Bells()[node.rank() + 1].Sleep()
                    : SleepOnWord(node))
        << "nobody woke rank " << node.rank();
  }
}

}  // namespace

void TransportTest::RunSleepers(bool on_word) const {
  HookedBells hooked;
  constexpr uint32_t kWorld = 5;
  for (uint64_t seed = 301; seed <= 303; ++seed) {
    Nodes nodes;
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      DomainConfig config = Config(rank, kWorld);
      config.notify_token = rank + 1;
      nodes.push_back(Open(config));
      for (uint32_t low = 0; low < rank; ++low) {
        ASSERT_TRUE(Connect(*nodes[low], *nodes[rank]));
      }
    }
    std::mt19937_64 random(seed);
    Script script =
        MakeScript(random, kWorld, nodes[0]->domain().info().eager_max, 1500);
    const Lanes lanes = LanesOf(script);
    std::vector<std::vector<LaneSide>> sides(kWorld);
    for (const auto& [lane, messages] : lanes) {
      sides[std::get<0>(lane)].push_back({&messages, true});
      sides[std::get<1>(lane)].push_back({&messages, false});
    }
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      threads.emplace_back([&, rank] {
        RunRank(*nodes[rank], &script, sides[rank], seed * 10 + rank,
                on_word ? SleepsOn::kTheTransportsWord : SleepsOn::kItsBell);
      });
    }
    for (std::thread& thread : threads) thread.join();
    CheckLanes(nodes, script, lanes, /*all_whole=*/true);
  }
}

namespace {

TEST_P(TransportTest, ARankPerThreadSleepsUntilItIsNotified) {
  RunSleepers(/*on_word=*/false);
}

TEST_P(TransportTest, ARankPerThreadSleepsUntilAPeerWakesIt) {
  if (!transport().Open(Config(0, 1)).value()->has_sleep()) {
    GTEST_SKIP() << "no word to sleep on";
  }
  RunSleepers(/*on_word=*/true);
}

// Several threads post to one endpoint while another polls.
TEST_P(TransportTest, ManyThreadsOnOneEndpoint) {
  constexpr int kThreads = 4;
  constexpr int kMessages = 200;
  Nodes nodes = Mesh(2);
  std::vector<std::string> into(kThreads * kMessages, std::string(8, '\0'));
  if (nodes[0]->domain().info().max_inflight < into.size()) {
    GTEST_SKIP() << "the receives of one tag could leave none to another";
  }
  std::atomic<bool> failed{false};
  const auto post = [&](uint32_t rank, int thread) {
    Domain& domain = nodes[rank]->domain();
    const uint64_t ep = nodes[rank]->to(1 - rank);
    for (int i = 0; i < kMessages;) {
      std::string& to = into[thread * kMessages + i];
      const std::string from = Pattern(thread * kMessages + i, 8);
      absl::StatusOr<bool> posted =
          rank == 0 ? domain.PostSend(ep, thread, from.data(), 8, 1)
                    : domain.PostRecv(ep, thread, to.data(), 8, 1);
      if (!posted.ok()) failed = true;
      if (!posted.ok()) return;
      if (*posted) ++i;
      if (!*posted) std::this_thread::yield();
    }
  };
  size_t completed = 0;
  {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      for (uint32_t rank : {0u, 1u}) {
        threads.emplace_back([&post, rank, t] { post(rank, t); });
      }
    }
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (completed < 2 * into.size() && !failed &&
           std::chrono::steady_clock::now() < deadline) {
      for (auto& node : nodes) {
        TransportEvent events[8];
        absl::StatusOr<size_t> count =
            node->domain().Poll(absl::MakeSpan(events));
        ASSERT_TRUE(count.ok());
        for (size_t i = 0; i < *count; ++i) {
          EXPECT_TRUE(events[i].status.ok()) << events[i].status;
        }
        completed += *count;
      }
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_FALSE(failed);
  EXPECT_EQ(completed, 2 * into.size());
  for (size_t i = 0; i < into.size(); ++i) EXPECT_EQ(into[i], Pattern(i, 8));
}

// A rank ends while another one sends to it as fast as it can: most likely in
// the middle of a message.
TEST_P(TransportTest, ARankEndsWhileItIsSentTo) {
  constexpr uint64_t kSends = 16;  // twice as many as are received
  for (int round = 0; round < 20; ++round) {
    Nodes nodes = Mesh(2);
    const std::string large = Pattern(
        round, nodes[0]->domain().info().eager_max + (uint64_t{1} << 19));
    std::thread sender([&] {
      uint64_t posted = 0;
      while (posted < kSends) {
        absl::StatusOr<bool> sent = nodes[0]->PostSend(
            1, posted % 2, large.data(), large.size(), posted);
        if (!sent.ok()) break;
        posted += *sent;
        nodes[0]->Pump();
      }
    });
    std::vector<std::string> into(8, std::string(large.size(), '\0'));
    for (size_t i = 0; i < into.size(); ++i) {
      EXPECT_TRUE(nodes[1]->TryRecv(0, i % 2, into[i].data(), large.size(), i));
    }
    PumpThese({nodes[1].get()}, [&] { return nodes[1]->done(0); });
    nodes[1]->Close();
    nodes[1].reset();
    sender.join();
    for (const std::string& bytes : into) {
      EXPECT_TRUE(bytes == large || bytes == std::string(large.size(), '\0'))
          << "half a message";
    }
  }
}

}  // namespace
}  // namespace weft
