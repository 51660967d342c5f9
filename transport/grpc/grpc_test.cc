// The suite of every transport, and what a transport between machines needs:
// deaths, silence, and that nothing is left behind.
#include <dirent.h>

#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "plugins/host/test_plugins.h"
#include "transport/grpc/other_side.h"
#include "transport/testing/deaths.h"

namespace weft {
namespace {

using Kind = TransportEventKind;

INSTANTIATE_TEST_SUITE_P(Grpc, TransportTest,
                         testing::Values(GrpcCase("plain", {}),
                                         GrpcCase("small",
                                                  {{"eager_max", "64"},
                                                   {"eager_credits", "4"},
                                                   {"max_inflight", "200"}})),
                         TransportCase::Name);
INSTANTIATE_TEST_SUITE_P(Grpc, GrpcTest, testing::Values(GrpcCase("plain", {})),
                         TransportCase::Name);

constexpr uint64_t kLarge = (uint64_t{8} << 20) + 7;

// ---- The other process -----------------------------------------------------

// Rank 0, connected to `address`.
std::unique_ptr<Node> Join(const std::string& job, const std::string& address) {
  const Plugin* plugin =
      Plugin::Load("grpc", TestLoadOptions({"transport/grpc"})).value();
  DomainConfig config;
  config.rank = 0;
  config.world = 2;
  config.wire_version = 3;
  config.job = job;
  config.epoch = 5;
  config.plan_hash = 0xabcdef;
  auto node = std::make_unique<Node>(
      Transport::Create(*plugin).value().Open(config).value());
  (void)node->domain().Connect(1, address);
  PumpThese({node.get()}, [&] { return node->connected(1); });
  return node;
}

// Sends back what comes on tag 1, until the peer closes.
void Echo(Node& node) {
  std::string bytes(5, '\0');
  for (uint64_t cookie = 1000;; ++cookie) {
    if (!node.PostRecv(1, 1, bytes.data(), bytes.size(), cookie).ok()) break;
    PumpThese({&node}, [&] { return node.done(cookie); });
    if (!node.result(cookie).status.ok()) break;
    node.Send(1, 2, bytes);
  }
  node.Close();
}

int RunRankZero(char** words) {
  const std::string what = words[0];
  auto node = Join(words[1], words[2]);
  if (what == "leave") {
    static Node* left;  // as by a program that ends in the middle
    left = node.release();
    EXPECT_TRUE(Up(*left));
  } else {
    what == "flood" ? Flood(*node, 1, kLarge) : Echo(*node);
  }
  return 0;
}

// ---- Deaths ----------------------------------------------------------------

// The time-out is longer than the test has patience: the streams tell.
TEST_P(GrpcTest, AKilledPeerIsReportedAtOnce) {
  for (int round = 0; round < 4; ++round) {
    SCOPED_TRACE(round);
    DomainConfig config = Config(1, 2);
    config.peer_timeout_ms = 100'000;
    auto node = Open(config);
    OtherProcess other("flood", Job(), node->domain().Listen().value());
    PumpThese({node.get()}, [&] { return node->connected(0); });
    OutliveFlood(*node, 0, kLarge, round, [&] { other.Kill(); });
  }
}

// A program may end with its domains open: it ends, and its peers see it.
TEST_P(GrpcTest, AProcessEndsWithItsDomainOpen) {
  DomainConfig config = Config(1, 2);
  config.peer_timeout_ms = 100'000;
  auto node = Open(config);
  OtherProcess other("leave", Job(), node->domain().Listen().value());
  PumpThese({node.get()}, [&] { return !Up(*node); });
  EXPECT_TRUE(
      Is(node->Last(Kind::kEndpointDown)->status, ErrorCode::kPeerLost));
  EXPECT_EQ(other.Join(), 0);
}

TEST_P(GrpcTest, AStoppedPeerIsLost) {
  DomainConfig config = Config(1, 2);
  config.peer_timeout_ms = 400;
  auto node = Open(config);
  OtherProcess other("echo", Job(), node->domain().Listen().value());
  PumpThese({node.get()}, [&] { return node->connected(0); });
  other.Signal(SIGSTOP);
  std::string into(3, '\0');
  const uint64_t recv = node->Recv(0, 1, &into);
  PumpThese({node.get()}, [&] { return !Up(*node); });
  const absl::Status status = node->Last(Kind::kEndpointDown)->status;
  EXPECT_TRUE(Is(status, ErrorCode::kPeerLost));
  EXPECT_TRUE(absl::StrContains(status.message(), "nothing was heard"))
      << status;
  EXPECT_TRUE(Is(node->result(recv).status, ErrorCode::kPeerLost));
}

// At default settings, and neither side takes the other one for dead.
TEST_P(GrpcTest, AStopOfTwoSecondsIsNoLoss) {
  auto node = Open(Config(1, 2));
  OtherProcess other("echo", Job(), node->domain().Listen().value());
  PumpThese({node.get()}, [&] { return node->connected(0); });
  other.Signal(SIGSTOP);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < until && Up(*node)) {
    node->Pump();
    ASSERT_TRUE(node->domain().Wait(10'000'000).ok());
  }
  other.Signal(SIGCONT);
  std::string into(5, '\0');
  const uint64_t recv = node->Recv(0, 2, &into);
  node->Send(0, 1, "alive");
  PumpThese({node.get()}, [&] { return node->done(recv) || !Up(*node); });
  ASSERT_TRUE(Up(*node)) << node->Last(Kind::kEndpointDown)->status;
  EXPECT_EQ(into, "alive");
  node->Close();
  EXPECT_EQ(other.Join(), 0) << "an orderly end for the peer too";
}

// A wire that has gone silent is seen at both ends, in the middle of bulk too.
TEST_P(GrpcTest, ASilentNetworkIsALoss) {
  std::unique_ptr<Node> nodes[2];
  for (uint32_t rank : {0u, 1u}) {
    DomainConfig config = Config(rank, 2);
    config.peer_timeout_ms = 400;
    nodes[rank] = Open(config);
  }
  const std::string address = nodes[1]->domain().Listen().value();
  Proxy proxy(Place(address).port);
  ASSERT_TRUE(
      TryConnect(*nodes[0], *nodes[1], Place(address).AtPort(proxy.port()))
          .ok());
  Exchange(*nodes[0], *nodes[1]);
  proxy.Stop();
  const std::string large(kLarge, 'l');
  std::string into(kLarge, '\0');
  nodes[1]->Recv(0, 3, &into);
  const uint64_t send = nodes[0]->Send(1, 3, large);
  PumpThese({nodes[0].get(), nodes[1].get()},
            [&] { return !Up(*nodes[0]) && !Up(*nodes[1]); });
  for (const auto& node : nodes) {
    EXPECT_TRUE(
        Is(node->Last(Kind::kEndpointDown)->status, ErrorCode::kPeerLost));
  }
  EXPECT_TRUE(Is(nodes[0]->result(send).status, ErrorCode::kPeerLost));
}

// Who listens but says nothing is not waited for longer than the time-out.
TEST_P(GrpcTest, ASilentListenerIsNobody) {
  DomainConfig config = Config(0, 2);
  config.peer_timeout_ms = 300;
  auto a = Open(config);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at = Loopback(0);
  socklen_t size = sizeof(at);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&at), size), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size);
  ASSERT_TRUE(
      a->domain()
          .Connect(1, absl::StrCat("grpc 127.0.0.1:", ntohs(at.sin_port), " ",
                                   std::string(32, 'a')))
          .ok());
  PumpThese({a.get()}, [&] { return a->Last(Kind::kConnected) != nullptr; });
  EXPECT_TRUE(Is(a->Last(Kind::kConnected)->status, ErrorCode::kPeerLost));
  close(fd);
}

