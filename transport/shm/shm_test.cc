// The suite of every transport, and what processes of their own need: deaths,
// strangers, and that nothing is left behind.
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "transport/testing/deaths.h"
#include "transport/testing/transport_test.h"

namespace weft {
namespace {

using Kind = TransportEventKind;

TransportCase Case(const std::string& name, TransportCase::Options options) {
  options.push_back({"dir", testing::TempDir()});
  return {name, "shm", "transport/shm", options, nullptr};
}

INSTANTIATE_TEST_SUITE_P(Shm, TransportTest,
                         testing::Values(Case("plain", {}),
                                         Case("small",
                                              {{"eager_max", "64"},
                                               {"eager_credits", "4"},
                                               {"max_inflight", "200"}})),
                         TransportCase::Name);

std::vector<std::string> Entries(const std::string& dir) {
  std::vector<std::string> names;
  DIR* d = opendir(dir.c_str());
  if (d == nullptr) return names;
  while (const dirent* entry = readdir(d)) names.push_back(entry->d_name);
  closedir(d);
  return names;
}

// What this process holds, and what lies in the directory of the sockets.
struct Holdings {
  size_t descriptors = Entries("/proc/self/fd").size();
  size_t mappings = CountMappings();
  size_t files = Entries(testing::TempDir()).size();

  static size_t CountMappings() {
    std::ifstream maps("/proc/self/maps");
    size_t count = 0;
    for (std::string line; std::getline(maps, line);) {
      count += absl::StrContains(line, "memfd:weft");
    }
    return count;
  }
  bool operator==(const Holdings& o) const {
    return descriptors == o.descriptors && mappings == o.mappings &&
           files == o.files;
  }
};

std::ostream& operator<<(std::ostream& out, const Holdings& h) {
  return out << h.descriptors << " descriptors, " << h.mappings << " mappings, "
             << h.files << " files";
}

// A process that runs rank 0 of a world of two until it is killed or done.
class OtherProcess {
 public:
  // `run` gets the address of rank 1 once it is told.
  explicit OtherProcess(const std::function<void(const std::string&)>& run) {
    EXPECT_EQ(pipe(pipe_), 0);
    pid_ = fork();
    if (pid_ != 0) return;
    close(pipe_[1]);
    std::string address(256, '\0');
    const ssize_t n = read(pipe_[0], address.data(), address.size());
    if (n > 0) run(address.substr(0, n));
    _exit(n > 0 ? 0 : 1);
  }
  ~OtherProcess() {
    if (pid_ > 0) Kill();
    close(pipe_[0]);
    close(pipe_[1]);
  }
  void Tell(const std::string& address) {
    EXPECT_EQ(write(pipe_[1], address.data(), address.size()),
              static_cast<ssize_t>(address.size()));
  }
  void Kill() {
    kill(pid_, SIGKILL);
    Join();
  }
  void Stop() { kill(pid_, SIGSTOP); }
  void Join() {
    int status;
    waitpid(pid_, &status, 0);
    pid_ = -1;
  }

