// What a message to another process of this machine costs: two processes, each
// on a core of its own, send one back and forth over a transport plugin, while
// both poll all the time and while both sleep in between: in the transport's
// `wait`, and as a worker of the run-time sleeps, on two words. Beside it, in
// turns, the least that the hardware and the kernel allow: a bare cache line
// each way, and a bare futex word. Figures are one way: half a round
// trip. Then large messages, beside a plain copy. RESULT lines
// (benchmarks/result.h).
//
//   message --plugin=bazel-bin/transport/shm/libweft_shm.so
//
// UCX is measured by its own ucx_perftest where there is one, else the last
// line says that there is none.
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmarks/plugin.h"
#include "benchmarks/result.h"
#include "glog/logging.h"
#include "plugins/host/plugin.h"
#include "plugins/host/transport.h"
#include "runtime/bus/futex_word.h"

namespace weft::benchmarks {
namespace {

constexpr int kRepetitions = 15;
constexpr int kBusy = 10'000;  // round trips of a repetition
constexpr int kAsleep = 500;
constexpr int kLarge = 40;
constexpr uint64_t kSmallBytes = 8;
constexpr uint64_t kLong = 10'000'000'000;
constexpr uint64_t kTag = 5;

template <typename T>
T Value(absl::StatusOr<T> value) {
  CHECK(value.ok()) << value.status();
  return *std::move(value);
}

// What both processes map.
struct Shared {
  // One for each direction, far enough apart for a core that fetches pairs.
  struct Line {
    alignas(128) std::atomic<uint64_t> value;
  };
  Line line[2];
  alignas(128) std::atomic<uint32_t> word[2];
};

// How a process waits for what comes.
enum class How { kPoll, kWait, kSleep };

// One of the two processes: 0 sends first.
class Side {
 public:
  Side(int number, Shared* shared, int socket, const std::string& plugin)
      : me_(number), shared_(*shared) {
    Pin(number);
    transport_ = std::make_unique<Transport>(
        Value(Transport::Create(LoadPlugin(plugin))));
    DomainConfig config;
    config.rank = static_cast<uint32_t>(number);
    config.world = 2;
    config.job = "transport";
    domain_ = Value(transport_->Open(config));
    if (me_ == 1) {
      const std::string address = Value(domain_->Listen());
      CHECK_EQ(write(socket, address.data(), address.size()),
               static_cast<ssize_t>(address.size()));
    } else {
      char address[WEFT_BLOB_MAX];
      const ssize_t n = read(socket, address, sizeof(address));
      CHECK_GT(n, 0);
      Value(domain_->Connect(1, std::string(address, n)));
    }
    while (endpoint_ == 0) Look(How::kWait);
  }

  // Both processes call these in the same order, each with its own `Side`.
  void BareLine(int trips) {
    for (int i = 0; i < trips; ++i) {
      if (me_ == 0)
        shared_.line[0].value.store(++bare_, std::memory_order_release);
      if (me_ == 1) ++bare_;
      while (shared_.line[1 - me_].value.load(std::memory_order_acquire) !=
             bare_) {
        runtime::CpuRelax();
      }
      if (me_ == 1)
        shared_.line[1].value.store(bare_, std::memory_order_release);
    }
  }

  void BareFutex(int trips) {
    for (int i = 0; i < trips; ++i) {
      ++turn_;
      if (me_ == 0) Wake(&shared_.word[0]);
      while (shared_.word[1 - me_].load() != turn_) {
        syscall(SYS_futex, &shared_.word[1 - me_], FUTEX_WAIT, turn_ - 1,
                nullptr, nullptr, 0);
      }
      if (me_ == 1) Wake(&shared_.word[1]);
    }
  }

  void Messages(int trips, std::vector<char>* out, std::vector<char>* in,
                How how) {
    for (int i = 0; i < trips; ++i) {
      CHECK(Value(domain_->PostRecv(endpoint_, kTag, in->data(), in->size(),
                                    kReceived)));
      if (me_ == 0) Send(out);
      while (!received_) Look(how);
      received_ = false;
      if (me_ == 1) Send(out);
    }
    while (sends_ != 0) Look(how);
  }

  void Close() {
    CHECK(domain_->Close([](const TransportEvent&) {}).ok());
  }

 private:
  static constexpr uint64_t kReceived = 1, kSent = 2;

  void Wake(std::atomic<uint32_t>* word) {
    word->store(turn_);
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }

  void Send(std::vector<char>* out) {
    while (!Value(
        domain_->PostSend(endpoint_, kTag, out->data(), out->size(), kSent))) {
      Look(How::kPoll);
    }
    ++sends_;
  }