// ---- Control and bulk ------------------------------------------------------

TEST_P(GrpcTest, BulkDoesNotBlockControl) {
  Nodes nodes = Mesh(2);
  const std::string bulk(uint64_t{256} << 20, 'b');
  std::string into(bulk.size(), '\0');
  const uint64_t large = nodes[1]->Recv(0, 1, &into);
  nodes[0]->Send(1, 1, bulk);
  for (uint64_t i = 0; i < 5; ++i) {
    std::string control(32, '\0');
    const uint64_t recv = nodes[1]->Recv(0, 0, &control);
    nodes[0]->Send(1, 0, Pattern(i, 32), /*urgent=*/true);
    PumpUntil(nodes, [&] { return nodes[1]->done(recv); });
    EXPECT_EQ(control, Pattern(i, 32));
    EXPECT_FALSE(nodes[1]->done(large)) << "control waited for bulk";
  }
  PumpUntil(nodes, [&] { return nodes[1]->done(large); });
  EXPECT_TRUE(into == bulk);
}

// Large messages take turns: the small one of them is not the last.
TEST_P(GrpcTest, BulkMessagesTakeTurns) {
  Nodes nodes = Mesh(2);
  const std::string first(uint64_t{64} << 20, '1');
  const std::string second(uint64_t{2} << 20, '2');
  std::string into_first(first.size(), '\0');
  std::string into_second(second.size(), '\0');
  const uint64_t one = nodes[1]->Recv(0, 1, &into_first);
  const uint64_t two = nodes[1]->Recv(0, 2, &into_second);
  nodes[0]->Send(1, 1, first);
  nodes[0]->Send(1, 2, second);
  PumpUntil(nodes, [&] { return nodes[1]->done(one) && nodes[1]->done(two); });
  EXPECT_EQ(nodes[1]->order(), (std::vector<uint64_t>{two, one}));
  EXPECT_TRUE(into_first == first && into_second == second);
}