 private:
  int pipe_[2];
  pid_t pid_;
};

// A key of shared memory as a message, of one size for all.
constexpr size_t kKeyBytes = 250;
constexpr uint64_t kKeyTag = 1;

void GiveKey(Node& node, uint32_t rank, const SharedMemory& memory) {
  std::string key = node.domain().PackShared(memory.mr).value();
  key.resize(kKeyBytes, ' ');
  node.Send(rank, kKeyTag, key);
}

MappedMemory MapGiven(Node& node, uint32_t rank) {
  std::string key(kKeyBytes, '\0');
  const uint64_t has_key = node.Recv(rank, kKeyTag, &key);
  PumpThese({&node}, [&] { return node.done(has_key); });
  return node.domain()
      .Map(node.to(rank), std::string(absl::StripTrailingAsciiWhitespace(key)))
      .value();
}

class ShmTest : public TransportTest {
 protected:
  // In the other process: rank 0, connected.
  std::unique_ptr<Node> Join(const std::string& address,
                             uint64_t incarnation = 0) const {
    DomainConfig config = Config(0, 2);
    config.incarnation = incarnation;
    auto node = Open(config);
    (void)node->domain().Connect(1, address);
    PumpThese({node.get()}, [&] { return node->connected(1); });
    return node;
  }
};

// Two processes; the other one is killed while it sends, receives and maps.
TEST_P(ShmTest, AKilledPeerIsReportedAndLeavesNothing) {
  const Holdings before;
  for (int round = 0; round < 8; ++round) {
    SCOPED_TRACE(round);
    const uint64_t kLarge = (uint64_t{1} << 20) + 7;
    OtherProcess other([&](const std::string& address) {
      auto node = Join(address);
      const SharedMemory memory = node->domain().AllocShared(5000).value();
      std::memset(memory.host, 'm', 5000);
      GiveKey(*node, 1, memory);
      Flood(*node, 1, kLarge);
    });
    auto node = Open(Config(1, 2));
    other.Tell(node->domain().Listen().value());
    PumpThese({node.get()}, [&] { return node->connected(0); });
    const MappedMemory mapped = MapGiven(*node, 0);
    OutliveFlood(*node, 0, kLarge, round, [&] { other.Kill(); });
    EXPECT_EQ(std::string(static_cast<const char*>(mapped.host), 5000),
              std::string(5000, 'm'))
        << "what is mapped outlives its owner";
    EXPECT_TRUE(node->domain().Unmap(mapped.host).ok());
  }
  EXPECT_EQ(Holdings(), before);
}

TEST_P(ShmTest, OnlyTheOwnerWritesWhatPeersMap) {
  Nodes nodes = Mesh(2);
  const SharedMemory memory = nodes[1]->domain().AllocShared(100).value();
  const std::string key = nodes[1]->domain().PackShared(memory.mr).value();
  const MappedMemory mapped =
      nodes[0]->domain().Map(nodes[0]->to(1), key).value();
  static_cast<char*>(memory.host)[99] = 'x';
  EXPECT_EQ(static_cast<const char*>(mapped.host)[99], 'x');
  const pid_t writer = fork();
  if (writer == 0) {
    signal(SIGSEGV, SIG_DFL);  // a sanitizer has its own
    static_cast<volatile char*>(mapped.host)[99] = 'y';
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(writer, &status, 0), writer);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
  // Nor by another way: "shm memory PID FD ...".
  const std::vector<std::string> words = absl::StrSplit(key, ' ');
  ASSERT_GE(words.size(), 4u);
  const std::string path = absl::StrCat("/proc/", words[2], "/fd/", words[3]);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0) << path;
  EXPECT_EQ(mmap(nullptr, 100, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
            MAP_FAILED);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(pwrite(fd, "y", 1, 4096 + 99), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(fd, 0), -1);
  close(fd);
  EXPECT_EQ(static_cast<char*>(memory.host)[99], 'x');
  EXPECT_TRUE(nodes[0]->domain().Unmap(mapped.host).ok());
  EXPECT_TRUE(nodes[1]->domain().FreeShared(memory.mr).ok());
}

// The other process writes what its owner lets it write, and dies.
TEST_P(ShmTest, WhatAPeerWroteOutlivesIt) {
  OtherProcess other([&](const std::string& address) {
    auto node = Join(address);
    const MappedMemory mapped = MapGiven(*node, 1);
    std::memset(mapped.host, 'p', mapped.bytes);
    const uint64_t sent = node->Send(1, 2, "written");
    PumpThese({node.get()}, [&] { return node->done(sent); });
    pause();
  });
  auto node = Open(Config(1, 2));
  other.Tell(node->domain().Listen().value());
  PumpThese({node.get()}, [&] { return node->connected(0); });
  const SharedMemory memory =
      node->domain().AllocShared(100, /*writable=*/true).value();
  GiveKey(*node, 0, memory);
  std::string word(7, '\0');
  const uint64_t written = node->Recv(0, 2, &word);
  PumpThese({node.get()}, [&] { return node->done(written); });
  EXPECT_EQ(word, "written");
  other.Kill();
  PumpThese({node.get()}, [&] { return !Up(*node); });
  EXPECT_EQ(std::string(static_cast<const char*>(memory.host), 100),
            std::string(100, 'p'));
  EXPECT_TRUE(node->domain().FreeShared(memory.mr).ok());
}

// What is large lies so that huge pages fit, on both sides; nothing else is
// left of the place that is searched for it.
TEST_P(ShmTest, LargeMemoryBeginsWhereAHugePageDoes) {
  constexpr uint64_t kHugePage = uint64_t{2} << 20;
  constexpr uint64_t kPage = 4096;  // before the bytes
  Nodes nodes = Mesh(2);
  Domain& owner = nodes[1]->domain();
  Domain& peer = nodes[0]->domain();
  const Holdings before;
  for (uint64_t bytes : {kHugePage, kHugePage + 1, 3 * kHugePage - kPage}) {
    const SharedMemory memory = owner.AllocShared(bytes).value();
    const MappedMemory mapped =
        peer.Map(nodes[0]->to(1), owner.PackShared(memory.mr).value()).value();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.host) % kHugePage, kPage);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(mapped.host) % kHugePage, kPage);
    EXPECT_EQ(Holdings().mappings, before.mappings + 2);
    EXPECT_TRUE(peer.Unmap(mapped.host).ok());
    EXPECT_TRUE(owner.FreeShared(memory.mr).ok());
  }
  EXPECT_EQ(Holdings(), before);
}

