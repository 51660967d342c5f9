// Frame: what ranks tell each other besides data, 32 bytes; and small values,
// several together. Both sides know the plan, so a frame is a few numbers; it
// is checked before it is used, and one that does not fit is an error that
// names the peer.
//
//   Frame frame = SealFrame(
//       {Frame::kCredit, copy, count, channel, sequence, epoch});
//
// Threading: plain values.
#ifndef WEFT_RUNTIME_WIRE_FRAME_H_
#define WEFT_RUNTIME_WIRE_FRAME_H_

#include <cstdint>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "core/base/crc32c.h"

namespace weft::runtime {

struct Frame {
  // `count` receives are posted: the peer may send into them.
  static constexpr uint32_t kCredit = 1;
  // `count` values follow, in a ValueFrame.
  static constexpr uint32_t kValues = 2;

  uint32_t kind = 0;
  uint16_t copy = 0;  // of the first; kValues: bytes of each
  uint16_t count = 0;
  uint64_t channel = 0;   // Channel.id
  uint64_t sequence = 0;  // the act of the first, for traces
  uint32_t epoch = 0;     // of the job, its low bits
  uint32_t crc = 0;       // of all that comes before
};
static_assert(sizeof(Frame) == 32, "the same on every machine");
static_assert(std::is_trivially_copyable_v<Frame>, "sent as it is");

inline uint32_t FrameCrc(const Frame& frame) {
  return Crc32c({reinterpret_cast<const char*>(&frame),
                 sizeof(Frame) - sizeof(frame.crc)});
}

inline Frame SealFrame(Frame frame) {
  frame.crc = FrameCrc(frame);
  return frame;
}

// Small values of one channel that go together, one after another.
struct ValueFrame {
  static constexpr uint32_t kBytes = 192;

  Frame head;  // its crc is of the values, too
  char bytes[kBytes] = {};
};
static_assert(sizeof(ValueFrame) == 224, "the same on every machine");
static_assert(std::is_trivially_copyable_v<ValueFrame>, "sent as it is");

// Pre-condition: `used` <= kBytes.
inline uint32_t ValueFrameCrc(const ValueFrame& frame, uint64_t used) {
  return FrameCrc(frame.head) ^ Crc32c({frame.bytes, used});
}

// Tags that are no channel's.
inline constexpr uint64_t kFrameTag = 0;
inline constexpr uint64_t kAbortTag = 1;
inline constexpr uint64_t kValueTag = 2;
inline constexpr uint64_t kLastTag = kValueTag;

// The last words of a rank.
struct LastWords {
  uint32_t code = 0;  // ErrorCode
  uint32_t size = 0;  // of `text`
  char text[504] = {};
};
static_assert(sizeof(LastWords) == 512, "the same on every machine");

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_WIRE_FRAME_H_
