// What a message to another worker costs: two threads send one back and forth
// through the run-time's mailboxes and futex words, while both spin (busy) and
// while both sleep in between (asleep). Beside it, in the same run, the least
// that the hardware and the kernel allow: a bare ring of one producer and one
// consumer that spin, and a bare futex wake. Figures are one way: half a round
// trip, in RESULT lines (benchmarks/result.h).
//
// Last, the whole session: a chain whose actors lie on two workers in turn, so
// that each act waits for a message from the other worker and sends one there;
// a hop, an act and an ACK each.
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
#include <vector>

#include "benchmarks/result.h"
#include "core/actor/message.h"
#include "glog/logging.h"
#include "plugins/host/device.h"
#include "runtime/bus/futex_word.h"
#include "runtime/bus/mailbox.h"
#include "runtime/session/session.h"
#include "runtime/testing/fake_plugin.h"
#include "runtime/testing/plan_builder.h"

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

constexpr int kChain = 200;
constexpr uint64_t kPeriods = 20;

// A counter and actors that each read their predecessor, on two workers in
// turn.
plan::Plan Chain(const std::string& device) {
  using Task = plan::Task;
  runtime::testing::PlanBuilder b("chain");
  const uint32_t host = b.AddDevice(device, true);
  const uint32_t streams[2] = {b.AddStream("a", host, 0, true),
                               b.AddStream("b", host, 1, true)};
  std::vector<uint32_t> orders[2];
  uint32_t reg = 0;
  for (int i = 0; i < kChain; ++i) {
    const uint32_t task = b.AddTask(i == 0 ? Task::SOURCE : Task::COMPUTE,
                                    "t" + std::to_string(i), streams[i % 2], 1,
                                    i == 0 ? "counter:step" : "");
    if (i > 0) b.Input(task, reg);
    if (i + 1 < kChain) {
      reg = b.AddRegister("r" + std::to_string(i), host, {2}, 1, DType::kI64);
      b.Output(task, reg);
    }
    orders[i % 2].push_back(task);
  }
  for (int w = 0; w < 2; ++w) b.Order(streams[w], orders[w]);
  return b.Build();
}

void RunSession(const std::string& name, uint64_t spin_ns) {
  auto device = Device::Open(runtime::testing::FakePlugin(), 0);
  CHECK(device.ok()) << device.status();
  runtime::SessionOptions options;
  options.periods_in_flight = 0;  // one message on its way, as above
  options.spin_ns = spin_ns;
  auto session = runtime::Session::Create({device->get()}, options);
  CHECK(session.ok()) << session.status();
  absl::Status loaded = (*session)->LoadProgram(Chain((*device)->Name()), {});
  CHECK(loaded.ok()) << loaded;
  PrintResult("hop", name, "hop and act",
              Measure(
                  kRepetitions,
                  [&] {
                    auto done = (*session)->Run("chain", 0, kPeriods);
                    CHECK(done.ok()) << done.status();
                  },
                  double{kChain} * kPeriods),
              "ns");
}

int Main() {
  PingPong<BareRing>("bare spinning ring", kBusy);
  PingPong<Port<true>>("weft mailbox, worker busy", kBusy);
  PingPong<BareFutex>("bare futex wake", kAsleep);
  PingPong<Port<false>>("weft mailbox, worker asleep", kAsleep);
  cpu_set_t both;
  CPU_ZERO(&both);
  CPU_SET(0, &both);
  CPU_SET(1, &both);
  sched_setaffinity(0, sizeof(both), &both);
  RunSession("weft session, chain over two busy workers", 20'000);
  RunSession("weft session, chain over two workers that yield", 0);
  return 0;
}

}  // namespace
}  // namespace weft::benchmarks

int main() { return weft::benchmarks::Main(); }
