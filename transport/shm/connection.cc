#include "transport/shm/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft_shm {
namespace {

constexpr uint32_t kNoSlot = UINT32_MAX;
constexpr int kLargeArrivals = 2;  // of arrived_
// Lanes that have nothing are forgotten where there are more than this.
constexpr size_t kKeptLanes = 1024;
// Records of one pass, so that the lock is let go now and then.
constexpr uint32_t kPass = 256;
// A pass that took fewer records, and no chunk, can't have made the room that a
// starving producer waits for: such a one has filled the ring, so that passes
// of kPass follow.
constexpr uint32_t kFewRecords = 64;
static_assert(kFewRecords <= kPass && 2 * kPass <= kRecords);

Record NewRecord(RecordKind kind, uint64_t id) {
  Record record{};
  record.kind = kind;
  record.id = id;
  return record;
}

}  // namespace

Connection::Connection(weft_endpoint ep, Link link, const Options& options,
                       uint64_t timeout_ns, Mailbox* mailbox)
    : ep_(ep),
      link_(std::move(link)),
      options_(options),
      timeout_ns_(timeout_ns),
      mailbox_(mailbox) {
  for (uint32_t urgent : {0u, 1u}) {
    for (uint32_t i = 0; i < options_.eager_credits; ++i) {
      slots_[urgent].push_back(urgent * options_.eager_credits + i);
    }
  }
  ++mailbox_->stats.endpoints;
}

// ---- Posting ---------------------------------------------------------------

weft_code Connection::DownCode() const {
  if (closed_here_ || peer_closed_) return WEFT_CANCELED;
  return down_ ? WEFT_PEER_LOST : WEFT_OK;
}

std::string Connection::WhyDown() const {
  const std::string peer = "rank " + std::to_string(link_.rank);
  if (closed_here_) return "the endpoint was closed";
  if (peer_closed_) return peer + " closed the endpoint";
  if (nonsense_) return peer + " wrote what makes no sense, and is cut off";
  return peer + " is lost";
}

weft_code Connection::Post(const weft_transport_op& op, weft_status* status) {
  if (DownCode() != WEFT_OK) {
    return weft_sdk::Fail(status, DownCode(), WhyDown());
  }
  weft_code code;
  if (op.kind == WEFT_TRANSPORT_SEND) {
    code = PostSend(op, status);
    PutFins();
  } else {
    code = PostRecv(op, status);
  }
  Ring();
  return code;
}

weft_code Connection::Again(const char* what, uint32_t limit,
                            weft_status* status) {
  ++mailbox_->stats.again;
  return weft_sdk::Fail(status, WEFT_AGAIN,
                        std::to_string(limit) + " " + what +
                            " are under way, the most there are");
}

void Connection::AddSend(uint64_t id, const Send& send) {
  if (unused_.empty()) {
    sends_.emplace_hint(sends_.end(), id, send);
    return;
  }
  Sends::node_type node = std::move(unused_.back());
  unused_.pop_back();
  node.key() = id;
  node.mapped() = send;
  sends_.insert(sends_.end(), std::move(node));
}

weft_code Connection::PostSend(const weft_transport_op& op,
                               weft_status* status) {
  const bool urgent = (op.flags & WEFT_TRANSPORT_URGENT) != 0;
  const bool eager = op.length <= options_.eager_max;
  uint32_t& used = eager ? credits_[urgent] : large_sends_;
  const uint32_t limit = eager ? options_.eager_credits : options_.max_inflight;
  if (used == limit) return Again("SENDs", limit, status);
  ++used;
  const uint64_t id = ++last_id_;
  Send send{static_cast<const char*>(op.host),
            op.tag,
            op.length,
            op.cookie,
            /*sent=*/0,
            kNoSlot,
            eager,
            urgent,
            /*cleared=*/false};
  Record record =
      NewRecord(eager ? RecordKind::kEager : RecordKind::kLarge, id);
  record.tag = op.tag;
  record.length = op.length;
  if (urgent) record.flags = kUrgent;
  if (eager && op.length > kInline) {
    send.slot = slots_[urgent].back();  // as many as credits
    slots_[urgent].pop_back();
    std::memcpy(link_.out->slot(send.slot), op.host, op.length);
    std::memcpy(record.data, &send.slot, sizeof(send.slot));
  } else if (eager && op.length != 0) {
    std::memcpy(record.data, op.host, op.length);
  }
  AddSend(id, send);
  Put(record);
  return weft_sdk::Ok(status);
}