// ---- What is left, and where it listens ------------------------------------

size_t CountEntries(const char* directory) {
  DIR* d = opendir(directory);
  size_t count = 0;
  while (readdir(d) != nullptr) ++count;
  closedir(d);
  return count;
}

TEST_P(GrpcTest, NothingIsLeftAfterTheLastDomain) {
  { Mesh(2); }  // what gRPC keeps for ever
  const size_t descriptors = CountEntries("/proc/self/fd");
  const size_t threads = CountEntries("/proc/self/task");
  int port;
  {
    Nodes nodes = Mesh(3);
    port = Place(nodes[2]->domain().Listen().value()).port;
    Exchange(*nodes[0], *nodes[2]);
    EXPECT_GT(CountEntries("/proc/self/task"), threads);
    const int fd = Knock(port);
    EXPECT_GE(fd, 0);
    close(fd);
  }
  // gRPC closes its sockets, and a thread that was joined goes, a moment later.
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while ((CountEntries("/proc/self/fd") > descriptors ||
          CountEntries("/proc/self/task") > threads) &&
         std::chrono::steady_clock::now() < until) {
  }
  EXPECT_LE(CountEntries("/proc/self/fd"), descriptors);
  EXPECT_LE(CountEntries("/proc/self/task"), threads);
  EXPECT_EQ(Knock(port), -1) << "somebody still listens";
}

TEST_P(GrpcTest, ATakenPortIsAnErrorThatNamesIt) {
  auto first = Open(Config(1, 2));
  const int port = Place(first->domain().Listen().value()).port;
  DomainConfig config = Config(1, 2);
  config.options.push_back({"listen", absl::StrCat("127.0.0.1:", port)});
  auto second = Open(config);
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = second->domain().Listen().status();
    EXPECT_TRUE(Is(status, ErrorCode::kTransportFailed));
    EXPECT_TRUE(
        absl::StrContains(status.message(), absl::StrCat("127.0.0.1:", port)) &&
        absl::StrContains(status.message(), "in use"))
        << status;
  }
  // Once the port is free it can be had.
  first.reset();
  EXPECT_EQ(Place(second->domain().Listen().value()).port, port);
}

TEST_P(GrpcTest, TwentyJobsAtOnce) {
  std::vector<Nodes> jobs;
  for (int i = 0; i < 20; ++i) jobs.push_back(Mesh(2));
  for (Nodes& nodes : jobs) Exchange(*nodes[0], *nodes[1]);
}

TEST_P(GrpcTest, ListensWhereItIsTold) {
  DomainConfig config = Config(1, 2);
  config.options = {{"listen", "[::1]:0"}};
  auto six = Open(config);
  const std::string address = six->domain().Listen().value();
  EXPECT_TRUE(absl::StartsWith(address, "grpc [::1]:")) << address;
  config.options = {{"interface", "lo"}, {"advertise", "127.0.0.7"}};
  auto named = Open(config);
  const std::string other = named->domain().Listen().value();
  EXPECT_TRUE(absl::StartsWith(other, "grpc 127.0.0.7:")) << other;
  auto a = Open(Config(0, 2));
  EXPECT_TRUE(TryConnect(*a, *six, address).ok());
  EXPECT_NE(six->domain().info().locality, a->domain().info().locality);
  EXPECT_EQ(named->domain().info().locality, a->domain().info().locality);
}

TEST_P(GrpcTest, RefusesBadOptions) {
  const std::pair<const char*, const char*> bad[] = {
      {"eager_max", "0"},         {"eager_max", "65537"},
      {"eager_credits", "4097"},  {"max_inflight", "x"},
      {"listen", "127.0.0.1"},    {"listen", "localhost:0"},
      {"listen", "127.0.0.1:-1"}, {"listen", "127.0.0.1:65536"},
      {"listen", "::1:0"},        {"interface", "no_such_one"},
      {"advertise", "me"},        {"advertise", "0.0.0.0"},
      {"insecure", "2"},          {"tls_ca", "/nowhere"}};
  for (const auto& [key, value] : bad) {
    DomainConfig config = Config(0, 1);
    config.options = {{key, value}};
    const absl::Status status = transport().Open(config).status();
    EXPECT_TRUE(Is(status, ErrorCode::kBadValue)) << key << "=" << value;
    EXPECT_TRUE(absl::StrContains(status.message(), key)) << status;
  }
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc == 5 && std::string(argv[1]) == "--rank0") {
    return weft::RunRankZero(argv + 2);
  }
  return RUN_ALL_TESTS();
}