// A rank that was killed comes back as what it was not before.
TEST_P(ShmTest, AKilledPeerComesBackInItsNextLifeOnly) {
  const auto live = [&](uint64_t incarnation) {
    return std::make_unique<OtherProcess>([=](const std::string& address) {
      auto node = Join(address, incarnation);
      while (true) node->Pump();
    });
  };
  auto first = live(4);
  auto same = live(4);
  auto next = live(5);
  auto node = Open(Config(1, 2));
  const std::string address = node->domain().Listen().value();
  first->Tell(address);
  PumpThese({node.get()}, [&] { return node->connected(0); });
  first->Kill();
  PumpThese({node.get()}, [&] { return !Up(*node); });
  same->Tell(address);
  PumpThese({node.get()},
            [&] { return node->Last(Kind::kRefused) != nullptr; });
  EXPECT_EQ(node->Last(Kind::kRefused)->reason, WEFT_REFUSED_INCARNATION);
  next->Tell(address);
  PumpThese({node.get()}, [&] { return node->Count(Kind::kAccepted) == 2; });
  EXPECT_EQ(node->Last(Kind::kAccepted)->incarnation, 5u);
}

// An orderly end is no loss, and what was received before it was received.
TEST_P(ShmTest, APeerThatClosesIsNotLost) {
  const Holdings before;
  {
    OtherProcess other([&](const std::string& address) {
      auto node = Join(address);
      const std::string bytes = Pattern(1, 100'000);
      const uint64_t sent = node->Send(1, 1, bytes);
      PumpThese({node.get()}, [&] { return node->done(sent); });
      node->Close();
    });
    auto node = Open(Config(1, 2));
    other.Tell(node->domain().Listen().value());
    PumpThese({node.get()}, [&] { return node->connected(0); });
    std::string large(100'000, '\0');
    const uint64_t recv = node->Recv(0, 1, &large);
    const uint64_t never = node->Recv(0, 2, &large);
    PumpThese({node.get()}, [&] { return !Up(*node); });
    EXPECT_TRUE(node->result(recv).status.ok());
    EXPECT_EQ(large, Pattern(1, 100'000));
    EXPECT_TRUE(Is(node->result(never).status, ErrorCode::kCancelled));
    EXPECT_TRUE(
        Is(node->Last(Kind::kEndpointDown)->status, ErrorCode::kCancelled));
    other.Join();
  }
  EXPECT_EQ(Holdings(), before);
}

// A peer that does not answer does not keep this side from its end.
TEST_P(ShmTest, AStoppedPeerIsNotWaitedForForEver) {
  OtherProcess other([&](const std::string& address) {
    auto node = Join(address);
    while (true) node->Pump();
  });
  DomainConfig config = Config(1, 2);
  config.peer_timeout_ms = 100;
  auto node = Open(config);
  other.Tell(node->domain().Listen().value());
  PumpThese({node.get()}, [&] { return node->connected(0); });
  other.Stop();
  std::string into(9, '\0');
  const uint64_t recv = node->Recv(0, 1, &into);
  node->Close();
  EXPECT_TRUE(Is(node->result(recv).status, ErrorCode::kCancelled));
}

// More than the ring of records holds, from a rank that does not poll.
TEST_P(ShmTest, WhatHasNoRoomGoesOutWithoutAPoll) {
  constexpr uint64_t kMany = 5000;
  Nodes nodes = Mesh(2);
  const std::string large = Pattern(1, 5000);
  for (uint64_t tag = 1; tag <= kMany; ++tag) nodes[0]->Send(1, tag, large);
  std::string into(large.size(), '\0');
  const uint64_t recv = nodes[1]->Recv(0, kMany, &into);
  PumpThese({nodes[1].get()}, [&] { return nodes[1]->done(recv); });
  EXPECT_EQ(into, large);
}

// The child of a dead peer, which has its sockets, does not hide its death.
TEST_P(ShmTest, APeerThatLeavesItsSocketsToAChildIsLost) {
  int hold[2];
  ASSERT_EQ(pipe(hold), 0);
  OtherProcess other([&](const std::string& address) {
    close(hold[1]);
    auto node = Join(address);
    if (fork() == 0) {
      char byte;
      (void)!read(hold[0], &byte, 1);  // until the test is over
      _exit(0);
    }
    const uint64_t send = node->Send(1, 1, "forked");
    PumpThese({node.get()}, [&] { return node->done(send); });
    pause();
  });
  auto node = Open(Config(1, 2));
  other.Tell(node->domain().Listen().value());
  PumpThese({node.get()}, [&] { return node->connected(0); });
  std::string into(6, '\0');
  const uint64_t recv = node->Recv(0, 1, &into);
  const uint64_t never = node->Recv(0, 2, &into);
  PumpThese({node.get()}, [&] { return node->done(recv); });
  other.Kill();
  PumpThese({node.get()}, [&] { return !Up(*node); });
  EXPECT_TRUE(
      Is(node->Last(Kind::kEndpointDown)->status, ErrorCode::kPeerLost));
  EXPECT_TRUE(Is(node->result(never).status, ErrorCode::kPeerLost));
  close(hold[0]);
  close(hold[1]);
}

// So many descriptors more than there are now, for as long as this lives.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    const int next = dup(0);  // the lowest that is free
    close(next);
    few.rlim_cur = static_cast<rlim_t>(next) + more;
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};

// Who finds no descriptor is told, or waits; nobody else notices, and later
// there is room for all.
TEST_P(ShmTest, WithoutDescriptorsNobodyIsLetIn) {
  constexpr uint32_t kPeers = 20;
  int told[2], go[2];
  ASSERT_EQ(pipe2(told, O_NONBLOCK), 0);
  ASSERT_EQ(pipe(go), 0);
  const auto config = [&](uint32_t rank) {
    DomainConfig of_rank = Config(rank, kPeers + 1);
    of_rank.peer_timeout_ms = 500;
    return of_rank;
  };
  OtherProcess other([&](const std::string& address) {
    Nodes nodes;
    std::vector<Node*> all;
    uint8_t failed = 0;  // ranks whose first connection came to nothing
    for (uint32_t rank = 0; rank < kPeers; ++rank) {
      nodes.push_back(Open(config(rank)));
      (void)nodes.back()->domain().Connect(kPeers, address);
      all.push_back(nodes.back().get());
    }
    const auto answered = [&](const Node& node) {
      return node.Last(Kind::kConnected) != nullptr;
    };
    for (auto& node : nodes) {
      PumpThese(all, [&] { return answered(*node); });
    }
    char byte = 'a';
    (void)!write(told[1], &byte, 1);
    (void)!read(go[0], &byte, 1);
    for (uint32_t rank = 0; rank < kPeers; ++rank) {
      for (uint64_t life = 1;; ++life) {
        constexpr uint64_t kCookie = 1000;
        Node& node = *nodes[rank];
        if (node.connected(kPeers)) {  // but it may be lost by now
          const auto posted = node.PostSend(kPeers, 1, "here", 4, kCookie);
          if (posted.ok() && *posted) {
            PumpThese(all, [&] { return node.done(kCookie); });
            if (node.result(kCookie).status.ok()) break;
          }
        }
        failed += life == 1;
        DomainConfig next = config(rank);
        next.incarnation = life;
        nodes[rank] = Open(next);
        all[rank] = nodes[rank].get();
        (void)all[rank]->domain().Connect(kPeers, address);
        PumpThese(all, [&] { return answered(*all[rank]); });
      }
    }
    (void)!write(told[1], &failed, 1);
  });
  auto node = Open(config(kPeers));
  auto few = std::make_unique<FewDescriptors>(10);
  other.Tell(node->domain().Listen().value());
  uint8_t failed = 0;
  const auto is_told = [&] { return read(told[0], &failed, 1) == 1; };
  PumpThese({node.get()}, is_told);  // that all have tried
  few.reset();
  EXPECT_EQ(write(go[1], "g", 1), 1);
  std::vector<std::string> into(kPeers, std::string(4, '\0'));
  for (uint32_t rank = 0; rank < kPeers; ++rank) {
    PumpThese({node.get()}, [&] { return node->connected(rank); });
    const uint64_t recv = node->Recv(rank, 1, &into[rank]);
    PumpThese({node.get()}, [&] { return node->done(recv); });
    EXPECT_TRUE(node->result(recv).status.ok()) << node->result(recv).status;
    EXPECT_EQ(into[rank], "here");
  }
  PumpThese({node.get()}, is_told);
  EXPECT_GT(failed, 0) << "ten descriptors were enough";
  other.Join();
  for (int fd : {told[0], told[1], go[0], go[1]}) close(fd);
}

// A listener that is killed before anybody came leaves no file either.
TEST_P(ShmTest, AKilledListenerLeavesNoFile) {
  const Holdings before;
  int from[2];
  ASSERT_EQ(pipe(from), 0);
  {
    OtherProcess other([&](const std::string&) {
      auto node = Open(Config(0, 2));
      (void)node->domain().Listen().value();
      EXPECT_EQ(write(from[1], "x", 1), 1);
      pause();
    });
    other.Tell("go");
    char byte;
    ASSERT_EQ(read(from[0], &byte, 1), 1);
    other.Kill();
  }
  close(from[0]);
  close(from[1]);
  EXPECT_EQ(Holdings(), before);
}

// ---- Strangers -------------------------------------------------------------

// Connects to where `address` leads, as anybody of this user can.
int KnockAt(const std::string& address) {
  const std::vector<std::string> words = absl::StrSplit(address, ' ');
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::strcpy(to.sun_path,
              absl::StrCat("/proc/", words[2], "/fd/", words[3]).c_str());
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

// Another user, who may open everything nevertheless: 0 where the door was shut
// on it, else the number of the step that went otherwise.
int KnockAsAnotherUser(const std::string& address, bool may_open_all) {
  constexpr uid_t kNobody = 65534;
  if (prctl(PR_SET_KEEPCAPS, 1) != 0 || setuid(kNobody) != 0) return 1;
  if (may_open_all) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2] = {};
    for (int capability : {CAP_DAC_OVERRIDE, CAP_SYS_PTRACE}) {
      data[0].effective |= 1u << capability;
      data[0].permitted |= 1u << capability;
    }
    if (syscall(SYS_capset, &header, data) != 0) return 1;
  }
  const std::vector<std::string> words = absl::StrSplit(address, ' ');
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::strcpy(to.sun_path,
              absl::StrCat("/proc/", words[2], "/fd/", words[3]).c_str());
  const int knocked = connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to));
  if (!may_open_all) return knocked != 0 && errno == EACCES ? 0 : 2;
  if (knocked != 0) return 3;
  const timeval patience{20, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  char byte;
  return recv(fd, &byte, 1, 0) == 0 ? 0 : 4;
}

TEST_P(ShmTest, AnotherUserIsNotLetIn) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  DomainConfig config = Config(1, 2);
  config.peer_timeout_ms = 60'000;  // who says nothing may stay so long
  auto node = Open(config);
  const std::string address = node->domain().Listen().value();
  for (bool may_open_all : {false, true}) {
    const pid_t other = fork();
    if (other == 0) _exit(KnockAsAnotherUser(address, may_open_all));
    int status = 0;
    ASSERT_EQ(waitpid(other, &status, 0), other);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 1) {
      GTEST_SKIP() << "root may not become another user here";
    }
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << status << (may_open_all ? ", with" : ", without") << " privileges";
  }
  const int same = KnockAt(address);
  char byte;
  EXPECT_EQ(recv(same, &byte, 1, MSG_DONTWAIT), -1) << "this user may stay";
  EXPECT_EQ(errno, EAGAIN);
  close(same);
  EXPECT_TRUE(node->others().empty());
}

