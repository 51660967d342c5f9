// Connecting, refusing, closing, losing.
#include "absl/strings/str_cat.h"
#include "transport/testing/transport_test.h"

namespace weft {
namespace {

using Kind = TransportEventKind;

bool Has(const absl::Status& status, const std::string& part) {
  return status.message().find(part) != std::string::npos;
}

TEST_P(TransportTest, InfoIsUsable) {
  const TransportInfo& info = transport().info();
  EXPECT_EQ(info.name, GetParam().plugin);
  EXPECT_FALSE(info.locality.empty());
  EXPECT_GE(info.eager_max, 64u) << "control messages fit";
  auto node = Open(Config(0, 1));
  EXPECT_EQ(node->domain().info().locality, info.locality);
  EXPECT_EQ(node->domain().info().wire_version, info.wire_version);
}

TEST_P(TransportTest, ConnectsAndSaysWho) {
  DomainConfig low = Config(1, 4);
  low.incarnation = 7;
  DomainConfig high = Config(3, 4);
  high.incarnation = 9;
  auto a = Open(low);
  auto b = Open(high);
  ASSERT_TRUE(Connect(*a, *b, /*cookie=*/1234));
  const TransportEvent& connected = *a->Last(Kind::kConnected);
  EXPECT_EQ(connected.rank, 3u);
  EXPECT_EQ(connected.incarnation, 9u);
  EXPECT_EQ(connected.cookie, 1234u);
  const TransportEvent& accepted = *b->Last(Kind::kAccepted);
  EXPECT_EQ(accepted.rank, 1u);
  EXPECT_EQ(accepted.incarnation, 7u);
  EXPECT_TRUE(accepted.status.ok());
  EXPECT_EQ(a->others().size(), 1u);
  EXPECT_EQ(b->others().size(), 1u);
}

TEST_P(TransportTest, OneAddressPerDomain) {
  auto a = Open(Config(0, 2));
  auto b = Open(Config(1, 2));
  EXPECT_EQ(a->domain().Listen().value(), a->domain().Listen().value());
  EXPECT_NE(a->domain().Listen().value(), b->domain().Listen().value());
}

struct Mismatch {
  const char* what;
  std::function<void(DomainConfig*)> change;  // of the connecting rank
  uint32_t reason;
  const char* ours;
  const char* theirs;
};

TEST_P(TransportTest, RefusesOnBothSidesWithBothValues) {
  const Mismatch cases[] = {
      {"job", [](DomainConfig* c) { c->job = "another"; }, WEFT_REFUSED_JOB,
       "'another'", "'RefusesOnBothSides"},
      {"epoch", [](DomainConfig* c) { c->epoch = 4; }, WEFT_REFUSED_EPOCH,
       "epoch 4", "epoch 5"},
      {"world", [](DomainConfig* c) { c->world = 3; }, WEFT_REFUSED_WORLD, "3",
       "2"},
      {"wire", [](DomainConfig* c) { c->wire_version = 2; }, WEFT_REFUSED_WIRE,
       "2", "3"},
      {"plan", [](DomainConfig* c) { c->plan_hash = 0xabc; }, WEFT_REFUSED_PLAN,
       "0xabc,", "0xabcdef"}};
  auto b = Open(Config(1, 2));
  for (const Mismatch& m : cases) {
    SCOPED_TRACE(m.what);
    DomainConfig config = Config(0, 2);
    m.change(&config);
    auto a = Open(config);
    EXPECT_FALSE(Connect(*a, *b));
    for (const TransportEvent* event :
         {a->Last(Kind::kConnected), b->Last(Kind::kRefused)}) {
      ASSERT_NE(event, nullptr);
      EXPECT_TRUE(Is(event->status, ErrorCode::kPeerRefused));
      EXPECT_EQ(event->reason, m.reason);
      EXPECT_TRUE(Has(event->status, m.ours)) << event->status;
      EXPECT_TRUE(Has(event->status, m.theirs)) << event->status;
    }
    EXPECT_EQ(b->Last(Kind::kRefused)->rank, 0u);
  }
  // None of them keeps the right one out.
  auto a = Open(Config(0, 2));
  EXPECT_TRUE(Connect(*a, *b));
}

TEST_P(TransportTest, RefusesTheWrongRank) {
  auto a = Open(Config(0, 3));
  auto b = Open(Config(1, 3));
  const std::string address = b->domain().Listen().value();
  ASSERT_TRUE(a->domain().Connect(2, address).ok());
  PumpThese({a.get(), b.get()}, [&] {
    return a->Last(Kind::kConnected) != nullptr &&
           b->Last(Kind::kRefused) != nullptr;
  });
  for (const TransportEvent* event :
       {a->Last(Kind::kConnected), b->Last(Kind::kRefused)}) {
    EXPECT_TRUE(Is(event->status, ErrorCode::kPeerRefused));
    EXPECT_EQ(event->reason, WEFT_REFUSED_RANK);
    EXPECT_TRUE(Has(event->status, "rank 2")) << event->status;
    EXPECT_TRUE(Has(event->status, "rank 1")) << event->status;
  }
}

// `stale` connects to, or is connected to by, somebody who saw `seen`.
TEST_P(TransportTest, RefusesAnIncarnationThatIsNotNewer) {
  for (bool listener_is_stale : {false, true}) {
    SCOPED_TRACE(listener_is_stale);
    DomainConfig config = Config(listener_is_stale ? 1 : 0, 2);
    auto stays = Open(Config(listener_is_stale ? 0 : 1, 2));
    const auto connect = [&](uint64_t incarnation) {
      config.incarnation = incarnation;
      auto comes = Open(config);
      return listener_is_stale ? Connect(*stays, *comes)
                               : Connect(*comes, *stays);
    };
    EXPECT_TRUE(connect(6));  // and goes away
    for (uint64_t stale : {5, 6}) {
      EXPECT_FALSE(connect(stale));
      const TransportEvent* event =
          stays->Last(listener_is_stale ? Kind::kConnected : Kind::kRefused);
      ASSERT_NE(event, nullptr);
      EXPECT_TRUE(Is(event->status, ErrorCode::kPeerRefused));
      EXPECT_EQ(event->reason, WEFT_REFUSED_INCARNATION);
      EXPECT_TRUE(Has(event->status, absl::StrCat("incarnation ", stale)));
      EXPECT_TRUE(Has(event->status, "incarnation 6")) << event->status;
    }
    EXPECT_TRUE(connect(7));
  }
}

TEST_P(TransportTest, RefusesBadArguments) {
  EXPECT_TRUE(
      Is(transport().Open(Config(2, 2)).status(), ErrorCode::kBadValue));
  DomainConfig config = Config(0, 2);
  config.options.push_back({"knwon", "1"});
  absl::Status unknown = transport().Open(config).status();
  EXPECT_TRUE(Is(unknown, ErrorCode::kBadValue));
  EXPECT_TRUE(Has(unknown, "knwon")) << unknown;
  config = Config(0, 2);
  config.job.assign(129, 'j');
  EXPECT_TRUE(Is(transport().Open(config).status(), ErrorCode::kBadValue));
  Nodes nodes = Mesh(2);
  Domain& high = nodes[1]->domain();
  Domain& low = nodes[0]->domain();
  const std::string address = low.Listen().value();
  for (uint32_t rank : {0u, 1u, 2u}) {  // not above, or outside
    EXPECT_FALSE(high.Connect(rank, address).ok());
  }
  EXPECT_FALSE(low.Connect(1, "").ok());
  EXPECT_FALSE(low.Connect(1, std::string(257, 'x')).ok());
  EXPECT_FALSE(low.PostSend(0, 1, "x", 1, 1).ok());
  EXPECT_FALSE(low.PostRecv(123456789, 1, nullptr, 0, 1).ok());
  EXPECT_FALSE(low.CloseEndpoint(0).ok());
  EXPECT_FALSE(low.PostSend(nodes[0]->to(1), 1, nullptr, 1, 1).ok());
  const std::string large(low.info().eager_max + 1, 'x');
  EXPECT_FALSE(low.PostSend(nodes[0]->to(1), 1, large.data(), large.size(), 1,
                            /*urgent=*/true)
                   .ok());
}

TEST_P(TransportTest, RefusesWhatIsNoAddress) {
  auto a = Open(Config(0, 2));
  auto b = Open(Config(1, 2));
  std::string address = b->domain().Listen().value();
  address.back() ^= 0x55;
  for (const std::string& bad : {std::string("nonsense"), address}) {
    // At once, or as the result.
    if (!a->domain().Connect(1, bad).ok()) continue;
    const size_t before = a->Count(Kind::kConnected);
    PumpThese({a.get(), b.get()},
              [&] { return a->Count(Kind::kConnected) > before; });
    EXPECT_FALSE(a->Last(Kind::kConnected)->status.ok());
  }
}

TEST_P(TransportTest, NobodyIsThere) {
  auto a = Open(Config(0, 2));
  std::string address;
  {
    auto gone = Open(Config(1, 2));
    address = gone->domain().Listen().value();
  }
  ASSERT_TRUE(a->domain().Connect(1, address).ok());
  PumpThese({a.get()}, [&] { return a->Last(Kind::kConnected) != nullptr; });
  EXPECT_TRUE(Is(a->Last(Kind::kConnected)->status, ErrorCode::kPeerLost));
}

// ---- Ends ------------------------------------------------------------------

// Operations of both sides that cannot complete.
struct InFlight {
  InFlight(Node& a, Node& b)
      : large(a.domain().info().eager_max + 1, 'l'), into(100, 'r') {
    cookies_a = {a.Send(b.rank(), 1, "small"), a.Send(b.rank(), 2, large),
                 a.Recv(b.rank(), 3, &into)};
    cookies_b = {b.Send(a.rank(), 4, "small"), b.Send(a.rank(), 5, large),
                 b.Recv(a.rank(), 6, &into)};
  }
  std::string large, into;
  std::vector<uint64_t> cookies_a, cookies_b;
};

void ExpectAll(const Node& node, const std::vector<uint64_t>& cookies,
               ErrorCode code) {
  for (uint64_t cookie : cookies) {
    ASSERT_TRUE(node.done(cookie));
    EXPECT_TRUE(Is(node.result(cookie).status, code));
    EXPECT_EQ(node.result(cookie).length, 0u);
  }
}

TEST_P(TransportTest, CloseCancelsOnBothSides) {
  Nodes nodes = Mesh(2);
  Node& a = *nodes[0];
  Node& b = *nodes[1];
  InFlight ops(a, b);
  ASSERT_TRUE(a.domain().CloseEndpoint(a.to(1)).ok());
  PumpUntil(nodes, [&] {
    return a.Last(Kind::kEndpointDown) && b.Last(Kind::kEndpointDown);
  });
  ExpectAll(a, ops.cookies_a, ErrorCode::kCancelled);
  ExpectAll(b, ops.cookies_b, ErrorCode::kCancelled);
  EXPECT_TRUE(a.Last(Kind::kEndpointDown)->status.ok());
  EXPECT_EQ(a.Last(Kind::kEndpointDown)->rank, 1u);
  EXPECT_TRUE(Is(b.Last(Kind::kEndpointDown)->status, ErrorCode::kCancelled));
  EXPECT_TRUE(Is(a.domain().PostSend(a.to(1), 1, "x", 1, 9).status(),
                 ErrorCode::kCancelled));
  EXPECT_TRUE(Is(b.domain().PostSend(b.to(0), 1, "x", 1, 9).status(),
                 ErrorCode::kCancelled));
}

TEST_P(TransportTest, AnAbortIsALossForThePeer) {
  Nodes nodes = Mesh(2);
  Node& a = *nodes[0];
  Node& b = *nodes[1];
  InFlight ops(a, b);
  ASSERT_TRUE(b.domain().CloseEndpoint(b.to(0), /*abort=*/true).ok());
  PumpUntil(nodes, [&] {
    return a.Last(Kind::kEndpointDown) && b.Last(Kind::kEndpointDown);
  });
  ExpectAll(a, ops.cookies_a, ErrorCode::kPeerLost);
  ExpectAll(b, ops.cookies_b, ErrorCode::kCancelled);
  EXPECT_TRUE(Is(a.Last(Kind::kEndpointDown)->status, ErrorCode::kPeerLost));
  EXPECT_TRUE(Has(a.Last(Kind::kEndpointDown)->status, "rank 1"));
  EXPECT_TRUE(b.Last(Kind::kEndpointDown)->status.ok());
  EXPECT_TRUE(Is(a.domain().PostSend(a.to(1), 1, "x", 1, 9).status(),
                 ErrorCode::kPeerLost));
}

// Others of the domain go on.
TEST_P(TransportTest, AnEndIsOfOneEndpoint) {
  Nodes nodes = Mesh(3);
  ASSERT_TRUE(
      nodes[1]->domain().CloseEndpoint(nodes[1]->to(0), /*abort=*/true).ok());
  PumpUntil(nodes, [&] { return nodes[0]->Last(Kind::kEndpointDown); });
  std::string into(5, '\0');
  const uint64_t recv = nodes[2]->Recv(1, 8, &into);
  nodes[1]->Send(2, 8, "hello");
  PumpUntil(nodes, [&] { return nodes[2]->done(recv); });
  EXPECT_EQ(into, "hello");
}

TEST_P(TransportTest, ClosingTheDomainCompletesEverything) {
  Nodes nodes = Mesh(2);
  Node& a = *nodes[0];
  Node& b = *nodes[1];
  InFlight ops(a, b);
  a.Close();
  ExpectAll(a, ops.cookies_a, ErrorCode::kCancelled);
  PumpThese({&b}, [&] { return b.Last(Kind::kEndpointDown) != nullptr; });
  ExpectAll(b, ops.cookies_b, ErrorCode::kCancelled);
}

TEST_P(TransportTest, ALostPeerIsReportedAndReplaced) {
  if (!GetParam().lose_after) GTEST_SKIP() << "no option that loses a peer";
  constexpr uint64_t kPosts = 4;
  DomainConfig config = Config(0, 2);
  for (const auto& option : GetParam().lose_after(kPosts)) {
    config.options.push_back(option);
  }
  auto dies = Open(config);
  auto b = Open(Config(1, 2));
  ASSERT_TRUE(Connect(*dies, *b));
  std::string first(5, '\0');
  const uint64_t whole = b->Recv(0, 9, &first);
  std::string into(100, 'r');
  const std::string large(b->domain().info().eager_max + 1, 'l');
  const std::vector<uint64_t> cookies = {
      b->Send(0, 4, "small"), b->Send(0, 5, large), b->Recv(0, 6, &into)};
  dies->Send(1, 9, "alive");  // the first of four posts
  PumpThese({dies.get(), b.get()}, [&] { return b->done(whole); });
  EXPECT_EQ(first, "alive");
  for (uint64_t i = 1; i < kPosts; ++i) dies->Send(1, 1, "small");
  PumpThese({dies.get(), b.get()},
            [&] { return b->Last(Kind::kEndpointDown) != nullptr; });
  ExpectAll(*b, cookies, ErrorCode::kPeerLost);
  EXPECT_TRUE(Is(b->Last(Kind::kEndpointDown)->status, ErrorCode::kPeerLost));
  // As it was it does not come back; in its next life it does.
  auto same = Open(Config(0, 2));
  EXPECT_FALSE(Connect(*same, *b));
  EXPECT_EQ(b->Last(Kind::kRefused)->reason, WEFT_REFUSED_INCARNATION);
  config = Config(0, 2);
  config.incarnation = 1;
  auto next = Open(config);
  ASSERT_TRUE(Connect(*next, *b));
  const uint64_t recv = b->Recv(0, 1, &first);
  next->Send(1, 1, "again");
  PumpThese({next.get(), b.get()}, [&] { return b->done(recv); });
  EXPECT_EQ(first, "again");
}

TEST_P(TransportTest, OpensAndClosesManyTimes) {
  for (int i = 0; i < 100; ++i) {
    Nodes nodes = Mesh(2);
    nodes[0]->Send(1, 1, "dropped");
    if (i % 2 == 0) nodes[1].reset();
  }
}

}  // namespace
}  // namespace weft
