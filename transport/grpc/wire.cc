#include "transport/grpc/wire.h"

#include <algorithm>

namespace weft_grpc {
namespace {

constexpr uint32_t kMagic = 0x70726777;  // "wgrp"
constexpr size_t kMaxText = 256;

template <typename T>
void Append(T value, std::string* to) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    to->push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
  }
}

void AppendText(std::string_view text, std::string* to) {
  text = text.substr(0, kMaxText);
  Append(static_cast<uint32_t>(text.size()), to);
  to->append(text);
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  // All that was asked for was there, and no more.
  bool whole() const { return good_ && bytes_.empty(); }

  template <typename T>
  void Take(T* value) {
    uint64_t read = 0;
    const std::string_view bytes = Next(sizeof(T));
    for (size_t i = 0; i < bytes.size(); ++i) {
      read |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    *value = static_cast<T>(read);
  }
  void TakeText(std::string* text) {
    uint32_t size;
    Take(&size);
    good_ = good_ && size <= kMaxText;
    *text = std::string(Next(size));
  }

 private:
  std::string_view Next(size_t size) {
    good_ = good_ && size <= bytes_.size();
    if (!good_) return {};
    const std::string_view next = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return next;
  }

  std::string_view bytes_;
  bool good_ = true;
};

}  // namespace

std::string EncodeFrame(const Frame& frame) {
  std::string out;
  Append(kMagic, &out);
  Append(static_cast<uint32_t>(frame.kind), &out);
  Append(frame.hello.plugin_version, &out);
  Append(frame.hello.wire_version, &out);
  Append(frame.hello.rank, &out);
  Append(frame.hello.world, &out);
  Append(frame.hello.epoch, &out);
  Append(frame.hello.incarnation, &out);
  Append(frame.hello.plan_hash, &out);
  AppendText(frame.hello.job, &out);
  Append(frame.eager_max, &out);
  Append(frame.credits, &out);
  Append(frame.max_inflight, &out);
  Append(frame.expected, &out);
  AppendText(frame.token, &out);
  AppendText(frame.nonce, &out);
  AppendText(frame.proof, &out);
  Append(frame.refusal.reason, &out);
  AppendText(frame.refusal.message, &out);
  return out;
}

std::optional<Frame> DecodeFrame(std::string_view bytes) {
  Reader in(bytes);
  uint32_t magic, kind;
  Frame frame;
  in.Take(&magic);
  in.Take(&kind);
  in.Take(&frame.hello.plugin_version);
  in.Take(&frame.hello.wire_version);
  in.Take(&frame.hello.rank);
  in.Take(&frame.hello.world);
  in.Take(&frame.hello.epoch);
  in.Take(&frame.hello.incarnation);
  in.Take(&frame.hello.plan_hash);
  in.TakeText(&frame.hello.job);
  in.Take(&frame.eager_max);
  in.Take(&frame.credits);
  in.Take(&frame.max_inflight);
  in.Take(&frame.expected);
  in.TakeText(&frame.token);
  in.TakeText(&frame.nonce);
  in.TakeText(&frame.proof);
  in.Take(&frame.refusal.reason);
  in.TakeText(&frame.refusal.message);
  if (!in.whole() || magic != kMagic || kind < 1 ||
      kind > static_cast<uint32_t>(FrameKind::kRefuse) ||
      frame.refusal.reason > WEFT_REFUSED_PLAN ||
      frame.hello.job.size() > weft_sdk::DomainConfig::kMaxJob) {
    return std::nullopt;
  }
  frame.kind = static_cast<FrameKind>(kind);
  return frame;
}

void AppendRecord(const Record& record, std::string* to) {
  Append(static_cast<uint16_t>(record.kind), to);
  Append(record.flags, to);
  Append(uint32_t{0}, to);
  Append(record.id, to);
  Append(record.tag, to);
  Append(record.length, to);
}

std::optional<Record> TakeRecord(std::string_view* bytes) {
  if (bytes->size() < kRecordBytes) return std::nullopt;
  Reader in(bytes->substr(0, kRecordBytes));
  bytes->remove_prefix(kRecordBytes);
  uint16_t kind;
  uint32_t unused;
  Record record;
  in.Take(&kind);
  in.Take(&record.flags);
  in.Take(&unused);
  in.Take(&record.id);
  in.Take(&record.tag);
  in.Take(&record.length);
  if (unused != 0) return std::nullopt;
  record.kind = static_cast<RecordKind>(kind);
  return record;
}

std::string EncodeChunkHead(uint64_t id) {
  std::string head;
  Append(id, &head);
  Append(uint64_t{0}, &head);
  return head;
}

uint64_t DecodeChunkHead(std::string_view bytes) {
  Reader in(bytes);
  uint64_t id;
  in.Take(&id);
  return id;
}

}  // namespace weft_grpc