weft_code Connection::PostRecv(const weft_transport_op& op,
                               weft_status* status) {
  if (recvs_ == options_.max_inflight) {
    return Again("RECVs", options_.max_inflight, status);
  }
  ++recvs_;
  Lane& lane = lanes_.at(op.tag);
  lane.recvs.push_back({op.host, op.length, op.cookie});
  Match(op.tag, &lane);
  return weft_sdk::Ok(status);
}

// ---- Writing ---------------------------------------------------------------

void Connection::Put(const Record& record) {
  wrote_ = true;
  if (!pending_.empty() || !PutNow(record)) pending_.push_back(record);
}

// Where this is false the peer rings once it has made room.
bool Connection::PutNow(const Record& record) {
  if (link_.out->Put(record)) return true;
  link_.out->Starve();
  return link_.out->Put(record);
}

// True where something is left for which there is no room.
bool Connection::FlushSome() {
  while (!pending_.empty()) {
    if (!link_.out->Put(pending_.front())) return true;
    pending_.pop_front();
    wrote_ = true;
  }
  for (uint32_t i = 0; i < kChunks && !active_.empty(); ++i) {
    char* chunk = link_.out->HasRoom() ? link_.out->NextChunk() : nullptr;
    if (chunk == nullptr) return true;
    Send& send = sends_.at(active_.front());
    Record record = NewRecord(RecordKind::kData, active_.front());
    record.length = std::min(kChunkBytes, send.length - send.sent);
    std::memcpy(chunk, send.data + send.sent, record.length);
    link_.out->PutChunk(record);
    wrote_ = true;
    send.sent += record.length;
    if (send.sent == send.length) active_.pop_front();
  }
  return !active_.empty();
}

void Connection::Flush() {
  if (!FlushSome()) return;
  link_.out->Starve();
  FlushSome();
}

void Connection::Ring() {
  if (!down_ && std::exchange(wrote_, false)) link_.bell->Ring();
}

// ---- Reading ---------------------------------------------------------------

bool Connection::Progress(bool soon) {
  if (down_) return false;
  PutFins();
  put_off_ = soon && !closing_;
  uint32_t taken = 0;
  bool chunks = false;
  Record record;
  for (; taken < kPass && link_.in->Take(&record); ++taken) {
    chunks = chunks || record.kind == RecordKind::kData;
    if (final_in_ || !Handle(record)) {
      nonsense_ = true;
      Down();
      return true;
    }
  }
  put_off_ = false;
  bool any = taken != 0;
  if (any && closing_) deadline_ = NowNs() + timeout_ns_;
  Flush();
  if (closing_) SayFinal();
  const bool may_starve = taken >= kFewRecords || chunks;
  if (may_starve && link_.in->ProducerStarves()) wrote_ = true;
  any = any || wrote_;
  Ring();
  if (final_out_ && final_in_) Down();
  return any;
}

bool Connection::Handle(const Record& record) {
  switch (record.kind) {
    case RecordKind::kEager:
      return HandleEager(record);
    case RecordKind::kLarge:
      return HandleLarge(record);
    case RecordKind::kData:
      return HandleData(record);
    case RecordKind::kClear:
      return HandleClear(record);
    case RecordKind::kFin:
      return HandleFin(record);
    case RecordKind::kClose:
      peer_closed_ = true;
      if (!closing_) BeginClosing();
      return true;
    case RecordKind::kFinal:
      final_in_ = true;
      return peer_closed_;
  }
  return false;
}

bool Connection::HandleEager(const Record& record) {
  const Geometry& geometry = link_.in->geometry();
  if ((record.flags & ~kUrgent) != 0 || record.length > geometry.eager_max ||
      record.id <= last_arrival_) {
    return false;
  }
  last_arrival_ = record.id;
  const bool urgent = record.flags == kUrgent;
  if (arrived_[urgent] == geometry.credits) return false;
  Arrival arrival{record.id, record.length, /*eager=*/true,
                  urgent,    kNoSlot,       {}};
  std::memcpy(arrival.data, record.data, kInline);
  if (record.length > kInline) {
    std::memcpy(&arrival.slot, record.data, sizeof(arrival.slot));
    if (arrival.slot >= 2 * geometry.credits) return false;
  }
  if (closing_) return true;
  ++arrived_[urgent];
  Lane& lane = lanes_.at(record.tag);
  lane.arrivals.push_back(arrival);
  Match(record.tag, &lane);
  return true;
}

