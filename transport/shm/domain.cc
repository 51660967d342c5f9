#include "transport/shm/domain.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "transport/common/greeting.h"

namespace weft_shm {
namespace {

using weft_sdk::Error;

constexpr char kAddress[] = "rank";
constexpr char kKey[] = "memory";

// Who sees the same /proc and may open what is in it.
std::string Locality() {
  return weft_transport::BootAndNamespace("pid") + " user " +
         std::to_string(geteuid());
}

}  // namespace

weft_transport_info Describe(const Options& options) {
  weft_transport_info info = weft_transport::InfoOf("shm", Locality(), options);
  info.flags = WEFT_TRANSPORT_SHARED_MEMORY;
  info.wire_version = kWireVersion;
  info.security = WEFT_SECURITY_USER;
  return info;
}

void ShmDomain::TellPushed(bool notify) {
  RingOwn();
  if (notify) weft_sdk::Host::Notify(token_);
}

ShmDomain::ShmDomain(const weft_sdk::DomainConfig& config,
                     const Options& options)
    : hello_(config.hello),
      options_(options),
      token_(config.notify_token),
      timeout_ns_(weft_transport::PeerTimeoutNs(config)),
      secret_(RandomHex(kTokenBytes)),
      bell_fd_(NewSealed("bell", kPage)),
      bell_(bell_fd_, Bell::Whose::kOwn),
      wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      host_attends_(config.notify_token == 0) {
  if (!wakeup_) throw Error(WEFT_INTERNAL, WithErrno("eventfd"));
  bell_thread_ = std::thread([this] { RunBell(); });
  try {
    socket_thread_ = std::thread([this] { RunSockets(); });
  } catch (...) {
    stop_ = true;
    bell_.Ring();
    bell_thread_.join();
    throw;
  }
}

ShmDomain::~ShmDomain() {
  stop_ = true;
  bell_.Ring();
  RouseBell();
  WakeSockets();
  bell_thread_.join();
  socket_thread_.join();
}

void ShmDomain::CheckOpen() const {
  if (closing_) throw Error(WEFT_CANCELED, "the domain is closing");
}

Connection& ShmDomain::FindAnew(weft_endpoint ep) {
  auto it = endpoints_.find(ep);
  if (it == endpoints_.end()) {
    throw Error(WEFT_INVALID, "no endpoint " + std::to_string(ep));
  }
  last_ep_ = ep;
  last_ = it->second.get();
  return *last_;
}

// ---- Connecting ------------------------------------------------------------

std::string ShmDomain::Listen() {
  Locked lock(this);
  CheckOpen();
  if (!door_.has_value()) {
    door_.emplace(options_.dir);
    WakeSockets();
  }
  return DoorName{static_cast<uint64_t>(getpid()),
                  static_cast<uint64_t>(door_->number()), secret_, 0}
      .Text(kAddress);
}

weft_endpoint ShmDomain::Connect(uint32_t rank, std::string_view address,
                                 uint64_t cookie) {
  std::optional<DoorName> name = DoorName::Parse(kAddress, address);
  if (!name.has_value()) {
    throw Error(WEFT_INVALID, "not the address of a rank of this machine");
  }
  Fd socket = NewSocket();
  Locked lock(this);
  CheckOpen();
  Visit visit;
  visit.id = ++last_id_;
  visit.connector = true;
  visit.socket = std::move(socket);
  visit.deadline = NowNs() + timeout_ns_;
  visit.name = *std::move(name);
  visit.ep = ++last_id_;
  visit.rank = rank;
  visit.cookie = cookie;
  const weft_endpoint ep = visit.ep;
  visits_.push_back(std::move(visit));
  WakeSockets();
  return ep;
}

// ---- Endpoints -------------------------------------------------------------

void ShmDomain::CloseEndpoint(weft_endpoint ep, bool abort) {
  Locked lock(this);
  Connection& connection = Find(ep);
  abort ? connection.Abort() : connection.Close(lock.lock());
}

weft_code ShmDomain::Post(const weft_transport_op& op, weft_status* status) {
  weft_code code;
  bool pushed, notify = false;
  {
    std::lock_guard<BiasedMutex> lock(mu_);
    Connection& connection = Find(op.ep);
    code = connection.Post(op, status);
    // Nothing else was touched.
    if (!mailbox_.empty() || !connection.quiet()) SetQuiet(false);
    pushed = mailbox_.TakePushed(&notify);
  }
  if (pushed) TellPushed(notify);
  return code;
}

bool ShmDomain::ProgressAll(Lock* lock, bool soon) {
  bool any = false;
  bool ended = false;
  ++walks_;
  for (size_t i = 0; i < live_.size(); ++i) {
    Connection* const connection = live_[i];
    any = connection->Progress(lock, soon) || any;
    if (connection->deadline() != UINT64_MAX &&
        connection->deadline() <= NowNs()) {
      connection->Expire();
    }
    ended = ended || connection->down();
  }
  // Else the last one sees to it.
  if (--walks_ == 0 && ended) {
    const auto down = std::stable_partition(
        live_.begin(), live_.end(), [](Connection* c) { return !c->down(); });
    ended_.insert(ended_.end(), down, live_.end());
    live_.erase(down, live_.end());
    live_changed_ = true;
  }
  return any;
}

bool ShmDomain::NothingCame() const {
  // First these: whoever takes a record has said before that all is not quiet.
  for (const Consumer* in : watched_) {
    if (in->Ready()) return false;
  }
  return quiet_.load(std::memory_order_acquire);
}

inline bool ShmDomain::Quiet() const {
  return mailbox_.empty() && walks_ == 0 &&
         std::all_of(live_.begin(), live_.end(),
                     [](const Connection* c) { return c->quiet(); });
}

// On the thread that polls.
void ShmDomain::WatchLive() {
  if (!std::exchange(live_changed_, false)) return;
  watched_.clear();
  for (const Connection* connection : live_) {
    watched_.push_back(&connection->in());
  }
  for (Connection* connection : ended_) connection->LetGo();
  ended_.clear();
}

void ShmDomain::Poll(weft_sdk::EventWriter* writer) {
  polls_.store(polls_.load(std::memory_order_relaxed) + 1,
               std::memory_order_relaxed);
  if (NothingCame()) return;
  Lock lock(mu_);
  SetQuiet(false);
  // Where this host stops polling, the bell's thread takes over soon.
  ProgressAll(&lock, /*soon=*/host_attends_.load(std::memory_order_relaxed));
  mailbox_.Poll(writer);
  WatchLive();
  SetQuiet(Quiet());
  // Nobody else need know: who would, polls.
  bool notify = false;
  mailbox_.TakePushed(&notify);
  lock.unlock();
  if (notify) weft_sdk::Host::Notify(token_);
}

bool ShmDomain::Wait(uint64_t timeout_ns) {
  const uint64_t now = NowNs();
  const uint64_t deadline =
      timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
  BeginRest();
  bool there = false;
  for (uint64_t left = timeout_ns;;) {
    const uint32_t seen = bell_.Announce();
    {
      Locked lock(this);
      ProgressAll(lock.lock());
      there = !mailbox_.empty();
    }
    if (!there && left != 0) bell_.Sleep(seen, left);
    bell_.Awake();
    if (there || left == 0) break;
    const uint64_t at = NowNs();
    left = at < deadline ? deadline - at : 0;
  }
  EndRest();
  return there;
}

weft_sdk::SleepWord ShmDomain::SleepBegin() {
  host_attends_.store(true, std::memory_order_relaxed);
  BeginRest();
  const uint32_t seen = bell_.Announce();
  return {bell_.word(), seen};
}

void ShmDomain::SleepEnd() {
  bell_.Awake();
  EndRest();
}

void ShmDomain::Close() {
  bool quiet;
  size_t blocks;
  size_t mappings;
  {
    Locked lock(this);
    if (!std::exchange(closing_, true)) {
      if (door_.has_value()) shutdown(door_->socket(), SHUT_RDWR);
      door_.reset();
      for (Visit& visit : visits_) {
        Drop(&visit, WEFT_CANCELED, "the domain is closing");
      }
      visits_.clear();
      for (auto& [ep, connection] : endpoints_) {
        connection->Close(lock.lock());
      }
    }
    ProgressAll(lock.lock());
    quiet = live_.empty() && mailbox_.empty();
    blocks = blocks_.size();
    mappings = mappings_.size();
  }
  if (!quiet) throw Error(WEFT_BUSY, "events are to be polled");
  if (blocks + mappings != 0) {
    throw Error(WEFT_BUSY, std::to_string(blocks) +
                               " blocks of shared memory are allocated, " +
                               std::to_string(mappings) + " are mapped");
  }
}

weft_transport_stats ShmDomain::Stats() {
  Locked lock(this);
  weft_transport_stats stats = mailbox_.stats;
  stats.struct_size = sizeof(stats);
  for (const auto& [mr, block] : blocks_) stats.shared_bytes += block->bytes();
  return stats;
}

// ---- Shared memory ---------------------------------------------------------

weft_mr ShmDomain::AllocShared(uint64_t bytes, bool writable, void** host) {
  weft_mr mr;
  {
    Locked lock(this);
    CheckOpen();
    mr = ++last_id_;
  }
  // Zeroing it takes long: no lock.
  auto block = std::make_unique<Block>(secret_, mr, bytes, writable);
  *host = block->host();
  Locked lock(this);
  CheckOpen();
  blocks_[mr] = std::move(block);
  return mr;
}

void ShmDomain::FreeShared(weft_mr mr) {
  Locked lock(this);
  if (blocks_.erase(mr) == 0) {
    throw Error(WEFT_INVALID, "no shared memory " + std::to_string(mr));
  }
}

std::string ShmDomain::PackShared(weft_mr mr) {
  Locked lock(this);
  auto it = blocks_.find(mr);
  if (it == blocks_.end()) {
    throw Error(WEFT_INVALID, "no shared memory " + std::to_string(mr));
  }
  return it->second->name().Text(kKey);
}

weft_sdk::SharedRegion ShmDomain::Map(weft_endpoint ep, std::string_view key) {
  const std::optional<DoorName> name = DoorName::Parse(kKey, key);
  Locked lock(this);
  const Connection& connection = Find(ep);
  if (connection.DownCode() != WEFT_OK) {
    throw Error(connection.DownCode(), connection.WhyDown());
  }
  if (!name.has_value() || name->token != connection.token()) {
    throw Error(WEFT_INVALID, "not a key of memory that rank " +
                                  std::to_string(connection.rank()) + " has");
  }
  auto mapped = std::make_unique<Mapped>(*name);
  const weft_sdk::SharedRegion region{mapped->host(), mapped->bytes(),
                                      mapped->writable()};
  mappings_[region.host] = std::move(mapped);
  return region;
}

void ShmDomain::Unmap(const void* host) {
  Locked lock(this);
  if (mappings_.erase(host) == 0) {
    throw Error(WEFT_INVALID, "nothing is mapped there");
  }
}

}  // namespace weft_shm
