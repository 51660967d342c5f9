#include "transport/grpc/domain.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "transport/common/greeting.h"
#include "transport/grpc/proof.h"

namespace weft_grpc {
namespace {

using weft_sdk::Error;

constexpr size_t kTokenBytes = 16;
constexpr char kAddress[] = "grpc ";

uint64_t NowNs() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

// Who listens on a loopback address is reached on this machine, and there in
// this network namespace, only.
std::string Locality(const Options& options) {
  const std::string family =
      options.host.find(':') == std::string::npos ? "tcp ipv4" : "tcp ipv6";
  if (!options.loopback()) return family;
  return family + " " + weft_transport::BootAndNamespace("net");
}

PortSettings SettingsOf(const Options& options, uint64_t timeout_ns) {
  PortSettings settings;
  settings.handshake_ms =
      static_cast<uint32_t>(std::min<uint64_t>(timeout_ns / 1'000'000, 60'000));
  settings.ca = options.ca;
  settings.certificate = options.certificate;
  settings.key = options.key;
  return settings;
}

}  // namespace

weft_transport_info Describe(const Options& options, bool secret) {
  weft_transport_info info =
      weft_transport::InfoOf("grpc", Locality(options), options);
  info.wire_version = kWireVersion;
  info.security = options.tls() ? WEFT_SECURITY_PRIVATE
                  : secret      ? WEFT_SECURITY_JOB
                                : WEFT_SECURITY_NONE;
  return info;
}

GrpcDomain::GrpcDomain(const weft_sdk::DomainConfig& config,
                       const Options& options)
    : hello_(config.hello),
      options_(options),
      secret_(config.secret),
      timeout_ns_(weft_transport::PeerTimeoutNs(config)),
      token_(RandomHex(kTokenBytes)),
      shared_(config.notify_token),
      port_(Port::Open(this, SettingsOf(options, timeout_ns_))) {}

GrpcDomain::~GrpcDomain() { port_.reset(); }

void GrpcDomain::CheckOpen() const {
  if (closing_) throw Error(WEFT_CANCELED, "the domain is closing");
}

Connection& GrpcDomain::Find(weft_endpoint ep) {
  auto it = endpoints_.find(ep);
  if (it != endpoints_.end()) return *it->second;
  throw Error(WEFT_INVALID, "no endpoint " + std::to_string(ep));
}

// ---- Connecting ------------------------------------------------------------

std::string GrpcDomain::Listen() {
  if (!options_.risk.empty()) {
    weft_sdk::Host::Log(WEFT_LOG_WARNING, options_.risk);
  }
  Locked lock(&shared_);
  CheckOpen();
  if (!address_.empty()) return address_;
  const std::string where = JoinAddress(options_.host, options_.port);
  std::string why = WhyNotListen(options_.host, options_.port);
  if (why.empty() && !deaf_) {
    // No call that comes in is looked at before the lock is let go.
    const int port = port_->Listen(options_.host, options_.port);
    deaf_ = port == 0;
    const std::string& host =
        options_.advertise.empty() ? options_.host : options_.advertise;
    address_ = kAddress + JoinAddress(host, port) + " " + token_;
  }
  if (why.empty() && deaf_) why = "gRPC could not";
  if (!why.empty()) {
    address_.clear();
    throw Error(WEFT_INTERNAL, "cannot listen at " + where + ": " + why);
  }
  return address_;
}

weft_endpoint GrpcDomain::Connect(uint32_t rank, std::string_view address,
                                  uint64_t cookie) {
  const std::string text(address);
  const size_t space = text.rfind(' ');
  const size_t head = sizeof(kAddress) - 1;
  std::string host;
  int port = 0;
  if (text.compare(0, head, kAddress) != 0 || space < head ||
      !SplitAddress(text.substr(head, space - head), &host, &port) ||
      port == 0 || text.size() - space - 1 != 2 * kTokenBytes ||
      text.find_first_not_of("0123456789abcdef", space + 1) !=
          std::string::npos) {
    throw Error(WEFT_INVALID, "not the address of a rank");
  }
  Locked lock(&shared_);
  CheckOpen();
  std::unique_ptr<Visit> visit = NewVisit();
  visit->stage = Stage::kChallenge;
  visit->ep = ++last_id_;
  visit->host = host;
  visit->port = port;
  visit->rank = rank;
  visit->cookie = cookie;
  Frame hello = NewFrame(FrameKind::kHello);
  hello.token = text.substr(space + 1);
  hello.expected = rank;
  hello.nonce = RandomBytes(kNonceBytes);
  visit->said = EncodeFrame(hello);
  visit->out.push_back(visit->said);
  visit->live = 1;
  const weft_endpoint ep = visit->ep;
  Visit* const raw = visit.get();
  visits_[visit->id] = std::move(visit);
  raw->control = port_->Dial(host, port, RankName(rank), raw);
  return ep;
}

// ---- Endpoints -------------------------------------------------------------

void GrpcDomain::CloseEndpoint(weft_endpoint ep, bool abort) {
  Locked lock(&shared_);
  Connection& connection = Find(ep);
  abort ? connection.Abort() : connection.Close();
}

weft_code GrpcDomain::Post(const weft_transport_op& op, weft_status* status) {
  Locked lock(&shared_);
  return Find(op.ep).Post(op, status);
}

void GrpcDomain::Poll(weft_sdk::EventWriter* writer) {
  Locked lock(&shared_);
  shared_.mailbox.Poll(writer);
}

bool GrpcDomain::Wait(uint64_t timeout_ns) {
  // A longer sleep would overflow the clock's type.
  constexpr uint64_t kLongest = uint64_t{1} << 60;
  Locked lock(&shared_);
  ++shared_.waiters;
  const bool there = shared_.more.wait_for(
      lock.lock(), std::chrono::nanoseconds(std::min(timeout_ns, kLongest)),
      [this] { return !shared_.mailbox.empty() || (closing_ && Quiet()); });
  --shared_.waiters;
  return there;
}

// Nothing more can come.
bool GrpcDomain::Quiet() const {
  return visits_.empty() &&
         std::all_of(endpoints_.begin(), endpoints_.end(),
                     [](const auto& e) { return e.second->down(); });
}

void GrpcDomain::Close() {
  Locked lock(&shared_);
  if (!std::exchange(closing_, true)) {
    for (auto& [id, visit] : visits_) {
      Drop(visit.get(), WEFT_CANCELED, "the domain is closing");
    }
    for (auto& [ep, connection] : endpoints_) connection->Close();
  }
  if (!Quiet() || !shared_.mailbox.empty()) {
    throw Error(WEFT_BUSY, "events are to be polled");
  }
}

weft_transport_stats GrpcDomain::Stats() {
  Locked lock(&shared_);
  weft_transport_stats stats = shared_.mailbox.stats;
  stats.struct_size = sizeof(stats);
  return stats;
}

// A rank that was stopped itself has heard nothing either: a late tick counts
// as two at most, so that what has come meanwhile is taken first.
uint64_t GrpcDomain::OnTick() {
  const uint64_t interval = std::max<uint64_t>(timeout_ns_ / kBeats, 1);
  Locked lock(&shared_);
  const uint64_t now = NowNs();
  const uint64_t elapsed = std::min(now - last_tick_ns_, 2 * interval);
  if (last_tick_ns_ != 0 && now - last_tick_ns_ < interval / 2) {
    return interval - (now - last_tick_ns_);
  }
  last_tick_ns_ = now;
  bool live = !visits_.empty();
  for (auto& [id, visit] : visits_) {
    visit->left_ns -= std::min(visit->left_ns, elapsed);
    if (visit->left_ns != 0) continue;
    if (visit->stage != Stage::kGone) {
      Drop(visit.get(), WEFT_PEER_LOST,
           "rank " + std::to_string(visit->rank) + " does not answer");
    }
    if (visit->control != nullptr) visit->control->Cancel();
  }
  for (auto& [ep, connection] : endpoints_) {
    if (connection->down()) continue;
    connection->Tick(elapsed);
    live = true;
  }
  return live ? interval : UINT64_MAX;
}

}  // namespace weft_grpc
