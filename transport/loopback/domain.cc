#include "transport/loopback/domain.h"

#include <optional>
#include <utility>

#include "transport/common/greeting.h"

namespace weft_loopback {
namespace {

using weft_sdk::Error;
using weft_sdk::Refusal;
using weft_transport::About;

constexpr char kAddress[] = "rank";
constexpr char kKey[] = "memory";

}  // namespace

weft_transport_info Describe(const Options& options) {
  weft_transport_info info = weft_transport::InfoOf(
      "loopback", "process " + Hub::Get().process(), options);
  info.flags = WEFT_TRANSPORT_SHARED_MEMORY | WEFT_TRANSPORT_IN_PROCESS;
  info.wire_version = 1;
  info.security = WEFT_SECURITY_PRIVATE;
  return info;
}

LoopbackDomain::LoopbackDomain(const weft_sdk::DomainConfig& config,
                               const Options& options)
    : hello_(config.hello),
      options_(options),
      id_(Hub::Get().NewId()),
      mailbox_(std::make_shared<Mailbox>(config.notify_token, options.delay_max,
                                         options.delay_seed)) {}

void LoopbackDomain::CheckOpen() const {
  if (state_ == State::kLost) {
    throw Error(WEFT_PEER_LOST, "this rank is lost, as its options say");
  }
  if (state_ == State::kClosing) {
    throw Error(WEFT_CANCELED, "the domain is closing");
  }
}

const LoopbackDomain::Link& LoopbackDomain::Find(weft_endpoint ep) {
  std::atomic<const Link*>& near = near_[ep % near_.size()];
  const Link* known = near.load(std::memory_order_acquire);
  if (known != nullptr && known->ep == ep) return *known;
  std::lock_guard<std::mutex> lock(mu_);
  auto it = links_.find(ep);
  if (it != links_.end()) {
    near.store(&it->second, std::memory_order_release);
    return it->second;
  }
  throw Error(WEFT_INVALID, "no endpoint " + std::to_string(ep));
}

// ---- Connecting ------------------------------------------------------------

std::string LoopbackDomain::Listen() {
  std::lock_guard<std::mutex> lock(mu_);
  CheckOpen();
  if (!std::exchange(listening_, true)) {
    Hub::Get().AddDomain(id_, shared_from_this());
  }
  return Hub::Get().Name(kAddress, id_);
}

weft_endpoint LoopbackDomain::Connect(uint32_t rank, std::string_view address,
                                      uint64_t cookie) {
  const std::optional<uint64_t> id = Hub::Get().Parse(kAddress, address);
  if (!id.has_value()) {
    throw Error(WEFT_INVALID, "not the address of a rank of this process");
  }
  const weft_endpoint ep = Hub::Get().NewId();
  std::shared_ptr<LoopbackDomain> listener = Hub::Get().FindDomain(*id);
  Wakeups wake;
  if (listener == nullptr || listener.get() == this) {
    std::lock_guard<std::mutex> lock(mu_);
    CheckOpen();
    Introduce(nullptr, rank, cookie, ep, &wake);
  } else {
    std::scoped_lock lock(mu_, listener->mu_);
    CheckOpen();
    const bool there = listener->state_ == State::kOpen;
    Introduce(there ? listener.get() : nullptr, rank, cookie, ep, &wake);
  }
  return ep;
}

Refusal LoopbackDomain::Meet(const LoopbackDomain& listener,
                             uint32_t expected) const {
  Refusal refusal = weft_sdk::CompareHellos(hello_, listener.hello_);
  if (!refusal) {
    refusal = weft_sdk::CompareRanks(hello_, listener.hello_, expected);
  }
  if (!refusal) refusal = listener.seen_.Check(hello_);
  if (!refusal) refusal = seen_.Check(listener.hello_);
  return refusal;
}

void LoopbackDomain::Introduce(LoopbackDomain* listener, uint32_t rank,
                               uint64_t cookie, weft_endpoint ep,
                               Wakeups* wake) {
  TransportEvent connected;
  if (listener == nullptr) {
    connected = weft_transport::NotConnected(
        ep, rank, cookie, WEFT_PEER_LOST,
        "nobody listens at the address of rank " + std::to_string(rank));
  } else {
    connected = About(WEFT_EVENT_CONNECTED, listener->hello_, ep);
    TransportEvent theirs = About(WEFT_EVENT_ACCEPTED, hello_, 0);
    const Refusal refusal = Meet(*listener, rank);
    if (refusal) {
      theirs.kind = WEFT_EVENT_REFUSED;
      for (TransportEvent* event : {&connected, &theirs}) {
        weft_transport::SetRefused(refusal, event);
      }
    } else {
      theirs.ep = Hub::Get().NewId();
      Join(listener, ep, theirs.ep);
    }
    wake->Push(*listener->mailbox_, std::move(theirs), /*urgent=*/true);
  }
  connected.cookie = cookie;
  wake->Push(*mailbox_, std::move(connected), /*urgent=*/true);
}

Connection::Side LoopbackDomain::Side(weft_endpoint ep) const {
  return {mailbox_, options_, ep, hello_.rank, id_};
}

void LoopbackDomain::Join(LoopbackDomain* listener, weft_endpoint ours,
                          weft_endpoint theirs) {
  seen_.Note(listener->hello_);
  listener->seen_.Note(hello_);
  auto connection =
      std::make_shared<Connection>(Side(ours), listener->Side(theirs));
  links_[ours] = Link{connection, 0, ours};
  listener->links_[theirs] = Link{connection, 1, theirs};
}

// ---- Endpoints -------------------------------------------------------------

void LoopbackDomain::CloseEndpoint(weft_endpoint ep, bool abort) {
  const Link& link = Find(ep);
  link.connection->End(link.side, abort ? Ending::kAborted : Ending::kClosed);
}

weft_code LoopbackDomain::Post(const weft_transport_op& op,
                               weft_status* status) {
  const Link& link = Find(op.ep);
  const weft_code code = link.connection->Post(link.side, op, status);
  if (code == WEFT_OK && options_.lose_peer_after != 0 &&
      ++posts_ == options_.lose_peer_after) {
    Lose();
  }
  return code;
}

// What is left to end, with no lock held.
std::vector<LoopbackDomain::Link> LoopbackDomain::Leave(State state) {
  Hub::Get().RemoveDomain(id_);
  std::vector<Link> links;
  std::lock_guard<std::mutex> lock(mu_);
  state_ = state;
  for (const auto& [ep, link] : links_) links.push_back(link);
  return links;
}

void LoopbackDomain::Lose() {
  for (const Link& link : Leave(State::kLost)) {
    link.connection->End(link.side, Ending::kLost);
  }
}

void LoopbackDomain::Close() {
  bool quiet = true;
  for (const Link& link : Leave(State::kClosing)) {
    link.connection->End(link.side, Ending::kClosed);
    quiet = quiet && link.connection->finished();
  }
  if (!quiet || !mailbox_->empty()) {
    throw Error(WEFT_BUSY, "events are to be polled");
  }
  std::lock_guard<std::mutex> lock(mu_);
  if (!blocks_.empty() || !mappings_.empty()) {
    throw Error(WEFT_BUSY, std::to_string(blocks_.size()) +
                               " blocks of shared memory are allocated, " +
                               std::to_string(mappings_.size()) +
                               " are mapped");
  }
}

weft_transport_stats LoopbackDomain::Stats() {
  Counters& counters = mailbox_->counters();
  weft_transport_stats stats{};
  stats.struct_size = sizeof(stats);
  stats.endpoints = counters.endpoints;
  stats.sent_messages = counters.sent_messages;
  stats.sent_bytes = counters.sent_bytes;
  stats.received_messages = counters.received_messages;
  stats.received_bytes = counters.received_bytes;
  stats.eager_messages = counters.eager_messages;
  stats.again = counters.again;
  std::lock_guard<std::mutex> lock(mu_);
  for (const auto& [mr, block] : blocks_) stats.shared_bytes += block->bytes;
  return stats;
}

// ---- Shared memory ---------------------------------------------------------

weft_mr LoopbackDomain::AllocShared(uint64_t bytes, bool writable,
                                    void** host) {
  auto block = std::make_shared<Block>(id_, bytes, writable);
  const weft_mr mr = Hub::Get().NewId();
  std::lock_guard<std::mutex> lock(mu_);
  CheckOpen();
  Hub::Get().AddBlock(mr, block);
  *host = block->host;
  blocks_[mr] = std::move(block);
  return mr;
}

void LoopbackDomain::FreeShared(weft_mr mr) {
  std::lock_guard<std::mutex> lock(mu_);
  if (blocks_.erase(mr) == 0) {
    throw Error(WEFT_INVALID, "no shared memory " + std::to_string(mr));
  }
  Hub::Get().RemoveBlock(mr);
}

std::string LoopbackDomain::PackShared(weft_mr mr) {
  std::lock_guard<std::mutex> lock(mu_);
  if (blocks_.count(mr) == 0) {
    throw Error(WEFT_INVALID, "no shared memory " + std::to_string(mr));
  }
  return Hub::Get().Name(kKey, mr);
}

weft_sdk::SharedRegion LoopbackDomain::Map(weft_endpoint ep,
                                           std::string_view key) {
  const Link& link = Find(ep);
  const weft_code down = link.connection->DownCode(link.side);
  if (down != WEFT_OK) throw Error(down, "the endpoint is down");
  const std::optional<uint64_t> id = Hub::Get().Parse(kKey, key);
  std::shared_ptr<Block> block =
      id.has_value() ? Hub::Get().FindBlock(*id) : nullptr;
  if (block == nullptr || block->owner != link.peer().domain) {
    throw Error(WEFT_INVALID, "not a key of memory that rank " +
                                  std::to_string(link.peer().rank) + " has");
  }
  std::lock_guard<std::mutex> lock(mu_);
  Mapping& mapping = mappings_[block->host];
  ++mapping.count;
  mapping.block = block;
  return {block->host, block->bytes, block->writable};
}

void LoopbackDomain::Unmap(const void* host) {
  std::lock_guard<std::mutex> lock(mu_);
  auto it = mappings_.find(host);
  if (it == mappings_.end()) {
    throw Error(WEFT_INVALID, "nothing is mapped there");
  }
  if (--it->second.count == 0) mappings_.erase(it);
}

}  // namespace weft_loopback