bool Connection::HandleLarge(const Record& record) {
  if (record.flags != 0 || record.length <= link_.in->geometry().eager_max ||
      record.id <= last_arrival_ ||
      arrived_[kLargeArrivals] == link_.max_inflight) {
    return false;
  }
  last_arrival_ = record.id;
  if (closing_) return true;
  ++arrived_[kLargeArrivals];
  Lane& lane = lanes_.at(record.tag);
  lane.arrivals.push_back({record.id,
                           record.length,
                           /*eager=*/false,
                           /*urgent=*/false,
                           kNoSlot,
                           {}});
  Match(record.tag, &lane);
  return true;
}

bool Connection::HandleData(const Record& record) {
  auto it = incoming_.find(record.id);
  if (it == incoming_.end() || record.length == 0 ||
      record.length > kChunkBytes ||
      record.length > it->second.recv.length - it->second.got) {
    return false;
  }
  Incoming& incoming = it->second;
  if (!incoming.dropped) {
    std::memcpy(static_cast<char*>(incoming.recv.data) + incoming.got,
                link_.in->chunk(), record.length);
  }
  link_.in->DropChunk();
  incoming.got += record.length;
  if (incoming.got < incoming.recv.length || incoming.dropped) return true;
  const uint64_t tag = incoming.tag;
  const Recv recv = incoming.recv;
  incoming_.erase(it);
  Lane& lane = lanes_.at(tag);
  lane.busy = 0;
  --arrived_[kLargeArrivals];
  Fin(record.id, 0, recv.length);
  CompleteRecv(tag, recv, /*urgent=*/false, WEFT_OK, "");
  Match(tag, &lane);
  return true;
}

bool Connection::HandleClear(const Record& record) {
  auto it = sends_.find(record.id);
  if (it == sends_.end() || it->second.eager || it->second.cleared) {
    return false;
  }
  it->second.cleared = true;
  if (!closing_) active_.push_back(record.id);
  return true;
}

bool Connection::HandleFin(const Record& record) {
  auto it = sends_.find(record.id);
  if (it == sends_.end() || (record.flags & ~kMismatch) != 0) return false;
  const Send send = it->second;
  const bool mismatch = record.flags == kMismatch;
  if (mismatch == (record.length == send.length)) return false;
  if (!send.eager && (mismatch ? send.cleared : send.sent != send.length)) {
    return false;
  }
  unused_.push_back(sends_.extract(it));
  if (!mismatch) {
    CompleteSend(send, WEFT_OK, "");
  } else {
    CompleteSend(send, WEFT_INVALID,
                 "a SEND of " + std::to_string(send.length) +
                     " bytes met a RECV of " + std::to_string(record.length));
  }
  return true;
}

void Connection::Fin(uint64_t id, uint16_t flags, uint64_t length) {
  Record record = NewRecord(RecordKind::kFin, id);
  record.flags = flags;
  record.length = length;
  fins_.push_back(record);  // behind those put off: SENDs complete in order
  if (!put_off_) PutFins();
}

void Connection::PutFins() {
  for (; !fins_.empty(); fins_.pop_front()) Put(fins_.front());
}

void Connection::Match(uint64_t tag, Lane* lane) {
  while (!closing_ && lane->busy == 0 && !lane->arrivals.empty() &&
         !lane->recvs.empty()) {
    const Arrival arrival = lane->arrivals.front();
    const Recv recv = lane->recvs.front();
    lane->arrivals.pop_front();
    lane->recvs.pop_front();
    const bool same = arrival.length == recv.length;
    if (same && !arrival.eager) {
      lane->busy = arrival.id;
      incoming_[arrival.id] = {tag, recv, /*got=*/0, /*dropped=*/false};
      Put(NewRecord(RecordKind::kClear, arrival.id));
      return;
    }
    --arrived_[arrival.eager ? arrival.urgent : kLargeArrivals];
    if (!same) {
      Fin(arrival.id, kMismatch, recv.length);
      CompleteRecv(tag, recv, arrival.urgent, WEFT_INVALID,
                   "a SEND of " + std::to_string(arrival.length) +
                       " bytes met a RECV of " + std::to_string(recv.length));
      continue;
    }
    if (recv.length != 0) {
      const void* from = arrival.slot == kNoSlot
                             ? static_cast<const void*>(arrival.data)
                             : link_.in->slot(arrival.slot);
      std::memcpy(recv.data, from, recv.length);
    }
    Fin(arrival.id, 0, recv.length);
    CompleteRecv(tag, recv, arrival.urgent, WEFT_OK, "");
  }
  if (lanes_.size() > kKeptLanes && lane->busy == 0 && lane->arrivals.empty() &&
      lane->recvs.empty()) {
    lanes_.erase(tag);
  }
}