TEST_P(ShmTest, StrangersDisturbNobody) {
  auto a = Open(Config(0, 2));
  auto b = Open(Config(1, 2));
  const std::string address = b->domain().Listen().value();
  std::vector<int> open;
  for (int i = 0; i < 100; ++i) {
    const int fd = KnockAt(address);
    const std::string garbage = Pattern(i, i * 17);
    if (i % 3 != 0) (void)send(fd, garbage.data(), garbage.size(), 0);
    if (i % 2 == 0) close(fd);
    if (i % 2 != 0) open.push_back(fd);
  }
  // The right place, and another token.
  std::string guessed = address;
  guessed.back() = guessed.back() == '0' ? '1' : '0';
  ASSERT_TRUE(a->domain().Connect(1, guessed).ok());
  PumpThese({a.get(), b.get()},
            [&] { return a->Last(Kind::kConnected) != nullptr; });
  EXPECT_TRUE(Is(a->Last(Kind::kConnected)->status, ErrorCode::kPeerLost));
  EXPECT_TRUE(b->others().empty()) << "a stranger is no event";
  EXPECT_TRUE(Connect(*a, *b));
  for (int fd : open) close(fd);
}

// ---- Nonsense --------------------------------------------------------------

std::vector<char*> Segments() {
  std::vector<char*> bases;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (absl::StrContains(line, "memfd:weft segment")) {
      bases.push_back(reinterpret_cast<char*>(
          std::stoull(line.substr(0, line.find('-')), nullptr, 16)));
    }
  }
  return bases;
}

