// The run-time's view of a transport: C++ objects over the transport section of
// a plugin (plugins/abi/weft_transport.h has the rules).
//
//   WEFT_ASSIGN_OR_RETURN(Transport transport, Transport::Create(plugin));
//   WEFT_ASSIGN_OR_RETURN(auto domain, transport.Open(config));
//   WEFT_ASSIGN_OR_RETURN(std::string address, domain->Listen());
//   ... every rank learns the addresses of the ranks above its own ...
//   WEFT_ASSIGN_OR_RETURN(uint64_t ep, domain->Connect(3, address3, cookie));
//   ... Poll() until kConnected; the other side polls kAccepted ...
//   WEFT_ASSIGN_OR_RETURN(bool posted, domain->PostRecv(ep, tag, to, n, id));
//   TransportEvent events[32];
//   WEFT_ASSIGN_OR_RETURN(size_t n, domain->Poll(absl::MakeSpan(events)));
//
// A worker that has a notify token sleeps on its own futex and polls when it
// was woken: HostHooks::notify comes at least once after each Poll() that
// returned less than it had room for, as soon as there is more.
//
// A failure becomes a typed error that names the plugin, the rank, the call and
// what the plugin said: kPeerLost, kPeerRefused, kLengthMismatch, kCancelled,
// kOutOfMemory, else kTransportFailed. A full transport is no failure: a post
// then returns false.
//
// Threading: Transport is thread-safe. Of a Domain, Poll must not overlap with
// Poll, nor Close and the destructor with anything; all else may. Ownership: a
// Domain lives as long as its object; endpoints and shared memory are ids and
// pointers of their domain.
#ifndef WEFT_PLUGINS_HOST_TRANSPORT_H_
#define WEFT_PLUGINS_HOST_TRANSPORT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/secret.h"
#include "plugins/abi/weft_transport.h"
#include "plugins/host/plugin.h"

namespace weft {

class Domain;

struct TransportInfo {
  std::string name;
  std::string locality;  // equal strings: ranks may reach each other
  uint32_t wire_version = 0;
  uint32_t security = WEFT_SECURITY_NONE;
  uint64_t eager_max = 0;      // a SEND up to this size is copied at once
  uint32_t eager_credits = 0;  // such SENDs of an endpoint under way, at most
  uint32_t max_inflight = 0;   // RECVs, and larger SENDs, of an endpoint
  bool in_process = false;     // connects ranks of this process only
  bool shared_memory = false;  // AllocShared and Map work
};

struct DomainConfig {
  uint32_t rank = 0;
  uint32_t world = 1;
  uint32_t wire_version = 0;  // of what the run-time itself sends
  std::string job;
  uint64_t epoch = 0;
  uint64_t incarnation = 0;
  uint64_t plan_hash = 0;
  uint64_t notify_token = 0;     // 0: nobody is woken
  uint32_t peer_timeout_ms = 0;  // 0: as the plugin thinks best
  std::vector<std::pair<std::string, std::string>> options;
  Secret secret;  // of the job, at most 64 bytes
};

enum class TransportEventKind : uint32_t {
  kCompleted = WEFT_EVENT_COMPLETED,
  kAccepted = WEFT_EVENT_ACCEPTED,
  kConnected = WEFT_EVENT_CONNECTED,  // an error: there is no endpoint
  kEndpointDown = WEFT_EVENT_EP_DOWN,
  kRefused = WEFT_EVENT_REFUSED,
};

struct TransportEvent {
  TransportEventKind kind = TransportEventKind::kCompleted;
  bool is_send = false;      // kCompleted: a SEND, else a RECV
  uint32_t rank = 0;         // the peer's; not of kCompleted
  uint64_t endpoint = 0;     // not of kRefused
  uint64_t cookie = 0;       // kCompleted, kConnected
  uint64_t tag = 0;          // kCompleted
  uint64_t length = 0;       // kCompleted: bytes that moved
  uint64_t incarnation = 0;  // the peer's: kAccepted, kConnected, kRefused
  uint32_t reason = WEFT_REFUSED_NOT;
  // Of the op, or of the connection. kEndpointDown: OK where closed here,
  // kCancelled where the peer closed, kPeerLost where the peer is gone.
  absl::Status status;
};

// Memory of this domain that peers may map.
struct SharedMemory {
  weft_mr mr = 0;
  void* host = nullptr;
  uint64_t bytes = 0;
};

// Memory of a peer, to be written only where it is `writable`.
struct MappedMemory {
  void* host = nullptr;
  uint64_t bytes = 0;
  bool writable = false;
};

// Differs from `seen`, and its waiters are woken, once Poll may have something.
struct SleepWord {
  const uint32_t* word = nullptr;
  uint32_t seen = 0;
};

// A plugin that has a transport section. Cheap to copy.
class Transport {
 public:
  // kPluginAbi where the plugin has no transport section, kTransportFailed
  // where what it says of itself cannot be.
  static absl::StatusOr<Transport> Create(const Plugin& plugin);

  const TransportInfo& info() const { return info_; }
  const Plugin& plugin() const { return *plugin_; }

  // kBadValue where the plugin refuses the configuration: an unknown option, a
  // rank outside of the world.
  absl::StatusOr<std::unique_ptr<Domain>> Open(
      const DomainConfig& config) const;

