#include "transport/grpc/connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft_grpc {
namespace {

constexpr int kLargeArrivals = 2;  // of arrived_
// Lanes that have nothing are forgotten where there are more than this.
constexpr size_t kKeptLanes = 1024;
constexpr uint64_t kChunkBytes = 1 << 20;
// Records that go out in one message, about.
constexpr size_t kBatchBytes = 64 << 10;

std::string Lengths(uint64_t sent, uint64_t expected) {
  return "a SEND of " + std::to_string(sent) + " bytes met a RECV of " +
         std::to_string(expected);
}

Record NewRecord(RecordKind kind, uint64_t id, uint64_t length = 0) {
  Record record;
  record.kind = kind;
  record.id = id;
  record.length = length;
  return record;
}

}  // namespace

Connection::Connection(weft_endpoint ep, Link link, const Options& options,
                       uint64_t timeout_ns, Shared* shared)
    : ep_(ep),
      link_(std::move(link)),
      options_(options),
      timeout_ns_(timeout_ns),
      shared_(shared),
      mailbox_(&shared->mailbox) {
  link_.control->set_user(this);
  link_.bulk->set_user(this);
  ++mailbox_->stats.endpoints;
  beat_due_ = true;  // so that the connector sees that it is let in
  Pump();
}

// ---- Posting ---------------------------------------------------------------

weft_code Connection::DownCode() const {
  if (closed_here_ || peer_closed_) return WEFT_CANCELED;
  return ending_ ? WEFT_PEER_LOST : WEFT_OK;
}

std::string Connection::WhyDown() const {
  const std::string peer = "rank " + std::to_string(link_.rank);
  if (closed_here_) return "the endpoint was closed";
  if (peer_closed_) return peer + " closed the endpoint";
  return peer + " is lost: " + why_;
}

weft_code Connection::Post(const weft_transport_op& op, weft_status* status) {
  if (DownCode() != WEFT_OK) {
    return weft_sdk::Fail(status, DownCode(), WhyDown());
  }
  const weft_code code = op.kind == WEFT_TRANSPORT_SEND ? PostSend(op, status)
                                                        : PostRecv(op, status);
  Pump();
  return code;
}

weft_code Connection::Again(const char* what, uint32_t limit,
                            weft_status* status) {
  ++mailbox_->stats.again;
  return weft_sdk::Fail(status, WEFT_AGAIN,
                        std::to_string(limit) + " " + what +
                            " are under way, the most there are");
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
  const char* data = static_cast<const char*>(op.host);
  sends_.emplace_hint(
      sends_.end(), id,
      Send{data, op.tag, op.length, op.cookie, /*sent=*/0, eager, urgent,
           /*cleared=*/false,
           /*answered=*/false, /*answer=*/0,
           eager ? nullptr : std::make_unique<std::atomic<uint32_t>>(0)});
  Record record =
      NewRecord(eager ? RecordKind::kEager : RecordKind::kLarge, id, op.length);
  record.tag = op.tag;
  if (urgent) record.flags = kUrgent;
  Put(record, urgent,
      eager ? std::string_view(data, op.length) : std::string_view());
  return weft_sdk::Ok(status);
}

weft_code Connection::PostRecv(const weft_transport_op& op,
                               weft_status* status) {
  if (recvs_ == options_.max_inflight) {
    return Again("RECVs", options_.max_inflight, status);
  }
  ++recvs_;
  lanes_[op.tag].recvs.push_back({op.host, op.length, op.cookie});
  Match(op.tag);
  return weft_sdk::Ok(status);
}

// ---- Writing ---------------------------------------------------------------

void Connection::Put(const Record& record, bool urgent, std::string_view data) {
  std::string bytes;
  bytes.reserve(kRecordBytes + data.size());
  AppendRecord(record, &bytes);
  bytes.append(data);
  (urgent ? urgent_ : usual_).push_back(std::move(bytes));
}

void Connection::Pump() {
  if (ending_) return;
  PumpBulk();
  if (closing_) SayFinal();
  PumpControl();
}