// ---- Completing ------------------------------------------------------------

void Connection::Complete(uint32_t op_kind, uint64_t tag, uint64_t cookie,
                          uint64_t length, bool urgent, weft_code code,
                          std::string_view message) {
  TransportEvent event;
  event.kind = WEFT_EVENT_COMPLETED;
  event.ep = ep_;
  event.cookie = cookie;
  event.tag = tag;
  event.length = code == WEFT_OK ? length : 0;
  event.op_kind = op_kind;
  event.rank = link_.rank;
  event.code = code;
  event.message = message;
  mailbox_->Push(std::move(event), urgent);
}

void Connection::CompleteSend(const Send& send, weft_code code,
                              std::string_view message) {
  --(send.eager ? credits_[send.urgent] : large_sends_);
  if (send.slot != kNoSlot) slots_[send.urgent].push_back(send.slot);
  if (code == WEFT_OK) {
    ++mailbox_->stats.sent_messages;
    mailbox_->stats.sent_bytes += send.length;
    if (send.eager) ++mailbox_->stats.eager_messages;
  }
  Complete(WEFT_TRANSPORT_SEND, send.tag, send.cookie, send.length, send.urgent,
           code, message);
}

void Connection::CompleteRecv(uint64_t tag, const Recv& recv, bool urgent,
                              weft_code code, std::string_view message) {
  --recvs_;
  if (code == WEFT_OK) {
    ++mailbox_->stats.received_messages;
    mailbox_->stats.received_bytes += recv.length;
  }
  Complete(WEFT_TRANSPORT_RECV, tag, recv.cookie, recv.length, urgent, code,
           message);
}

// ---- The end ---------------------------------------------------------------

void Connection::Close() {
  if (down_ || closed_here_ || peer_closed_) return;
  closed_here_ = true;
  BeginClosing();
  Progress();
}

void Connection::Abort() {
  if (down_ || closed_here_ || peer_closed_) return;
  closed_here_ = true;
  Down();
}

void Connection::HungUp() {
  // As much as the rings can hold, and no more if the peer goes on.
  for (uint32_t i = 0; i <= kRecords / kPass && Progress(); ++i) {
  }
  Down();
}

void Connection::BeginClosing() {
  closing_ = true;
  put_off_ = false;
  PutFins();
  deadline_ = NowNs() + timeout_ns_;
  for (auto& [id, incoming] : incoming_) incoming.dropped = incoming.got == 0;
  active_.erase(
      std::remove_if(active_.begin(), active_.end(),
                     [this](uint64_t id) { return sends_.at(id).sent == 0; }),
      active_.end());
  Put(NewRecord(RecordKind::kClose, 0));
}

// Once nothing is left that was begun.
void Connection::SayFinal() {
  if (final_out_ || !active_.empty() || !pending_.empty()) return;
  for (const auto& [id, incoming] : incoming_) {
    if (!incoming.dropped) return;
  }
  if (!PutNow(NewRecord(RecordKind::kFinal, 0))) return;
  final_out_ = true;
  wrote_ = true;
}

void Connection::Down() {
  if (std::exchange(down_, true)) return;
  deadline_ = UINT64_MAX;
  const weft_code code = DownCode();
  const std::string why = WhyDown();
  for (const auto& [id, send] : std::exchange(sends_, {})) {
    CompleteSend(send, code, why);
  }
  for (auto& [tag, lane] : lanes_) {
    if (lane.busy != 0) {
      CompleteRecv(tag, incoming_.at(lane.busy).recv, false, code, why);
    }
    for (; !lane.recvs.empty(); lane.recvs.pop_front()) {
      CompleteRecv(tag, lane.recvs.front(), false, code, why);
    }
  }
  lanes_.clear();
  TransportEvent event;
  event.kind = WEFT_EVENT_EP_DOWN;
  event.ep = ep_;
  event.rank = link_.rank;
  event.code = closed_here_ ? WEFT_OK : code;
  if (event.code != WEFT_OK) event.message = why;
  mailbox_->Push(std::move(event), /*urgent=*/false);
  --mailbox_->stats.endpoints;
  incoming_.clear();
  active_.clear();
  fins_.clear();
  pending_.clear();
  if (std::exchange(wrote_, false)) link_.bell->Ring();
  // First for a thread that waits on it, which keeps it open meanwhile.
  shutdown(link_.socket.get(), SHUT_RDWR);
  link_.socket = Fd();
  link_.process = Fd();
  link_.out.reset();
  link_.in.reset();
  link_.bell.reset();
}

}  // namespace weft_shm
