// What travels, as bytes. Integers are little-endian.
//
// Frames, one a message, until there is a connection:
//
//   connector                           listener
//   control: kHello: nonce, token ---->  the token of the address?
//            <--- kChallenge: nonce, proof
//            kProof: proof ----------->  the secret? the hello?
//            <--- kWelcome: token        or kRefuse, and the end
//   bulk:    kAttach: token ---------->  or kRefuse on the other stream
//            <--- the first record
//
// A frame has the same form in all versions of the plugin, so that they can
// refuse each other. None begins like a record.
//
// After that the control stream carries records, several in a message:
//
//   kEager  tag, length, flags, the bytes    kClose  no new message from now on
//   kLarge  tag, length: waits at its side   kFinal  length: chunks sent ever
//   kClear  send the chunks of `id`          kBeat   somebody is there
//   kFin    length of the RECV of `id`; kMismatch: no byte was taken
//
// and the bulk stream one chunk in a message: its id, then its bytes.
//
// Threading: free functions over values.
#ifndef WEFT_TRANSPORT_GRPC_WIRE_H_
#define WEFT_TRANSPORT_GRPC_WIRE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plugins/sdk/weft_hello.hpp"

namespace weft_grpc {

constexpr uint32_t kWireVersion = 1;
// What the certificate of a rank is for, as core/base/certificates.h has it.
inline std::string RankName(uint32_t rank) {
  return "rank-" + std::to_string(rank) + ".weft";
}

constexpr uint64_t kMaxEager = 64 << 10;
constexpr uint32_t kMaxCredits = 4096;

enum class FrameKind : uint32_t {
  kHello = 1,
  kChallenge,
  kProof,
  kWelcome,
  kAttach,
  kRefuse,
};

struct Frame {
  FrameKind kind = FrameKind::kHello;
  weft_sdk::Hello hello;
  uint64_t eager_max = 0;
  uint32_t credits = 0;
  uint32_t max_inflight = 0;
  uint32_t expected = 0;      // kHello: the rank that should be there
  std::string token;          // kHello: of the address; kWelcome, kAttach
  std::string nonce;          // kHello, kChallenge
  std::string proof;          // kChallenge, kProof
  weft_sdk::Refusal refusal;  // kRefuse
};

// The most bytes of a frame.
constexpr size_t kMaxFrame = 4096;

std::string EncodeFrame(const Frame& frame);
// Nothing where it is no frame.
std::optional<Frame> DecodeFrame(std::string_view bytes);

enum class RecordKind : uint16_t {
  kEager = 1,
  kLarge,
  kClear,
  kFin,
  kClose,
  kFinal,
  kBeat,
};
constexpr uint16_t kUrgent = 1;    // of kEager
constexpr uint16_t kMismatch = 1;  // of kFin

struct Record {
  RecordKind kind = RecordKind::kBeat;
  uint16_t flags = 0;
  uint64_t id = 0;
  uint64_t tag = 0;
  uint64_t length = 0;
};
constexpr size_t kRecordBytes = 32;
constexpr size_t kChunkHead = 16;

void AppendRecord(const Record& record, std::string* to);
// Takes the first one off; nothing where there is none.
std::optional<Record> TakeRecord(std::string_view* bytes);

std::string EncodeChunkHead(uint64_t id);
// Pre-condition: kChunkHead bytes.
uint64_t DecodeChunkHead(std::string_view bytes);

}  // namespace weft_grpc

#endif  // WEFT_TRANSPORT_GRPC_WIRE_H_
