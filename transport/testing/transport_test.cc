#include "transport/testing/transport_test.h"

#include "absl/strings/str_cat.h"
#include "plugins/host/test_plugins.h"

namespace weft {

std::string Pattern(uint64_t seed, uint64_t size) {
  std::string bytes(size, '\0');
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (char& c : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    c = static_cast<char>(state >> 56);
  }
  return bytes;
}

testing::AssertionResult Is(const absl::Status& status, ErrorCode code) {
  if (!status.ok() && IsError(status, code)) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << status << " instead of " << ErrorName(code);
}

// ---- Node ------------------------------------------------------------------

Node::~Node() {
  if (domain_ != nullptr) Close();
}

absl::StatusOr<bool> Node::PostSend(uint32_t rank, uint64_t tag,
                                    const void* data, uint64_t bytes,
                                    uint64_t cookie, bool urgent) {
  absl::StatusOr<bool> posted =
      domain_->PostSend(to(rank), tag, data, bytes, cookie, urgent);
  if (posted.ok() && *posted) ++posted_;
  return posted;
}

absl::StatusOr<bool> Node::PostRecv(uint32_t rank, uint64_t tag, void* data,
                                    uint64_t bytes, uint64_t cookie) {
  absl::StatusOr<bool> posted =
      domain_->PostRecv(to(rank), tag, data, bytes, cookie);
  if (posted.ok() && *posted) ++posted_;
  return posted;
}

bool Node::TrySend(uint32_t rank, uint64_t tag, const void* data,
                   uint64_t bytes, uint64_t cookie, bool urgent) {
  absl::StatusOr<bool> posted =
      PostSend(rank, tag, data, bytes, cookie, urgent);
  EXPECT_TRUE(posted.ok()) << posted.status();
  return posted.ok() && *posted;
}

bool Node::TryRecv(uint32_t rank, uint64_t tag, void* data, uint64_t bytes,
                   uint64_t cookie) {
  absl::StatusOr<bool> posted = PostRecv(rank, tag, data, bytes, cookie);
  EXPECT_TRUE(posted.ok()) << posted.status();
  return posted.ok() && *posted;
}

uint64_t Node::Send(uint32_t rank, uint64_t tag, const std::string& bytes,
                    bool urgent) {
  const uint64_t cookie = next_cookie_++;
  EXPECT_TRUE(TrySend(rank, tag, bytes.data(), bytes.size(), cookie, urgent));
  return cookie;
}

uint64_t Node::Recv(uint32_t rank, uint64_t tag, std::string* bytes) {
  const uint64_t cookie = next_cookie_++;
  EXPECT_TRUE(TryRecv(rank, tag, bytes->data(), bytes->size(), cookie));
  return cookie;
}

bool Node::Pump() {
  TransportEvent events[8];
  absl::StatusOr<size_t> count = domain_->Poll(absl::MakeSpan(events));
  EXPECT_TRUE(count.ok()) << count.status();
  if (!count.ok()) return false;
  for (size_t i = 0; i < *count; ++i) Take(events[i]);
  return *count > 0;
}

void Node::Close() {
  const absl::Status closed =
      domain_->Close([this](const TransportEvent& event) { Take(event); });
  EXPECT_TRUE(closed.ok()) << closed;
  domain_.reset();
  EXPECT_EQ(outstanding(), 0u) << "operations that never completed";
  for (const auto& [ep, down] : endpoints_) {
    EXPECT_TRUE(down) << "no EP_DOWN of endpoint " << ep;
  }
}

void Node::Take(const TransportEvent& event) {
  const bool known = endpoints_.count(event.endpoint) != 0;
  if (event.kind == TransportEventKind::kCompleted) {
    EXPECT_TRUE(known && !endpoints_[event.endpoint])
        << "a completion of an endpoint that is not up";
    EXPECT_TRUE(done_.emplace(event.cookie, event).second)
        << "operation " << event.cookie << " completed twice";
    order_.push_back(event.cookie);
    return;
  }
  others_.push_back(event);
  switch (event.kind) {
    case TransportEventKind::kAccepted:
    case TransportEventKind::kConnected:
      if (!event.status.ok()) break;
      EXPECT_FALSE(known) << "endpoint " << event.endpoint << " came twice";
      endpoints_[event.endpoint] = false;
      to_[event.rank] = event.endpoint;
      break;
    case TransportEventKind::kEndpointDown:
      EXPECT_TRUE(known && !endpoints_[event.endpoint]) << "down twice";
      endpoints_[event.endpoint] = true;
      break;
    default:
      break;
  }
}

const TransportEvent* Node::Last(TransportEventKind kind) const {
  for (auto it = others_.rbegin(); it != others_.rend(); ++it) {
    if (it->kind == kind) return &*it;
  }
  return nullptr;
}

size_t Node::Count(TransportEventKind kind) const {
  size_t count = 0;
  for (const TransportEvent& event : others_) count += event.kind == kind;
  return count;
}

// ---- TransportTest ---------------------------------------------------------

void TransportTest::SetUp() {
  absl::StatusOr<const Plugin*> plugin =
      Plugin::Load(GetParam().plugin, TestLoadOptions({GetParam().package}));
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  plugin_ = *plugin;
  absl::StatusOr<Transport> transport = Transport::Create(*plugin_);
  ASSERT_TRUE(transport.ok()) << transport.status();
  transport_ = std::make_unique<Transport>(*transport);
}

DomainConfig TransportTest::Config(uint32_t rank, uint32_t world) const {
  DomainConfig config;
  config.rank = rank;
  config.world = world;
  config.wire_version = 3;
  config.job = testing::UnitTest::GetInstance()->current_test_info()->name();
  config.epoch = 5;
  config.plan_hash = 0xabcdef;
  config.options = GetParam().options;
  return config;
}

std::unique_ptr<Node> TransportTest::Open(const DomainConfig& config) const {
  absl::StatusOr<std::unique_ptr<Domain>> domain = transport_->Open(config);
  EXPECT_TRUE(domain.ok()) << domain.status();
  return std::make_unique<Node>(*std::move(domain));
}

bool TransportTest::Connect(Node& a, Node& b, uint64_t cookie) {
  const size_t a_before = a.others().size();
  const size_t b_before = b.Count(TransportEventKind::kAccepted) +
                          b.Count(TransportEventKind::kRefused);
  absl::StatusOr<std::string> address = b.domain().Listen();
  EXPECT_TRUE(address.ok()) << address.status();
  if (!address.ok()) return false;
  absl::StatusOr<uint64_t> ep = a.domain().Connect(b.rank(), *address, cookie);
  EXPECT_TRUE(ep.ok()) << ep.status();
  if (!ep.ok()) return false;
  const TransportEvent* connected = nullptr;
  PumpThese({&a, &b}, [&] {
    for (size_t i = a_before; i < a.others().size(); ++i) {
      const TransportEvent& event = a.others()[i];
      if (event.kind == TransportEventKind::kConnected) connected = &event;
    }
    return connected != nullptr &&
           b.Count(TransportEventKind::kAccepted) +
                   b.Count(TransportEventKind::kRefused) >
               b_before;
  });
  if (connected == nullptr) return false;
  EXPECT_EQ(connected->endpoint, *ep);
  EXPECT_EQ(connected->cookie, cookie);
  return connected->status.ok();
}

Nodes TransportTest::Mesh(uint32_t world) const {
  Nodes nodes;
  for (uint32_t rank = 0; rank < world; ++rank) {
    nodes.push_back(Open(Config(rank, world)));
  }
  for (uint32_t a = 0; a < world; ++a) {
    for (uint32_t b = a + 1; b < world; ++b) {
      EXPECT_TRUE(Connect(*nodes[a], *nodes[b])) << a << " to " << b;
    }
  }
  return nodes;
}

void PumpThese(const std::vector<Node*>& nodes,
               const std::function<bool()>& finished) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!finished()) {
    bool came = false;
    for (Node* node : nodes) came = node->Pump() || came;
    if (came) continue;
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "what must come does not";
      return;
    }
    // Whatever comes next to any of them, the first one wakes up soon.
    if (!nodes.empty() && nodes[0]->domain().has_wait()) {
      EXPECT_TRUE(nodes[0]->domain().Wait(100'000).ok());
    }
  }
}

void PumpUntil(const Nodes& nodes, const std::function<bool()>& finished) {
  std::vector<Node*> pointers;
  for (const auto& node : nodes) pointers.push_back(node.get());
  PumpThese(pointers, finished);
}

}  // namespace weft