// Records that no peer would write, where its peer reads them. Through a
// mapping of its own, as what writes into the memory of another process would.
void WriteNonsense(char* base, uint64_t seed) {
  constexpr size_t kBytes = 8192;
  void* copy = mremap(base, 0, kBytes, MREMAP_MAYMOVE);
  ASSERT_NE(copy, MAP_FAILED);
  char* segment = static_cast<char*>(copy);
  for (uint32_t i = 0; i < 8; ++i) {
    char* record = segment + 4096 + 64 * i;
    std::string bytes = Pattern(seed * 8 + i, 64);
    const uint16_t kind = static_cast<uint16_t>(bytes[0] & 7);
    std::memcpy(bytes.data(), &kind, sizeof(kind));
    if (seed % 2 == 0) {  // closer to what is right
      std::memset(bytes.data() + 2, 0, 2);
      for (int field = 8; field < 32; field += 8) {
        std::memset(bytes.data() + field + 1, 0, 7);
      }
    }
    std::memcpy(record, bytes.data(), 4);
    std::memcpy(record + 8, bytes.data() + 8, 56);
    __atomic_store_n(reinterpret_cast<uint32_t*>(record + 4), i + 1,
                     __ATOMIC_RELEASE);
  }
  munmap(copy, kBytes);
}

