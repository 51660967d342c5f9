#include "transport/grpc/connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft_grpc {
namespace {

constexpr uint64_t kChunkBytes = 1 << 20;
// Records that go out in one message, about.
constexpr size_t kBatchBytes = 64 << 10;

Record NewRecord(RecordKind kind, uint64_t id, uint64_t length = 0) {
  Record record;
  record.kind = kind;
  record.id = id;
  record.length = length;
  return record;
}

weft_transport::Limits LimitsOf(const Options& options) {
  return {options.eager_max, options.eager_credits, options.max_inflight};
}

}  // namespace

Connection::Connection(weft_endpoint ep, Link link, const Options& options,
                       uint64_t timeout_ns, Shared* shared)
    : Exchange(ep, link.rank, LimitsOf(options), link.peer, &shared->mailbox),
      link_(std::move(link)),
      timeout_ns_(timeout_ns),
      shared_(shared) {
  link_.control->set_user(this);
  link_.bulk->set_user(this);
  beat_due_ = true;  // so that the connector sees that it is let in
  Pump();
}

// ---- Posting ---------------------------------------------------------------

weft_code Connection::Post(const weft_transport_op& op, weft_status* status) {
  if (DownCode() != WEFT_OK) {
    return weft_sdk::Fail(status, DownCode(), WhyDown());
  }
  const weft_code code = op.kind == WEFT_TRANSPORT_SEND ? PostSend(op, status)
                                                        : PostRecv(op, status);
  Pump();
  return code;
}

void Connection::SayMessage(uint64_t id, Send* send) {
  Record record = NewRecord(
      send->eager ? RecordKind::kEager : RecordKind::kLarge, id, send->length);
  record.tag = send->tag;
  if (send->urgent) record.flags = kUrgent;
  if (!send->eager) send->kept = std::make_unique<std::atomic<uint32_t>>(0);
  Put(record, send->urgent,
      send->eager ? std::string_view(send->data, send->length)
                  : std::string_view());
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
  if (lost()) return;
  PumpBulk();
  if (closing()) SayFinal();
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
  if (active().empty() || !link_.bulk->writable()) return;
  const uint64_t id = active().front();
  active().pop_front();
  Send& from = send(id);
  const uint64_t bytes = std::min(kChunkBytes, from.length - from.sent);
  link_.bulk->Write(EncodeChunkHead(id), from.data + from.sent, bytes,
                    from.kept.get());
  ++chunks_out_;
  from.sent += bytes;
  if (from.sent != from.length) active().push_back(id);
}

void Connection::SayClear(uint64_t id) {
  Put(NewRecord(RecordKind::kClear, id), /*urgent=*/false);
}

void Connection::SayFin(uint64_t id, bool urgent, bool mismatch,
                        uint64_t length) {
  Record record = NewRecord(RecordKind::kFin, id, length);
  if (mismatch) record.flags = kMismatch;
  Put(record, urgent);
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
  while (!rest.empty() && !lost()) {
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
    if (lost()) return;
    if (message.size() <= kChunkHead) return Nonsense();
    char head[kChunkHead];
    message.Copy(0, kChunkHead, head);
    id = DecodeChunkHead({head, kChunkHead});
    if (bytes > kChunkBytes || !BeginChunk(id, bytes, &to)) return Nonsense();
  }
  // The RECV stays: it completes on this thread only.
  if (to != nullptr) message.Copy(kChunkHead, bytes, to);
  Locked lock(shared_);
  if (lost()) return;
  ++chunks_in_;
  EndChunk(id);
  EndIfFinal();
  Pump();
}

bool Connection::Handle(const Record& record, std::string_view* rest) {
  if (final_in_ && record.kind != RecordKind::kBeat) return false;
  switch (record.kind) {
    case RecordKind::kEager:
      return HandleEager(record, rest);
    case RecordKind::kLarge:
      return record.flags == 0 &&
             TakeLarge(record.id, record.tag, record.length);
    case RecordKind::kClear:
      return TakeClear(record.id);
    case RecordKind::kFin:
      if ((record.flags & ~kMismatch) != 0 ||
          !TakeFin(record.id, record.flags == kMismatch, record.length)) {
        return false;
      }
      SettleAll();
      return true;
    case RecordKind::kClose:
      TakeClose();
      return true;
    case RecordKind::kFinal:
      final_in_ = true;
      final_chunks_ = record.length;
      return peer_closed();
    case RecordKind::kBeat:
      return true;
  }
  return false;
}

bool Connection::HandleEager(const Record& record, std::string_view* rest) {
  if ((record.flags & ~kUrgent) != 0 || record.length > rest->size()) {
    return false;
  }
  const std::string_view data = rest->substr(0, record.length);
  rest->remove_prefix(record.length);
  return TakeEager(record.id, record.tag, record.flags == kUrgent, data);
}

void Connection::SettleAll() {
  if (Settle()) link_.bulk->Watch();
}

void Connection::OnReleased(Stream*) {
  Locked lock(shared_);
  SettleAll();
}

// ---- The end ---------------------------------------------------------------

void Connection::Close() {
  if (BeginClose()) Pump();
}

void Connection::Abort() {
  if (BeginAbort()) BeginEnding("");
}

void Connection::Tick(uint64_t elapsed_ns) {
  if (lost()) return;
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

void Connection::SayClose() {
  Put(NewRecord(RecordKind::kClose, 0), /*urgent=*/false);
}

// Once nothing is left that was begun.
void Connection::SayFinal() {
  if (final_out_ || !Finished() || !urgent_.empty()) return;
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
  if (lost()) return;
  Lose(why);
  link_.control->Cancel();
  link_.bulk->Cancel();
}

void Connection::OnOver(Stream* stream, const std::string& why) {
  Locked lock(shared_);
  BeginEnding(why);
  if (++over_ != 2) return;
  down_ = true;
  CompleteAll();
  urgent_.clear();
  usual_.clear();
}

}  // namespace weft_grpc
