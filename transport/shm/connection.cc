#include "transport/shm/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace weft_shm {
namespace {

using weft_transport::Limits;

// Of a slot, ahead of a SEND: what lies behind is fetched while this is
// written.
constexpr uint64_t kFetched = 4096;
// Records of one pass, so that the lock is let go now and then.
constexpr uint32_t kPass = 256;
// A pass that took fewer records, and no chunk, can't have made the room that a
// starving producer waits for: such a one has filled the ring, so that passes
// of kPass follow.
constexpr uint32_t kFewRecords = 64;
static_assert(kFewRecords <= kPass && 2 * kPass <= kRecords);

Limits LimitsOf(const Options& options) {
  return {options.eager_max, options.eager_credits, options.max_inflight};
}

Limits LimitsOf(const Connection::Link& link) {
  const Geometry& geometry = link.in->geometry();
  return {geometry.eager_max, geometry.credits, link.max_inflight};
}

}  // namespace

Connection::Connection(weft_endpoint ep, Link link, const Options& options,
                       uint64_t timeout_ns, Mailbox* mailbox)
    : Exchange(ep, link.rank, LimitsOf(options), LimitsOf(link), mailbox),
      link_(std::move(link)),
      options_(options),
      timeout_ns_(timeout_ns),
      mailbox_(mailbox) {
  for (uint32_t urgent : {0u, 1u}) {
    for (uint32_t i = 0; i < options_.eager_credits; ++i) {
      slots_[urgent].push_back(urgent * options_.eager_credits + i);
    }
  }
}

// ---- Posting ---------------------------------------------------------------

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

void Connection::SayMessage(uint64_t id, Send* send) {
  if (!send->eager) {
    return Put(RecordKind::kLarge, id, [&](Record* record) {
      record->tag = send->tag;
      record->length = send->length;
    });
  }
  if (send->length > kInline) {
    std::vector<uint32_t>& free = slots_[send->urgent];
    send->kept.number = free.back();  // as many as credits
    free.pop_back();
    std::memcpy(link_.out->slot(send->kept.number), send->data, send->length);
    written_ = send->length;
  }
  uint64_t fin = 0;
  if (!fins_.empty() && !fins_.front().mismatch) {
    fin = fins_.front().id;
    fins_.pop_front();
  }
  Put(RecordKind::kEager, id, [&](Record* record) {
    record->tag = send->tag;
    record->length = WithFin(send->length, fin);
    record->flags = send->urgent ? kUrgent : 0;
    if (send->length > kInline) {
      std::memcpy(record->data, &send->kept.number, sizeof(send->kept.number));
    } else if (send->length != 0) {
      std::memcpy(record->data, send->data, send->length);
    }
  });
}

void Connection::Forget(const Send& send) {
  if (send.kept.number != Slot::kNone) {
    slots_[send.urgent].push_back(send.kept.number);
  }
}

// ---- Writing ---------------------------------------------------------------

// Written where it lies: what is written in one size is not read in another,
// as a copy of it would.
template <typename Fill>
inline void Connection::Put(RecordKind kind, uint64_t id, const Fill& fill) {
  wrote_ = true;
  Record* const place = pending_.empty() ? Next() : nullptr;
  Record* const record = place != nullptr ? place : &pending_.grow_back();
  record->kind = kind;
  record->flags = 0;
  record->id = id;
  record->tag = record->length = 0;
  fill(record);
  if (place != nullptr) link_.out->Publish(place);
}

void Connection::Put(RecordKind kind, uint64_t id) {
  Put(kind, id, [](Record*) {});
}

inline Record* Connection::Next() {
  Record* place = link_.out->Next();
  if (place == nullptr) {
    link_.out->Starve();
    place = link_.out->Next();
  }
  return place;
}

void Connection::SayClear(uint64_t id) { Put(RecordKind::kClear, id); }

void Connection::SayFin(uint64_t id, bool /*urgent*/, bool mismatch,
                        uint64_t length) {
  // Behind those put off: SENDs complete in order.
  fins_.push_back({id, length, mismatch});
  if (!put_off_) PutFins();
}

void Connection::PutFins() {
  for (; !fins_.empty(); fins_.pop_front()) {
    const Fin& fin = fins_.front();
    Put(RecordKind::kFin, fin.id, [&](Record* record) {
      record->flags = fin.mismatch ? kMismatch : 0;
      record->length = fin.length;
    });
  }
}

void Connection::Copy(char* to, const char* from, uint64_t bytes, Lock* lock) {
  lock->unlock();
  std::memcpy(to, from, bytes);
  lock->lock();
}

// True where something is left for which there is no room.
bool Connection::FlushSome(Lock* lock) {
  while (!pending_.empty()) {
    if (!link_.out->Put(pending_.front())) return true;
    pending_.pop_front();
    wrote_ = true;
  }
  // Another thread that writes goes on with the rest.
  for (uint32_t i = 0;
       i < kChunks && copied_out_ == 0 && !active().empty() && !down_due_;
       ++i) {
    char* chunk = link_.out->HasRoom() ? link_.out->NextChunk() : nullptr;
    if (chunk == nullptr) return true;
    WriteChunk(chunk, lock);
  }
  return copied_out_ == 0 && !active().empty();
}

void Connection::WriteChunk(char* chunk, Lock* lock) {
  const uint64_t id = active().front();
  Send& from = send(id);
  const uint64_t bytes = std::min(kChunkBytes, from.length - from.sent);
  const char* data = from.data + from.sent;
  from.sent += bytes;  // it has begun
  const bool last = from.sent == from.length;
  link_.out->UseChunk();
  copied_out_ = id;
  Copy(chunk, data, bytes, lock);
  copied_out_ = 0;
  if (last) active().pop_front();
  Put(RecordKind::kData, id, [&](Record* record) { record->length = bytes; });
  Settle();
}