TEST_P(ShmTest, NonsenseEndsItsConnectionAndNothingElse) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Nodes nodes;
    for (uint32_t rank : {0u, 1u, 2u}) nodes.push_back(Open(Config(rank, 3)));
    ASSERT_TRUE(Connect(*nodes[0], *nodes[1]));
    const std::vector<char*> segments = Segments();
    ASSERT_EQ(segments.size(), 4u);
    ASSERT_TRUE(Connect(*nodes[0], *nodes[2]));
    std::string into(200, 'r');
    std::string small(8, 's');
    for (uint64_t tag = 0; tag < 3; ++tag) nodes[0]->Recv(1, tag, &small);
    nodes[0]->Recv(1, 5, &into);
    WriteNonsense(segments[seed % 4], seed);
    nodes[1]->domain().CloseEndpoint(nodes[1]->to(0)).IgnoreError();
    PumpUntil(nodes, [&] {
      return nodes[0]->Last(Kind::kEndpointDown) != nullptr &&
             nodes[1]->Last(Kind::kEndpointDown) != nullptr;
    });
    std::string other(5, '\0');
    const uint64_t recv = nodes[2]->Recv(0, 1, &other);
    nodes[0]->Send(2, 1, "other");
    PumpUntil(nodes, [&] { return nodes[2]->done(recv); });
    EXPECT_EQ(other, "other");
  }
}