void Connection::PumpControl() {
  if (!link_.control->writable()) return;
  std::string batch;
  if (std::exchange(beat_due_, false)) {
    AppendRecord(NewRecord(RecordKind::kBeat, 0), &batch);
  }
  for (auto* queue : {&urgent_, &usual_}) {
    while (!queue->empty() && batch.size() < kBatchBytes) {
      batch += queue->front();
      queue->pop_front();
    }
  }
  if (!batch.empty()) link_.control->Write(batch, nullptr, 0, nullptr);
}

void Connection::PumpBulk() {
  if (active_.empty() || !link_.bulk->writable()) return;
  const uint64_t id = active_.front();
  active_.pop_front();
  Send& send = sends_.at(id);
  const uint64_t bytes = std::min(kChunkBytes, send.length - send.sent);
  link_.bulk->Write(EncodeChunkHead(id), send.data + send.sent, bytes,
                    send.held.get());
  ++chunks_out_;
  send.sent += bytes;
  if (send.sent != send.length) active_.push_back(id);
}

void Connection::OnWritable(Stream* stream) {
  Locked lock(shared_);
  if (stream == link_.control.get() && stream->writable() && final_out_ &&
      urgent_.empty() && usual_.empty()) {
    final_sent_ = true;
    EndIfFinal();
  }
  Pump();
}

// ---- Reading ---------------------------------------------------------------

void Connection::OnMessage(Stream* stream, const Message& message) {
  if (stream == link_.control.get()) {
    OnRecords(message);
  } else {
    OnChunk(message);
  }
}

void Connection::OnRecords(const Message& message) {
  const std::string bytes = message.ToString();
  Locked lock(shared_);
  silence_ns_ = 0;
  std::string_view rest = bytes;
  while (!rest.empty() && !ending_) {
    const std::optional<Record> record = TakeRecord(&rest);
    if (!record.has_value() || !Handle(*record, &rest)) return Nonsense();
  }
  EndIfFinal();
  Pump();
}

void Connection::OnChunk(const Message& message) {
  char* to = nullptr;
  uint64_t id = 0;
  const uint64_t bytes = message.size() - kChunkHead;
  {
    Locked lock(shared_);
    silence_ns_ = 0;
    if (ending_) return;
    if (message.size() <= kChunkHead) return Nonsense();
    char head[kChunkHead];
    message.Copy(0, kChunkHead, head);
    id = DecodeChunkHead({head, kChunkHead});
    if (!BeginChunk(id, bytes, &to)) return Nonsense();
  }
  // The RECV stays: it completes on this thread only.
  if (to != nullptr) message.Copy(kChunkHead, bytes, to);
  Locked lock(shared_);
  if (ending_) return;
  EndChunk(id);
  EndIfFinal();
  Pump();
}

bool Connection::BeginChunk(uint64_t id, uint64_t bytes, char** to) {
  auto it = incoming_.find(id);
  if (it == incoming_.end() || bytes > kChunkBytes ||
      bytes > it->second.recv.length - it->second.got) {
    return false;
  }
  Incoming& incoming = it->second;
  if (!incoming.dropped) {
    *to = static_cast<char*>(incoming.recv.data) + incoming.got;
  }
  incoming.got += bytes;
  return true;
}

void Connection::EndChunk(uint64_t id) {
  ++chunks_in_;
  const auto it = incoming_.find(id);
  const Incoming& incoming = it->second;
  if (incoming.got < incoming.recv.length || incoming.dropped) return;
  const uint64_t tag = incoming.tag;
  const Recv recv = incoming.recv;
  incoming_.erase(it);
  lanes_[tag].busy = 0;
  --arrived_[kLargeArrivals];
  Fin(id, /*urgent=*/false, 0, recv.length);
  CompleteRecv(tag, recv, /*urgent=*/false, WEFT_OK, "");
  Match(tag);
}

bool Connection::Handle(const Record& record, std::string_view* rest) {
  if (final_in_ && record.kind != RecordKind::kBeat) return false;
  switch (record.kind) {
    case RecordKind::kEager:
      return HandleEager(record, rest);
    case RecordKind::kLarge:
      return HandleLarge(record);
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
      final_chunks_ = record.length;
      return peer_closed_;
    case RecordKind::kBeat:
      return true;
  }
  return false;
}