 private:
  Transport(const Plugin* plugin, TransportInfo info)
      : plugin_(plugin), info_(std::move(info)) {}

  const Plugin* plugin_;
  TransportInfo info_;
};

// One rank's side of the job.
class Domain {
 public:
  ~Domain();  // as Close; events are dropped
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  // With the domain's options.
  const TransportInfo& info() const { return info_; }
  uint32_t rank() const { return rank_; }
  weft_domain* handle() const { return handle_; }

  // The address at which lower ranks connect: bytes, at most 256.
  absl::StatusOr<std::string> Listen();

  // Begins to connect to `rank`, which must be above this one. kConnected comes
  // with the endpoint and `cookie`.
  absl::StatusOr<uint64_t> Connect(uint32_t rank, absl::string_view address,
                                   uint64_t cookie = 0);

  // `abort`: the peer sees what it would see if this process died.
  absl::Status CloseEndpoint(uint64_t endpoint, bool abort = false);

  // False: the transport is full, nothing was posted, and it will take more
  // once something of this endpoint has completed. Where true, kCompleted comes
  // exactly once. `data` stays until then, but for sizes up to eager_max.
  absl::StatusOr<bool> PostSend(uint64_t endpoint, uint64_t tag,
                                const void* data, uint64_t bytes,
                                uint64_t cookie, bool urgent = false) {
    return Post(WEFT_TRANSPORT_SEND, urgent ? WEFT_TRANSPORT_URGENT : 0,
                endpoint, tag, const_cast<void*>(data), bytes, cookie);
  }
  absl::StatusOr<bool> PostRecv(uint64_t endpoint, uint64_t tag, void* data,
                                uint64_t bytes, uint64_t cookie) {
    return Post(WEFT_TRANSPORT_RECV, 0, endpoint, tag, data, bytes, cookie);
  }

  // Fills the front of `events` and returns how many. Where all are filled
  // there may be more: poll again before sleeping.
  absl::StatusOr<size_t> Poll(absl::Span<TransportEvent> events);

  // True where Poll has something, false after `timeout_ns`. Not for workers,
  // which are notified. Pre-condition: has_wait().
  bool has_wait() const { return api_.wait != nullptr; }
  absl::StatusOr<bool> Wait(uint64_t timeout_ns);

  // For a worker that sleeps on a futex word of its own and on this: begin,
  // look once more (Poll), sleep, end. Pre-condition: has_sleep().
  // kPluginBroken where the plugin gives what cannot be a futex.
  bool has_sleep() const { return api_.sleep_begin != nullptr; }
  absl::StatusOr<SleepWord> SleepBegin();
  absl::Status SleepEnd();

  // Zeroes where the plugin does not count.
  absl::StatusOr<weft_transport_stats> Stats();

  // Memory that peers map, to read or, where it is `writable`, to write, too.
  // Pre-condition of these: info().shared_memory, else kPluginAbi. A key may be
  // sent to any peer; Map wants the endpoint that leads to the owner, and the
  // mapping survives it.
  absl::StatusOr<SharedMemory> AllocShared(uint64_t bytes,
                                           bool writable = false);
  absl::Status FreeShared(weft_mr mr);
  absl::StatusOr<std::string> PackShared(weft_mr mr);
  absl::StatusOr<MappedMemory> Map(uint64_t endpoint, absl::string_view key);
  absl::Status Unmap(const void* host);

  // Closes every endpoint, hands what is still to come to `sink`, and ends the
  // domain. kTransportFailed where shared memory is still allocated or mapped;
  // the domain then stays, closed to all but FreeShared and Unmap. After
  // success the object is only to be destroyed.
  absl::Status Close(absl::FunctionRef<void(const TransportEvent&)> sink);

 private:
  friend class Transport;
  Domain(const Plugin* plugin, uint32_t rank, weft_domain* handle);

  absl::StatusOr<bool> Post(uint32_t kind, uint32_t flags, uint64_t endpoint,
                            uint64_t tag, void* host, uint64_t bytes,
                            uint64_t cookie) {
    const weft_transport_op op{sizeof(op), kind, flags, 0,     endpoint,
                               tag,        host, bytes, cookie};
    weft_status status;  // the message is written where there is an error
    status.struct_size = sizeof(status);
    const weft_code code = api_.post(handle_, &op, &status);
    if (ABSL_PREDICT_TRUE(code == WEFT_OK)) return true;
    if (code == WEFT_AGAIN) return false;
    return PostError(op, code, &status);
  }
  absl::Status PostError(const weft_transport_op& op, weft_code code,
                         weft_status* status) const;
  absl::Status Fail(absl::string_view call, weft_code code,
                    const weft_status& status) const;
  absl::Status EventStatus(weft_transport_event* raw) const;
  void Convert(weft_transport_event* raw, TransportEvent* event) const;

  const Plugin* const plugin_;
  const weft_transport_api& api_;
  const uint32_t rank_;
  weft_domain* handle_;
  TransportInfo info_;
  std::vector<weft_transport_event> raw_;  // Poll's own
  std::atomic<int64_t> shared_live_{0};    // allocated or mapped
};

}  // namespace weft

#endif  // WEFT_PLUGINS_HOST_TRANSPORT_H_