// Memory into which nobody can copy before somebody lets him.
class Gate {
 public:
  static constexpr size_t kBytes = 1 << 20;

  Gate() {
    memory_ = static_cast<char*>(
        mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(sem_init(&came_, 0, 0), 0);
    EXPECT_EQ(sem_init(&open_, 0, 0), 0);
    the_gate = this;
    struct sigaction action {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO;
    EXPECT_EQ(sigaction(SIGSEGV, &action, &before_), 0);
  }
  ~Gate() {
    EXPECT_EQ(sigaction(SIGSEGV, &before_, nullptr), 0);
    munmap(memory_, kBytes);
    sem_destroy(&came_);
    sem_destroy(&open_);
  }

  char* memory() const { return memory_; }
  // Until a thread wants to copy.
  void AwaitCopy() { Wait(&came_); }
  void Open() { sem_post(&open_); }

 private:
  static void Wait(sem_t* semaphore) {
    while (sem_wait(semaphore) != 0) {
    }
  }
  static void OnFault(int, siginfo_t* info, void*) {
    const char* at = static_cast<const char*>(info->si_addr);
    Gate& gate = *the_gate;
    if (at < gate.memory_ || at >= gate.memory_ + kBytes) abort();
    sem_post(&gate.came_);
    Wait(&gate.open_);
    mprotect(gate.memory_, kBytes, PROT_READ | PROT_WRITE);
  }

  static Gate* the_gate;
  char* memory_;
  sem_t came_;
  sem_t open_;
  struct sigaction before_ {};
};
Gate* Gate::the_gate = nullptr;

// While the bell's thread copies a large message the host does other things,
// and even the end of the connection waits for it.
TEST_P(ShmTest, ALargeCopyKeepsNobodyWaiting) {
  Nodes nodes;
  for (uint32_t rank : {0u, 1u}) nodes.push_back(Open(Config(rank, 2)));
  ASSERT_TRUE(Connect(*nodes[0], *nodes[1]));
  Gate gate;
  const uint64_t large = 1000;
  ASSERT_TRUE(nodes[1]->TryRecv(0, 1, gate.memory(), Gate::kBytes, large));
  const std::string bytes = Pattern(3, Gate::kBytes);
  nodes[0]->Send(1, 1, bytes);
  gate.AwaitCopy();
  std::string small(5, '\0');
  const uint64_t recv = nodes[0]->Recv(1, 2, &small);
  nodes[1]->Send(0, 2, "small");
  PumpThese({nodes[0].get()}, [&] { return nodes[0]->done(recv); });
  EXPECT_EQ(small, "small");
  nodes[1]->Pump();
  EXPECT_TRUE(
      nodes[1]->domain().CloseEndpoint(nodes[1]->to(0), /*abort=*/true).ok());
  nodes[1]->Pump();
  EXPECT_FALSE(nodes[1]->done(large)) << "somebody writes to its memory";
  EXPECT_EQ(nodes[1]->Last(Kind::kEndpointDown), nullptr);
  gate.Open();
  PumpUntil(nodes, [&] {
    return nodes[1]->done(large) &&
           nodes[1]->Last(Kind::kEndpointDown) != nullptr;
  });
}

TEST_P(ShmTest, RefusesBadOptions) {
  const std::pair<const char*, const char*> bad[] = {
      {"eager_max", "0"},    {"eager_max", "65537"}, {"eager_credits", "4097"},
      {"max_inflight", "x"}, {"dir", "relative"},    {"dir", ""}};
  for (const auto& [key, value] : bad) {
    DomainConfig config = Config(0, 1);
    config.options = {{key, value}};
    EXPECT_TRUE(Is(transport().Open(config).status(), ErrorCode::kBadValue))
        << key << "=" << value;
  }
  DomainConfig config = Config(0, 1);
  config.options = {{"dir", "/nowhere/at/all"}};
  auto domain = transport().Open(config).value();
  const absl::Status status = domain->Listen().status();
  EXPECT_TRUE(absl::StrContains(status.message(), "/nowhere/at/all")) << status;
}

INSTANTIATE_TEST_SUITE_P(Shm, ShmTest, testing::Values(Case("plain", {})),
                         TransportCase::Name);

}  // namespace
}  // namespace weft