bool Connection::HandleEager(const Record& record, std::string_view* rest) {
  const bool urgent = record.flags == kUrgent;
  if ((record.flags & ~kUrgent) != 0 || record.length > link_.eager_max ||
      record.length > rest->size() || record.id <= last_arrival_[urgent] ||
      arrived_[urgent] == link_.credits) {
    return false;
  }
  last_arrival_[urgent] = record.id;
  const std::string_view data = rest->substr(0, record.length);
  rest->remove_prefix(record.length);
  if (closing_) return true;
  ++arrived_[urgent];
  Lane& lane = lanes_[record.tag];
  Arrival arrival{record.id, record.length, /*eager=*/true, urgent, {}};
  if (lane.busy == 0 && lane.arrivals.empty() && !lane.recvs.empty()) {
    const Recv recv = lane.recvs.front();
    lane.recvs.pop_front();
    Meet(record.tag, arrival, data, recv);
    return true;
  }
  arrival.data = std::string(data);
  lane.arrivals.push_back(std::move(arrival));
  return true;
}

bool Connection::HandleLarge(const Record& record) {
  if (record.flags != 0 || record.length <= link_.eager_max ||
      record.id <= last_arrival_[0] ||
      arrived_[kLargeArrivals] == link_.max_inflight) {
    return false;
  }
  last_arrival_[0] = record.id;
  if (closing_) return true;
  ++arrived_[kLargeArrivals];
  lanes_[record.tag].arrivals.push_back(
      {record.id, record.length, /*eager=*/false, /*urgent=*/false, {}});
  Match(record.tag);
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
  Send& send = it->second;
  const bool mismatch = record.flags == kMismatch;
  if (mismatch == (record.length == send.length) || send.answered) return false;
  if (!send.eager && (mismatch ? send.cleared : send.sent != send.length)) {
    return false;
  }
  send.answered = true;
  send.answer = record.length;
  answered_.push_back(record.id);
  Settle();
  return true;
}

void Connection::Settle() {
  while (!answered_.empty()) {
    const auto it = sends_.find(answered_.front());
    const Send& send = it->second;
    if (send.held != nullptr && send.held->load() != 0) {
      return link_.bulk->Watch();
    }
    CompleteAnswered(send);
    sends_.erase(it);
    answered_.pop_front();
  }
}

void Connection::OnReleased(Stream*) {
  Locked lock(shared_);
  Settle();
}

void Connection::Fin(uint64_t id, bool urgent, uint16_t flags,
                     uint64_t length) {
  Record record = NewRecord(RecordKind::kFin, id, length);
  record.flags = flags;
  Put(record, urgent);
}

void Connection::Match(uint64_t tag) {
  Lane& lane = lanes_[tag];
  while (!closing_ && lane.busy == 0 && !lane.arrivals.empty() &&
         !lane.recvs.empty()) {
    const Arrival arrival = std::move(lane.arrivals.front());
    const Recv recv = lane.recvs.front();
    lane.arrivals.pop_front();
    lane.recvs.pop_front();
    if (arrival.length == recv.length && !arrival.eager) {
      lane.busy = arrival.id;
      incoming_[arrival.id] = {tag, recv, /*got=*/0, /*dropped=*/false};
      Put(NewRecord(RecordKind::kClear, arrival.id), /*urgent=*/false);
      return;
    }
    Meet(tag, arrival, arrival.data, recv);
  }
  if (lane.busy == 0 && lane.arrivals.empty() && lane.recvs.empty() &&
      lanes_.size() > kKeptLanes) {
    lanes_.erase(tag);
  }
}

// A small message and its RECV, or two lengths that differ.
void Connection::Meet(uint64_t tag, const Arrival& arrival,
                      std::string_view data, const Recv& recv) {
  --arrived_[arrival.eager ? arrival.urgent : kLargeArrivals];
  const bool same = arrival.length == recv.length;
  if (same && recv.length != 0) {
    std::memcpy(recv.data, data.data(), recv.length);
  }
  Fin(arrival.id, arrival.urgent, same ? 0 : kMismatch, recv.length);
  CompleteRecv(tag, recv, arrival.urgent, same ? WEFT_OK : WEFT_INVALID,
               same ? "" : Lengths(arrival.length, recv.length));
}

