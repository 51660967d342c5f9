// The suite of every transport with and without delays and with small bounds,
// and what loopback alone promises.
#include <set>

#include "absl/strings/str_cat.h"
#include "transport/testing/transport_test.h"

namespace weft {
namespace {

TransportCase Case(const std::string& name,
                   const TransportCase::Options& options) {
  return {name, "loopback", "transport/loopback", options,
          [](uint64_t posts) -> TransportCase::Options {
            return {{"lose_peer_after", absl::StrCat(posts)}};
          }};
}

INSTANTIATE_TEST_SUITE_P(
    Loopback, TransportTest,
    testing::Values(Case("plain", {}),
                    Case("delayed", {{"delay_seed", "7"}, {"delay_max", "9"}}),
                    Case("small", {{"eager_max", "64"},
                                   {"eager_credits", "4"},
                                   {"max_inflight", "200"}})),
    TransportCase::Name);

class LoopbackTest : public TransportTest {};

// What comes in which order, of one message on each of `tags` tags.
std::vector<uint64_t> Order(Node& a, Node& b, uint64_t tags) {
  std::vector<std::string> into(tags, std::string(1, '\0'));
  std::vector<uint64_t> recvs;
  for (uint64_t tag = 0; tag < tags; ++tag) {
    recvs.push_back(b.Recv(a.rank(), tag, &into[tag]));
  }
  for (uint64_t tag = 0; tag < tags; ++tag) a.Send(b.rank(), tag, "x");
  PumpThese({&a, &b}, [&] { return b.outstanding() == 0; });
  return b.order();
}

TEST_P(LoopbackTest, DelaysChangeTheOrderAsTheSeedSays) {
  std::set<std::vector<uint64_t>> orders;
  std::vector<uint64_t> first;
  for (const char* seed : {"1", "1", "2", "3"}) {
    Nodes nodes;
    for (uint32_t rank : {0u, 1u}) {
      DomainConfig config = Config(rank, 2);
      config.options = {{"delay_seed", seed}, {"delay_max", "8"}};
      nodes.push_back(Open(config));
    }
    ASSERT_TRUE(Connect(*nodes[0], *nodes[1]));
    orders.insert(Order(*nodes[0], *nodes[1], 20));
    first = orders.size() == 1 ? nodes[1]->order() : first;
  }
  EXPECT_EQ(orders.size(), 3u) << "one for each seed";
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
}

TEST_P(LoopbackTest, WithoutDelaysTheOrderIsThatOfThePosts) {
  Nodes nodes = Mesh(2);
  const std::vector<uint64_t> order = Order(*nodes[0], *nodes[1], 20);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_P(LoopbackTest, MappedMemoryIsTheSameMemory) {
  Nodes nodes = Mesh(2);
  Domain& owner = nodes[1]->domain();
  const SharedMemory memory = owner.AllocShared(64).value();
  const MappedMemory mapped =
      nodes[0]
          ->domain()
          .Map(nodes[0]->to(1), owner.PackShared(memory.mr).value())
          .value();
  EXPECT_EQ(mapped.host, memory.host);
  EXPECT_TRUE(nodes[0]->domain().Unmap(mapped.host).ok());
  EXPECT_TRUE(owner.FreeShared(memory.mr).ok());
}

TEST_P(LoopbackTest, RefusesBadOptions) {
  const std::pair<const char*, const char*> bad[] = {
      {"delay_max", "-1"},
      {"delay_max", ""},
      {"delay_max", "1e3"},
      {"eager_max", "0"},
      {"eager_credits", "0"},
      {"max_inflight", "99999999999"},
      {"delay_seed", "18446744073709551616"}};
  for (const auto& [key, value] : bad) {
    DomainConfig config = Config(0, 1);
    config.options = {{key, value}};
    const absl::Status status = transport().Open(config).status();
    EXPECT_TRUE(Is(status, ErrorCode::kBadValue)) << key << "=" << value;
  }
  DomainConfig config = Config(0, 1);
  config.options = {{"delay_seed", "18446744073709551615"},
                    {"eager_max", "100"}};
  auto domain = transport().Open(config).value();
  EXPECT_EQ(domain->info().eager_max, 100u);
  EXPECT_EQ(transport().info().eager_max, 4096u);
}

// After its loss a domain takes nothing, and its address leads nowhere.
TEST_P(LoopbackTest, ALostDomainIsLost) {
  DomainConfig config = Config(1, 2);
  config.options = {{"lose_peer_after", "1"}};
  auto dies = Open(config);
  auto a = Open(Config(0, 2));
  ASSERT_TRUE(Connect(*a, *dies));
  const std::string address = dies->domain().Listen().value();
  dies->Send(0, 1, "last words");
  EXPECT_TRUE(Is(dies->domain().PostSend(dies->to(0), 1, "x", 1, 9).status(),
                 ErrorCode::kPeerLost));
  EXPECT_TRUE(Is(dies->domain().Listen().status(), ErrorCode::kPeerLost));
  PumpThese({a.get(), dies.get()}, [&] {
    return a->Last(TransportEventKind::kEndpointDown) &&
           dies->Last(TransportEventKind::kEndpointDown);
  });
  EXPECT_TRUE(Is(dies->Last(TransportEventKind::kEndpointDown)->status,
                 ErrorCode::kPeerLost));
  ASSERT_TRUE(a->domain().Connect(1, address).ok());
  PumpThese({a.get()},
            [&] { return a->Count(TransportEventKind::kConnected) == 2; });
  EXPECT_TRUE(Is(a->Last(TransportEventKind::kConnected)->status,
                 ErrorCode::kPeerLost));
}

INSTANTIATE_TEST_SUITE_P(Loopback, LoopbackTest,
                         testing::Values(Case("plain", {})),
                         TransportCase::Name);

}  // namespace
}  // namespace weft
