// What lies where in the memory that two ranks share.
//
// A segment has what one side of a connection, the *producer*, sends. The other
// side, the *consumer*, maps it too:
//
//   offset          bytes                written by
//        0             64                producer: `starved`
//       64             64                consumer: `records_read`,
//       `chunks_read`
//     4096   64 * kRecords                producer: ring of records
//       ..   2 * credits * slot           producer: slots of small SENDs
//       ..   kChunks * kChunkBytes        producer: ring of chunks
//
// One cache line has one writer. The consumer never writes but in its line, the
// producer never in that one, so neither waits for the other's stores.
//
// Records. Record i lies at i % kRecords. The producer writes all of it, and
// last, with release, its stamp: the low 32 bits of i + 1. The consumer reads
// the stamp with acquire; where it is that of the record that comes next, the
// rest is there too, and so is what the producer wrote before: the slot, the
// chunk, and any memory that peers map. A small message is thus one line from
// core to core. The stamp that a new one replaces is smaller by kRecords, and
// kRecords divides 2^32, so an old one is never taken for a new one.
//
// Room. The consumer counts what it has read in `records_read`, with release,
// after it has copied the record out; the producer reads it with acquire before
// it writes a record kRecords further. Chunks likewise, by `chunks_read`. Slots
// need no counter: a slot is a credit, free again with the record FIN.
//
// Full. A producer that finds no room writes `starved` = 1 and looks once more;
// a consumer that made room reads it. Both put a sequentially consistent fence
// between their write and their read, so one of them sees the other's: either
// the producer finds the room or the consumer rings its bell.
//
// Nothing in here is believed: see connection.cc.
#ifndef WEFT_TRANSPORT_SHM_LAYOUT_H_
#define WEFT_TRANSPORT_SHM_LAYOUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft_shm {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kLine = 64;
constexpr uint32_t kRecords = 1024;  // a power of two
constexpr uint32_t kChunks = 8;
constexpr uint64_t kChunkBytes = 64 << 10;
constexpr uint64_t kInline = 32;  // bytes of a message that fit in its record
constexpr uint64_t kMaxEager = 64 << 10;
constexpr uint32_t kMaxCredits = 4096;

// Of one message, by its `id`, which the producer counts up from 1.
enum class RecordKind : uint16_t {
  // tag, length, flags; data: the bytes, or the number of a slot. With it may
  // come a kFin: see WithFin.
  kEager = 1,
  kLarge,  // tag, length: a SEND that waits at its side
  kData,   // length: the next chunk of the message
  // Back, of a message of the consumer of those:
  kClear,  // a RECV of that length is there: send the chunks
  kFin,    // length of the RECV; flags: kMismatch, and no byte was taken
  // Of the connection:
  kClose,  // no new message from now on
  kFinal,  // nothing at all comes after this
};
constexpr uint16_t kUrgent = 1;    // of kEager
constexpr uint16_t kMismatch = 1;  // of kFin

struct Record {
  RecordKind kind;
  uint16_t flags;
  uint32_t stamp;
  uint64_t id;
  uint64_t tag;
  uint64_t length;
  unsigned char data[kInline];
};
static_assert(sizeof(Record) == kLine && offsetof(Record, stamp) == 4);

// A kEager's length, and in its high half the low one of the id of a message
// that met its RECV, as by a kFin: one line for both. 0: none.
constexpr uint64_t WithFin(uint64_t length, uint64_t id) {
  return length | id << 32;
}
static_assert(kMaxEager <= UINT32_MAX);
inline uint64_t EagerLength(const Record& record) {
  return static_cast<uint32_t>(record.length);
}
inline uint32_t EagerFin(const Record& record) {
  return static_cast<uint32_t>(record.length >> 32);
}

struct ProducerLine {
  alignas(kLine) std::atomic<uint32_t> starved;
};
struct ConsumerLine {
  alignas(kLine) std::atomic<uint64_t> records_read;
  std::atomic<uint64_t> chunks_read;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint32_t>::is_always_lock_free);

// The page of a bell; see bell.h. The peers write `rings`, the owner the rest.
struct BellPage {
  alignas(kLine) std::atomic<uint32_t> rings;
  alignas(kLine) std::atomic<uint32_t> sleepers;
  std::atomic<uint32_t> heavy;  // the owner's fences; written once, at first
};

// Sizes of a segment, as its producer's options say.
struct Geometry {
  uint64_t eager_max = 0;
  uint32_t credits = 0;

  bool Valid() const {
    return eager_max >= 1 && eager_max <= kMaxEager && credits >= 1 &&
           credits <= kMaxCredits;
  }
  uint64_t slot_bytes() const { return (eager_max + kLine - 1) & -kLine; }
  static constexpr uint64_t records_at() { return kPage; }
  static constexpr uint64_t slots_at() {
    return records_at() + kRecords * sizeof(Record);
  }
  uint64_t chunks_at() const {
    const uint64_t end = slots_at() + 2 * credits * slot_bytes();
    return (end + kPage - 1) & -kPage;
  }
  uint64_t bytes() const { return chunks_at() + kChunks * kChunkBytes; }
};

}  // namespace weft_shm

#endif  // WEFT_TRANSPORT_SHM_LAYOUT_H_
