// What a message to another worker costs: two threads send one back and forth
// through the run-time's mailboxes and futex words, while both spin (busy) and
// while both sleep in between (asleep). Beside it, in the same run, the least
// that the hardware and the kernel allow: a bare ring of one producer and one
// consumer that spin, and a bare futex wake. Figures are one way: half a round
// trip, in RESULT lines (benchmarks/result.h).
//
//   hop        threads on cores 0 and 1
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "benchmarks/result.h"
#include "core/actor/message.h"
#include "runtime/bus/futex_word.h"
#include "runtime/bus/mailbox.h"

namespace weft::benchmarks {
namespace {

using actor::Message;
constexpr int kRepetitions = 21;
constexpr int kBusy = 20000;
constexpr int kAsleep = 2000;
constexpr uint64_t kLong = 10'000'000'000;

// One producer, one consumer, both spin.
struct BareRing {
  static constexpr uint32_t kSize = 64;
  alignas(64) std::atomic<uint32_t> head{0};
  alignas(64) std::atomic<uint32_t> tail{0};
  alignas(64) Message items[kSize];
  void Send(const Message& m) {
    uint32_t h = head.load(std::memory_order_relaxed);
    items[h % kSize] = m;
    head.store(h + 1, std::memory_order_release);
  }
  Message Receive() {
    uint32_t t = tail.load(std::memory_order_relaxed);
    while (head.load(std::memory_order_acquire) == t) {
    }
    Message m = items[t % kSize];
    tail.store(t + 1, std::memory_order_release);
    return m;
  }
};

// A word and two system calls; carries one number.
struct BareFutex {
  std::atomic<uint32_t> word{0};
  uint64_t value = 0;
  void Send(const Message& m) {
    value = m.sequence;
    word.store(1, std::memory_order_release);
    syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
  Message Receive() {
    while (word.exchange(0, std::memory_order_acquire) == 0) {
      syscall(SYS_futex, &word, FUTEX_WAIT, 0, nullptr, nullptr, 0);
    }
    return Message::Start(value);
  }
};

// A worker's mailbox and word, and how a worker waits.
template <bool kSpin>
struct Port {
  runtime::Mailbox<Message> box{64};
  runtime::FutexWord word;
  void Send(const Message& m) {
    box.Push(m);
    word.Post();
  }
  Message Receive() {
    Message result;
    while (box.Drain([&](const Message& m) { result = m; }) == 0) {
      if (kSpin) {
        while (box.Empty()) {
        }
        continue;
      }
      uint32_t seen = word.Announce();
      if (box.Empty()) word.SleepFor(seen, kLong);
      word.Awake();
    }
    return result;
  }
};

template <typename Channel>
void PingPong(const std::string& name, int rounds) {
  auto there = std::make_unique<Channel>();
  auto back = std::make_unique<Channel>();
  Pin(1);  // inherited by the other thread, so it never starts on core 0
  std::thread other([&] {
    while (true) {
      Message m = there->Receive();
      back->Send(m);
      if (m.sequence == 0) return;
    }
  });
  Pin(0);
  PrintResult("hop", name, "one way",
              Measure(
                  kRepetitions,
                  [&] {
                    for (int i = 1; i <= rounds; ++i) {
                      there->Send(Message::Start(static_cast<uint64_t>(i)));
                      back->Receive();
                    }
                  },
                  2.0 * rounds),
              "ns");
  there->Send(Message::Start(0));
  other.join();
}

int Main() {
  PingPong<BareRing>("bare spinning ring", kBusy);
  PingPong<Port<true>>("weft mailbox, worker busy", kBusy);
  PingPong<BareFutex>("bare futex wake", kAsleep);
  PingPong<Port<false>>("weft mailbox, worker asleep", kAsleep);
  return 0;
}

}  // namespace
}  // namespace weft::benchmarks

int main() { return weft::benchmarks::Main(); }