  void Look(How how) {
    if (how == How::kWait) Value(domain_->Wait(kLong));
    size_t n = 0;
    if (how == How::kSleep) {
      const uint32_t seen = word_.Announce();
      const SleepWord theirs = Value(domain_->SleepBegin());
      n = Value(domain_->Poll(absl::MakeSpan(events_)));
      const runtime::FutexWord::Other other = {theirs.word, theirs.seen};
      if (n == 0) word_.SleepFor(seen, kLong, &other, 1);
      CHECK(domain_->SleepEnd().ok());
      word_.Awake();
    }
    if (n == 0) n = Value(domain_->Poll(absl::MakeSpan(events_)));
    for (size_t i = 0; i < n; ++i) {
      const TransportEvent& event = events_[i];
      if (event.kind == TransportEventKind::kEndpointDown) continue;  // done
      CHECK(event.status.ok()) << event.status;
      if (event.kind != TransportEventKind::kCompleted) {
        endpoint_ = event.endpoint;
      } else if (event.cookie == kReceived) {
        received_ = true;
      } else {
        --sends_;
      }
    }
  }

  const int me_;
  Shared& shared_;
  uint64_t bare_ = 0;
  uint32_t turn_ = 0;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Domain> domain_;
  runtime::FutexWord word_;  // as a worker has one
  uint64_t endpoint_ = 0;
  std::vector<TransportEvent> events_ = std::vector<TransportEvent>(16);
  bool received_ = false;
  int sends_ = 0;
};

// One repetition of each, in turns, so that all see the same machine.
void Run(Side* side, bool print) {
  std::vector<double> line, small, asleep, worker, futex, large, copy;
  const bool two_words = runtime::FutexWord::CanSleepOnSeveral();
  const auto timed = [](int trips, auto&& fn) {
    const auto begin = std::chrono::steady_clock::now();
    fn();
    const std::chrono::duration<double, std::nano> time =
        std::chrono::steady_clock::now() - begin;
    return time.count() / (2.0 * trips);
  };
  std::vector<char> out(kSmallBytes, 'o'), in(kSmallBytes);
  std::vector<char> big_out(1 << 20, 'o'), big_in(1 << 20);
  for (int i = 0; i < kRepetitions + 1; ++i) {
    const auto messages = [&](int trips, std::vector<char>* from,
                              std::vector<char>* to, How how) {
      return timed(trips, [&] { side->Messages(trips, from, to, how); });
    };
    const double results[] = {
        timed(kBusy, [&] { side->BareLine(kBusy); }),
        messages(kBusy, &out, &in, How::kPoll),
        timed(kAsleep, [&] { side->BareFutex(kAsleep); }),
        messages(kAsleep, &out, &in, How::kWait),
        messages(kAsleep, &out, &in, two_words ? How::kSleep : How::kWait),
        messages(kLarge, &big_out, &big_in, How::kPoll),
        timed(kLarge, [&] {
          for (int k = 0; k < 2 * kLarge; ++k) {
            big_out[k] = static_cast<char>(k);
            std::memcpy(big_in.data(), big_out.data(), big_in.size());
          }
        })};
    if (i == 0) continue;  // warms up
    std::vector<double>* into[] = {&line,   &small, &futex, &asleep,
                                   &worker, &large, &copy};
    for (int k = 0; k < 7; ++k) into[k]->push_back(results[k]);
  }
  if (!print) return;
  const auto result = [](const char* name, const std::vector<double>& ns) {
    PrintResult("transport", name, "one way", ns, "ns");
  };
  result("bare cache lines, both look", line);
  result("8 bytes, both poll", small);
  result("bare futex, both sleep", futex);
  result("8 bytes, both wait", asleep);
  if (two_words) result("8 bytes, both sleep as workers do", worker);
  result("1 MiB", large);
  result("1 MiB, a plain copy", copy);
}

// What UCX says of a message of 8 bytes between two processes, if it is here.
void RunUcx() {
  if (std::system("command -v ucx_perftest >/dev/null 2>&1") != 0) {
    std::printf("no ucx_perftest here: nothing to compare with\n");
    return;
  }
  std::fflush(stdout);
  const std::string test = absl::StrCat("ucx_perftest -t tag_lat -s ",
                                        kSmallBytes, " -n 300000 -p 13390 ");
  CHECK_EQ(std::system(absl::StrCat("taskset -c 1 ", test,
                                    ">/dev/null 2>&1 & sleep 1; "
                                    "taskset -c 0 ",
                                    test, "-f localhost")
                           .c_str()),
           0);
}

int Main(int argc, char** argv) {
  const std::string flag = "--plugin=";
  if (argc != 2 || std::string(argv[1]).rfind(flag, 0) != 0) {
    fprintf(stderr, "usage: message --plugin=libweft_shm.so\n");
    return 2;
  }
  const std::string plugin = std::string(argv[1]).substr(flag.size());
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  auto* shared = new (memory) Shared();
  int sockets[2];
  CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
  const pid_t child = fork();  // before there are threads
  CHECK_GE(child, 0);
  {
    Side side(child == 0 ? 1 : 0, shared, sockets[child == 0 ? 1 : 0], plugin);
    Run(&side, child != 0);
    side.Close();
  }
  if (child == 0) _exit(0);
  int status = 0;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
  RunUcx();
  return 0;
}

}  // namespace
}  // namespace weft::benchmarks

int main(int argc, char** argv) { return weft::benchmarks::Main(argc, argv); }
