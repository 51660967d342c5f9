#include "plugins/host/transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "glog/logging.h"
#include "plugins/host/abi_call.h"

namespace weft {
namespace {

constexpr size_t kRawEvents = 64;
// For the last events of a domain that closes: far more than any takes.
constexpr uint64_t kCloseWaitNs = 10'000'000'000;

absl::StatusOr<weft_blob> ToBlob(absl::string_view bytes,
                                 absl::string_view what) {
  if (bytes.size() > WEFT_BLOB_MAX) {
    return MakeError(ErrorCode::kTransportFailed,
                     absl::StrCat(what, " has ", bytes.size(),
                                  " bytes, the most are ", WEFT_BLOB_MAX));
  }
  auto blob = NewStruct<weft_blob>();
  blob.size = static_cast<uint32_t>(bytes.size());
  std::memcpy(blob.bytes, bytes.data(), bytes.size());
  return blob;
}

absl::StatusOr<std::string> FromBlob(const weft_blob& blob,
                                     absl::string_view call) {
  if (blob.size == 0 || blob.size > WEFT_BLOB_MAX) {
    return MakeError(ErrorCode::kTransportFailed,
                     absl::StrCat(call, " gave ", blob.size, " bytes; 1 to ",
                                  WEFT_BLOB_MAX, " are legal"));
  }
  return std::string(reinterpret_cast<const char*>(blob.bytes), blob.size);
}

// Calls info and refuses what cannot be. `who` is for messages.
absl::StatusOr<TransportInfo> ReadInfo(const weft_transport_api& api,
                                       weft_domain* domain,
                                       const std::string& who) {
  auto raw = NewStruct<weft_transport_info>();
  weft_status status = NewStatus();
  const weft_code code = api.info(domain, &raw, &status);
  if (code != WEFT_OK) {
    return MakeError(ErrorCode::kTransportFailed,
                     absl::StrCat(who, ", info: ", CodeName(code), ": ",
                                  Text(status.message)));
  }
  if (raw.eager_max == 0 || raw.eager_credits == 0 || raw.max_inflight == 0) {
    return MakeError(
        ErrorCode::kTransportFailed,
        absl::StrCat(who, " claims eager_max ", raw.eager_max,
                     ", eager_credits ", raw.eager_credits, ", max_inflight ",
                     raw.max_inflight, "; each is at least 1"));
  }
  TransportInfo info;
  info.name = Text(raw.name);
  info.locality = Text(raw.locality);
  info.wire_version = raw.wire_version;
  info.security = raw.security;
  info.eager_max = raw.eager_max;
  info.eager_credits = raw.eager_credits;
  info.max_inflight = raw.max_inflight;
  info.in_process = (raw.flags & WEFT_TRANSPORT_IN_PROCESS) != 0;
  // A claim without the functions behind it is worth nothing.
  info.shared_memory =
      (raw.flags & WEFT_TRANSPORT_SHARED_MEMORY) != 0 && api.mem_map != nullptr;
  return info;
}

// The typed error of a code that came as an event or from a call.
ErrorCode ErrorOf(weft_code code) {
  switch (code) {
    case WEFT_OOM:
      return ErrorCode::kOutOfMemory;
    case WEFT_CANCELED:
      return ErrorCode::kCancelled;
    case WEFT_PEER_LOST:
      return ErrorCode::kPeerLost;
    default:
      return ErrorCode::kTransportFailed;
  }
}

// Events of a later version are none of ours.
bool IsKnown(uint32_t kind) {
  return kind >= WEFT_EVENT_COMPLETED && kind <= WEFT_EVENT_REFUSED;
}

}  // namespace

// ---- Transport -------------------------------------------------------------

absl::StatusOr<Transport> Transport::Create(const Plugin& plugin) {
  if (!plugin.has_transport()) {
    return MakeError(
        ErrorCode::kPluginAbi,
        absl::StrCat("plugin '", plugin.name(), "' is no transport"));
  }
  WEFT_ASSIGN_OR_RETURN(TransportInfo info,
                        ReadInfo(plugin.transport(), nullptr,
                                 absl::StrCat("transport ", plugin.name())));
  return Transport(&plugin, std::move(info));
}

absl::StatusOr<std::unique_ptr<Domain>> Transport::Open(
    const DomainConfig& config) const {
  const std::vector<weft_key_value> options = KeyValues(config.options);
  auto raw = NewStruct<weft_domain_config>();
  raw.rank = config.rank;
  raw.world = config.world;
  raw.wire_version = config.wire_version;
  raw.job = AbiString(config.job);
  raw.epoch = config.epoch;
  raw.incarnation = config.incarnation;
  raw.plan_hash = config.plan_hash;
  raw.notify_token = config.notify_token;
  raw.peer_timeout_ms = config.peer_timeout_ms;
  raw.option_count = static_cast<uint32_t>(options.size());
  raw.options = options.data();
  raw.secret = AbiString(config.secret.view());
  weft_domain* handle = nullptr;
  weft_status status = NewStatus();
  const weft_code code =
      plugin_->transport().domain_open(&raw, &handle, &status);
  if (code == WEFT_INVALID) {
    return MakeError(
        ErrorCode::kBadValue,
        absl::StrCat(
            "transport ", plugin_->name(), ", rank ", config.rank,
            ": domain_open refused its arguments (world ", config.world,
            ", options: ",
            absl::StrJoin(config.options, ", ", absl::PairFormatter("=")),
            "): ", Text(status.message)));
  }
  if (code != WEFT_OK) {
    return MakeError(ErrorOf(code),
                     absl::StrCat("transport ", plugin_->name(), ", rank ",
                                  config.rank, ", domain_open: ",
                                  CodeName(code), ": ", Text(status.message)));
  }
  std::unique_ptr<Domain> domain(new Domain(plugin_, config.rank, handle));
  WEFT_ASSIGN_OR_RETURN(domain->info_,
                        ReadInfo(plugin_->transport(), handle,
                                 absl::StrCat("transport ", plugin_->name(),
                                              ", rank ", config.rank)));
  return domain;
}

// ---- Domain ----------------------------------------------------------------

Domain::Domain(const Plugin* plugin, uint32_t rank, weft_domain* handle)
    : plugin_(plugin),
      api_(plugin->transport()),
      rank_(rank),
      handle_(handle),
      raw_(kRawEvents, NewStruct<weft_transport_event>()) {}

Domain::~Domain() {
  absl::Status closed = Close([](const TransportEvent&) {});
  if (!closed.ok()) LOG(ERROR) << "left open: " << closed.message();
}

absl::Status Domain::Fail(absl::string_view call, weft_code code,
                          const weft_status& status) const {
  std::string message =
      absl::StrCat("transport ", plugin_->name(), ", rank ", rank_, ", ", call,
                   ": ", CodeName(code), ": ", Text(status.message));
  if (status.vendor_code != 0) {
    absl::StrAppend(&message, " (vendor code ", status.vendor_code, ")");
  }
  return MakeError(ErrorOf(code), message);
}

absl::Status Domain::PostError(const weft_transport_op& op, weft_code code,
                               weft_status* status) const {
  return Annotate(Fail("post", code, *status),
                  absl::StrCat(op.kind == WEFT_TRANSPORT_SEND ? "SEND" : "RECV",
                               " on tag ", op.tag, ", ", op.length, " bytes"));
}

absl::StatusOr<std::string> Domain::Listen() {
  auto blob = NewStruct<weft_blob>();
  weft_status status = NewStatus();
  const weft_code code = api_.listen(handle_, &blob, &status);
  if (code != WEFT_OK) return Fail("listen", code, status);
  return FromBlob(blob, "listen");
}

absl::StatusOr<uint64_t> Domain::Connect(uint32_t rank,
                                         absl::string_view address,
                                         uint64_t cookie) {
  WEFT_ASSIGN_OR_RETURN(const weft_blob blob, ToBlob(address, "an address"));
  auto options = NewStruct<weft_connect_options>();
  options.rank = rank;
  options.address = &blob;
  options.cookie = cookie;
  weft_endpoint endpoint = 0;
  weft_status status = NewStatus();
  const weft_code code = api_.connect(handle_, &options, &endpoint, &status);
  if (code != WEFT_OK) {
    return Annotate(Fail("connect", code, status),
                    absl::StrCat("to rank ", rank));
  }
  return endpoint;
}

absl::Status Domain::CloseEndpoint(uint64_t endpoint, bool abort) {
  weft_status status = NewStatus();
  const weft_code code =
      api_.ep_close(handle_, endpoint, abort ? WEFT_EP_ABORT : 0, &status);
  if (code == WEFT_OK) return absl::OkStatus();
  return Fail("ep_close", code, status);
}

absl::Status Domain::EventStatus(weft_transport_event* raw) const {
  if (raw->code == WEFT_OK) return absl::OkStatus();
  ErrorCode error = ErrorOf(raw->code);
  absl::string_view what = "connection";
  if (raw->reason != WEFT_REFUSED_NOT) {
    error = ErrorCode::kPeerRefused;
  } else if (raw->kind == WEFT_EVENT_COMPLETED) {
    what = raw->op_kind == WEFT_TRANSPORT_SEND ? "SEND" : "RECV";
    if (raw->code == WEFT_INVALID) error = ErrorCode::kLengthMismatch;
  }
  std::string message =
      absl::StrCat("transport ", plugin_->name(), ", rank ", rank_, ", ", what);
  if (raw->kind == WEFT_EVENT_COMPLETED) {
    absl::StrAppend(&message, " on tag ", raw->tag);
  } else {
    absl::StrAppend(&message, " with rank ", raw->rank);
  }
  absl::StrAppend(&message, ": ", CodeName(raw->code), ": ",
                  Text(raw->message));
  raw->message[0] = '\0';  // whoever writes none next time has none
  return MakeError(error, message);
}

void Domain::Convert(weft_transport_event* raw, TransportEvent* event) const {
  event->kind = static_cast<TransportEventKind>(raw->kind);
  event->is_send = raw->op_kind == WEFT_TRANSPORT_SEND;
  event->rank = raw->rank;
  event->endpoint = raw->ep;
  event->cookie = raw->cookie;
  event->tag = raw->tag;
  event->length = raw->length;
  event->incarnation = raw->incarnation;
  event->reason = raw->reason;
  if (ABSL_PREDICT_FALSE(raw->code != WEFT_OK || !event->status.ok())) {
    event->status = EventStatus(raw);
  }
}

absl::StatusOr<size_t> Domain::Poll(absl::Span<TransportEvent> events) {
  size_t filled = 0;
  while (filled < events.size()) {
    const uint32_t room =
        static_cast<uint32_t>(std::min(kRawEvents, events.size() - filled));
    uint32_t count = 0;
    weft_status status = NewStatus();
    const weft_code code =
        api_.poll(handle_, raw_.data(), room, &count, &status);
    if (code != WEFT_OK) return Fail("poll", code, status);
    if (count > room) {
      return MakeError(
          ErrorCode::kTransportFailed,
          absl::StrCat("transport ", plugin_->name(), ", poll: gave ", count,
                       " events where ", room, " had room"));
    }
    for (uint32_t i = 0; i < count; ++i) {
      if (IsKnown(raw_[i].kind)) Convert(&raw_[i], &events[filled++]);
    }
    if (count < room) break;
  }
  return filled;
}

absl::StatusOr<bool> Domain::Wait(uint64_t timeout_ns) {
  if (api_.wait == nullptr) return Missing(*plugin_, "wait");
  weft_status status = NewStatus();
  const weft_code code = api_.wait(handle_, timeout_ns, &status);
  if (code == WEFT_OK) return true;
  if (code == WEFT_TIMEOUT) return false;
  return Fail("wait", code, status);
}

absl::StatusOr<SleepWord> Domain::SleepBegin() {
  SleepWord sleep;
  weft_status status = NewStatus();
  const weft_code code =
      api_.sleep_begin(handle_, &sleep.word, &sleep.seen, &status);
  if (code != WEFT_OK) return Fail("sleep_begin", code, status);
  const uintptr_t at = reinterpret_cast<uintptr_t>(sleep.word);
  if (at == 0 || at % alignof(uint32_t) != 0) {
    api_.sleep_end(handle_, &status);  // the error is the one below
    return MakeError(
        ErrorCode::kPluginBroken,
        absl::StrCat("transport ", plugin_->name(), ", rank ", rank_,
                     ", sleep_begin: gave 0x", absl::Hex(at),
                     " as the address of a futex, which is ",
                     at == 0 ? "none" : "not a multiple of 4"));
  }
  return sleep;
}

absl::Status Domain::SleepEnd() {
  weft_status status = NewStatus();
  const weft_code code = api_.sleep_end(handle_, &status);
  return code == WEFT_OK ? absl::OkStatus() : Fail("sleep_end", code, status);
}

absl::StatusOr<weft_transport_stats> Domain::Stats() {
  auto stats = NewStruct<weft_transport_stats>();
  if (api_.stats == nullptr) return stats;
  weft_status status = NewStatus();
  const weft_code code = api_.stats(handle_, &stats, &status);
  if (code != WEFT_OK) return Fail("stats", code, status);
  return stats;
}

absl::Status Domain::Close(
    absl::FunctionRef<void(const TransportEvent&)> sink) {
  while (handle_ != nullptr) {
    weft_status status = NewStatus();
    const weft_code code = api_.domain_close(handle_, &status);
    if (code == WEFT_OK) {
      handle_ = nullptr;
      break;
    }
    if (code != WEFT_BUSY) return Fail("domain_close", code, status);
    TransportEvent events[16];
    WEFT_ASSIGN_OR_RETURN(const size_t count, Poll(absl::MakeSpan(events)));
    for (size_t i = 0; i < count; ++i) sink(events[i]);
    if (count > 0) continue;
    // Nothing to poll: what it still waits for comes, or it is shared memory.
    const absl::Status busy = Fail("domain_close", code, status);
    if (shared_live_ > 0 || !has_wait()) return busy;
    WEFT_ASSIGN_OR_RETURN(const bool more, Wait(kCloseWaitNs));
    if (!more) return busy;
  }
  return absl::OkStatus();
}

// ---- Shared memory ---------------------------------------------------------

absl::StatusOr<SharedMemory> Domain::AllocShared(uint64_t bytes,
                                                 bool writable) {
  if (!info_.shared_memory) return Missing(*plugin_, "mem_alloc_shared");
  SharedMemory memory;
  memory.bytes = bytes;
  weft_status status = NewStatus();
  const weft_code code =
      api_.mem_alloc_shared(handle_, bytes, writable ? WEFT_SHARED_WRITABLE : 0,
                            &memory.mr, &memory.host, &status);
  if (code != WEFT_OK) {
    return Annotate(Fail("mem_alloc_shared", code, status),
                    absl::StrCat(bytes, " bytes"));
  }
  ++shared_live_;
  return memory;
}

absl::Status Domain::FreeShared(weft_mr mr) {
  if (!info_.shared_memory) return Missing(*plugin_, "mem_free_shared");
  weft_status status = NewStatus();
  const weft_code code = api_.mem_free_shared(handle_, mr, &status);
  if (code != WEFT_OK) return Fail("mem_free_shared", code, status);
  --shared_live_;
  return absl::OkStatus();
}

absl::StatusOr<std::string> Domain::PackShared(weft_mr mr) {
  if (!info_.shared_memory) return Missing(*plugin_, "mem_pack");
  auto key = NewStruct<weft_blob>();
  weft_status status = NewStatus();
  const weft_code code = api_.mem_pack(handle_, mr, &key, &status);
  if (code != WEFT_OK) return Fail("mem_pack", code, status);
  return FromBlob(key, "mem_pack");
}

absl::StatusOr<MappedMemory> Domain::Map(uint64_t endpoint,
                                         absl::string_view key) {
  if (!info_.shared_memory) return Missing(*plugin_, "mem_map");
  WEFT_ASSIGN_OR_RETURN(const weft_blob blob, ToBlob(key, "a key"));
  MappedMemory memory;
  uint32_t flags = 0;
  weft_status status = NewStatus();
  const weft_code code = api_.mem_map(handle_, endpoint, &blob, &memory.host,
                                      &memory.bytes, &flags, &status);
  if (code != WEFT_OK) return Fail("mem_map", code, status);
  memory.writable = (flags & WEFT_SHARED_WRITABLE) != 0;
  ++shared_live_;
  return memory;
}

absl::Status Domain::Unmap(const void* host) {
  if (!info_.shared_memory) return Missing(*plugin_, "mem_unmap");
  weft_status status = NewStatus();
  const weft_code code = api_.mem_unmap(handle_, host, &status);
  if (code != WEFT_OK) return Fail("mem_unmap", code, status);
  --shared_live_;
  return absl::OkStatus();
}

}  // namespace weft