void Connection::Flush(Lock* lock) {
  if (!FlushSome(lock)) return;
  link_.out->Starve();
  FlushSome(lock);
}

void Connection::Ring() {
  if (!down_ && std::exchange(wrote_, false)) link_.bell->Ring();
}

// ---- Reading ---------------------------------------------------------------

bool Connection::Progress(Lock* lock, bool soon) {
  if (down_) return false;
  PutFins();
  uint32_t taken = 0;
  bool chunks = false;
  if (!copies_in_) {
    if (!TakeDueFin()) {
      Nonsense();
      return true;
    }
    put_off_ = soon && !closing();
    Record record;
    // Of a peer that has ended, all that it wrote.
    while (taken < (down_due_ ? kRecords : kPass) && link_.in->Take(&record)) {
      ++taken;
      chunks = chunks || record.kind == RecordKind::kData;
      if (final_in_ || !Handle(record, lock)) {
        Nonsense();
        return true;
      }
    }
    put_off_ = false;
  }
  bool any = taken != 0;
  if (any && closing()) deadline_ = NowNs() + timeout_ns_;
  Flush(lock);
  if (closing()) SayFinal();
  const bool may_starve = taken >= kFewRecords || chunks;
  if (may_starve && link_.in->ProducerStarves()) wrote_ = true;
  any = any || wrote_;
  Ring();
  if (down_due_ || (final_out_ && final_in_)) Down();
  return any;
}

bool Connection::Handle(const Record& record, Lock* lock) {
  switch (record.kind) {
    case RecordKind::kEager:
      return HandleEager(record);
    case RecordKind::kLarge:
      return record.flags == 0 &&
             TakeLarge(record.id, record.tag, record.length);
    case RecordKind::kData:
      return HandleData(record, lock);
    case RecordKind::kClear:
      return TakeClear(record.id);
    case RecordKind::kFin:
      return (record.flags & ~kMismatch) == 0 && TakeDueFin() &&
             TakeFin(record.id, record.flags == kMismatch, record.length);
    case RecordKind::kClose:
      TakeClose();
      return true;
    case RecordKind::kFinal:
      final_in_ = true;
      return peer_closed();
  }
  return false;
}

bool Connection::HandleEager(const Record& record) {
  const Geometry& geometry = link_.in->geometry();
  const uint64_t length = EagerLength(record);
  if ((record.flags & ~kUrgent) != 0 || length > geometry.eager_max) {
    return false;
  }
  const char* bytes = reinterpret_cast<const char*>(record.data);
  if (length > kInline) {
    uint32_t slot;
    std::memcpy(&slot, record.data, sizeof(slot));
    if (slot >= 2 * geometry.credits) return false;
    bytes = link_.in->slot(slot);
  }
  if (!TakeDueFin() || !TakeEager(record.id, record.tag,
                                  record.flags == kUrgent, {bytes, length})) {
    return false;
  }
  // What is short is often answered at once. The host has it a little sooner
  // where the answer to its own message waits for the next Progress, for which
  // it asks after any event.
  due_fin_ = EagerFin(record);
  const bool later = put_off_ && length <= kInline && !mailbox_->empty();
  if (!later && !TakeDueFin()) return false;
  // Who is sent something answers, perhaps, with the like of what it sent last.
  const uint64_t next = std::min(std::exchange(written_, 0), kFetched);
  if (next != 0 && !slots_[0].empty()) {
    link_.out->FetchToWrite(slots_[0].back(), next);
  }
  return true;
}

bool Connection::TakeDueFin() {
  const uint32_t fin = std::exchange(due_fin_, 0);
  return fin == 0 || TakeFinOf(fin);
}

bool Connection::HandleData(const Record& record, Lock* lock) {
  char* to = nullptr;
  if (record.length > kChunkBytes ||
      !BeginChunk(record.id, record.length, &to)) {
    return false;
  }
  if (to != nullptr) {
    copies_in_ = true;
    Copy(to, link_.in->chunk(), record.length, lock);
    copies_in_ = false;
  }
  link_.in->DropChunk();
  EndChunk(record.id);
  return true;
}

// ---- The end ---------------------------------------------------------------

void Connection::Close(Lock* lock) {
  if (BeginClose()) Progress(lock);
}

void Connection::Abort() {
  if (BeginAbort()) Down();
}

void Connection::HungUp(Lock* lock) {
  // As much as the rings can hold, and no more if the peer goes on.
  for (uint32_t i = 0; i <= kRecords / kPass && Progress(lock); ++i) {
  }
  Down();
}

void Connection::SayClose() {
  put_off_ = false;
  PutFins();
  deadline_ = NowNs() + timeout_ns_;
  Put(RecordKind::kClose, 0);
}

void Connection::SayFinal() {
  if (final_out_ || !Finished() || !pending_.empty()) return;
  if (Next() == nullptr) return;
  Put(RecordKind::kFinal, 0);
  final_out_ = true;
}

void Connection::Down() {
  if (down_) return;
  Lose("");
  if (copies_in_ || copied_out_ != 0) {
    down_due_ = true;  // who copies sees to it
    return;
  }
  down_ = true;
  deadline_ = UINT64_MAX;
  TakeDueFin();
  CompleteAll();
  fins_.clear();
  pending_.clear();
  if (std::exchange(wrote_, false)) link_.bell->Ring();
  // First for a thread that waits on it, which keeps it open meanwhile.
  shutdown(link_.socket.get(), SHUT_RDWR);
  link_.socket = Fd();
  link_.process = Fd();
  link_.out.reset();
  link_.bell.reset();
}

}  // namespace weft_shm