// ---- Completing ------------------------------------------------------------

void Connection::Complete(uint32_t op_kind, uint64_t tag, uint64_t cookie,
                          uint64_t length, bool urgent, weft_code code,
                          const std::string& message) {
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
                              const std::string& message) {
  --(send.eager ? credits_[send.urgent] : large_sends_);
  if (code == WEFT_OK) {
    ++mailbox_->stats.sent_messages;
    mailbox_->stats.sent_bytes += send.length;
    if (send.eager) ++mailbox_->stats.eager_messages;
  }
  Complete(WEFT_TRANSPORT_SEND, send.tag, send.cookie, send.length, send.urgent,
           code, message);
}

void Connection::CompleteAnswered(const Send& send) {
  if (send.answer == send.length) {
    CompleteSend(send, WEFT_OK, "");
  } else {
    CompleteSend(send, WEFT_INVALID, Lengths(send.length, send.answer));
  }
}

void Connection::CompleteRecv(uint64_t tag, const Recv& recv, bool urgent,
                              weft_code code, const std::string& message) {
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
  if (ending_ || closed_here_ || peer_closed_) return;
  closed_here_ = true;
  BeginClosing();
  Pump();
}

void Connection::Abort() {
  if (ending_ || closed_here_ || peer_closed_) return;
  closed_here_ = true;
  BeginEnding("");
}

void Connection::Tick(uint64_t elapsed_ns) {
  if (ending_) return;
  silence_ns_ += elapsed_ns;
  if (silence_ns_ > timeout_ns_) {
    BeginEnding("nothing was heard of it for " +
                std::to_string(silence_ns_ / 1'000'000) + " ms");
    return;
  }
  beat_due_ = true;
  Pump();
}

void Connection::Nonsense() {
  BeginEnding("it wrote what makes no sense, and is cut off");
}

void Connection::BeginClosing() {
  closing_ = true;
  for (auto& [id, incoming] : incoming_) incoming.dropped = incoming.got == 0;
  active_.erase(
      std::remove_if(active_.begin(), active_.end(),
                     [this](uint64_t id) { return sends_.at(id).sent == 0; }),
      active_.end());
  Put(NewRecord(RecordKind::kClose, 0), /*urgent=*/false);
}

// Once nothing is left that was begun.
void Connection::SayFinal() {
  if (final_out_ || !active_.empty() || !urgent_.empty()) return;
  for (const auto& [id, incoming] : incoming_) {
    if (!incoming.dropped) return;
  }
  Put(NewRecord(RecordKind::kFinal, 0, chunks_out_), /*urgent=*/false);
  final_out_ = true;
}

// Should our kFinal be lost now, the peer has said its own: it knows of the
// end.
void Connection::EndIfFinal() {
  if (final_sent_ && final_in_ && chunks_in_ == final_chunks_) {
    BeginEnding("");
  }
}

void Connection::BeginEnding(const std::string& why) {
  if (std::exchange(ending_, true)) return;
  why_ = why;
  link_.control->Cancel();
  link_.bulk->Cancel();
}

void Connection::OnOver(Stream* stream, const std::string& why) {
  Locked lock(shared_);
  BeginEnding(why);
  if (++over_ == 2) Down();
}

void Connection::Down() {
  down_ = true;
  const weft_code code = DownCode();
  const std::string why = WhyDown();
  for (const auto& [id, send] : std::exchange(sends_, {})) {
    if (send.answered) {
      CompleteAnswered(send);
    } else {
      CompleteSend(send, code, why);
    }
  }
  for (const auto& [tag, lane] : std::exchange(lanes_, {})) {
    if (lane.busy != 0) {
      CompleteRecv(tag, incoming_.at(lane.busy).recv, false, code, why);
    }
    for (const Recv& recv : lane.recvs) {
      CompleteRecv(tag, recv, false, code, why);
    }
  }
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
  answered_.clear();
  urgent_.clear();
  usual_.clear();
}

}  // namespace weft_grpc
