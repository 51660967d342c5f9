// The two ends of a segment (layout.h): what one side writes and the other
// reads.
//
//   Producer out(geometry, MapSealed(fd, geometry.bytes()));
//   if (Record* next = out.Next()) ...        // fill it, Publish; null: full
//   if (char* chunk = out.NextChunk()) ...    // UseChunk, fill it, a record
//
//   Record record;
//   while (in.Take(&record)) ...              // a copy: check it, then use it
//
// Threading: one thread at a time for each end, two ends at once; Ready at any
// time.
#ifndef WEFT_TRANSPORT_SHM_RING_H_
#define WEFT_TRANSPORT_SHM_RING_H_

#include <cstring>

#include "transport/shm/layout.h"
#include "transport/shm/os.h"

namespace weft_shm {

class Producer {
 public:
  Producer(Geometry geometry, Mapping mapping)
      : geometry_(geometry), mapping_(std::move(mapping)) {}

  bool HasRoom() {
    if (written_ - read_ < kRecords) return true;
    read_ = Bounded(consumer().records_read, written_, read_);
    return written_ - read_ < kRecords;
  }
  // Where the next record is to be written: all but its stamp, and of `data`
  // what its kind has. Null where there is no room.
  Record* Next() {
    if (!HasRoom()) return nullptr;
    return mapping_.At<Record>(Geometry::records_at()) + written_ % kRecords;
  }
  // It is written.
  void Publish(Record* next) {
    ++written_;
    __atomic_store_n(&next->stamp, static_cast<uint32_t>(written_),
                     __ATOMIC_RELEASE);
  }
  // A copy of `record`; false where there is no room.
  bool Put(const Record& record) {
    Record* const next = Next();
    if (next == nullptr) return false;
    std::memcpy(next, &record, offsetof(Record, stamp));
    std::memcpy(&next->id, &record.id, sizeof(Record) - offsetof(Record, id));
    Publish(next);
    return true;
  }

  char* slot(uint32_t i) {
    return mapping_.base() + Geometry::slots_at() + i * geometry_.slot_bytes();
  }
  // Fetches the lines of a slot that the consumer has read, to be written soon:
  // while this side is at something else, not when it waits for them.
  void FetchToWrite(uint32_t i, uint64_t bytes) {
    const char* const at = slot(i);
    for (uint64_t b = 0; b < bytes; b += kLine) {
#if defined(__x86_64__)  // where the built-in fetches to read
      asm volatile("prefetchw %0" : : "m"(at[b]));
#else
      __builtin_prefetch(at + b, /*rw=*/1);
#endif
    }
  }
  // Where the next chunk goes; null where all of them are full.
  char* NextChunk() {
    if (chunks_ - chunks_read_ == kChunks) {
      chunks_read_ = Bounded(consumer().chunks_read, chunks_, chunks_read_);
      if (chunks_ - chunks_read_ == kChunks) return nullptr;
    }
    return mapping_.base() + geometry_.chunks_at() +
           (chunks_ % kChunks) * kChunkBytes;
  }
  // It is filled, and its record is put next of all that bring one.
  void UseChunk() { ++chunks_; }
  // The consumer rings once it has made room. Look once more after this.
  void Starve() {
    mapping_.At<ProducerLine>(0)->starved.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }

 private:
  const ConsumerLine& consumer() const {
    return *mapping_.At<ConsumerLine>(kLine);
  }
  // A counter of the peer: never above what was written, never back.
  static uint64_t Bounded(const std::atomic<uint64_t>& counter,
                          uint64_t written, uint64_t known) {
    const uint64_t read = counter.load(std::memory_order_acquire);
    return read <= written && read >= known ? read : known;
  }

  const Geometry geometry_;
  const Mapping mapping_;
  uint64_t written_ = 0, read_ = 0;
  uint64_t chunks_ = 0, chunks_read_ = 0;
};

class Consumer {
 public:
  Consumer(Geometry geometry, Mapping mapping)
      : geometry_(geometry), mapping_(std::move(mapping)) {}

  const Geometry& geometry() const { return geometry_; }

  // Whether Take would find a record.
  bool Ready() const { return Ready(read_.load(std::memory_order_acquire)); }
  bool Take(Record* record) {
    const uint64_t read = read_.load(std::memory_order_relaxed);
    if (!Ready(read)) return false;
    std::memcpy(record, At(read), sizeof(Record));
    read_.store(read + 1, std::memory_order_release);
    consumer().records_read.store(read + 1, std::memory_order_release);
    return true;
  }
  const char* slot(uint32_t i) const {
    return mapping_.base() + Geometry::slots_at() + i * geometry_.slot_bytes();
  }
  // The chunk that a kData record brought; DropChunk lets it go.
  const char* chunk() const {
    return mapping_.base() + geometry_.chunks_at() +
           (chunks_ % kChunks) * kChunkBytes;
  }
  void DropChunk() {
    consumer().chunks_read.store(++chunks_, std::memory_order_release);
  }
  // After what was taken: whether the producer waits for room.
  bool ProducerStarves() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    auto& starved = mapping_.At<ProducerLine>(0)->starved;
    return starved.load(std::memory_order_relaxed) != 0 &&
           starved.exchange(0) != 0;
  }

 private:
  ConsumerLine& consumer() const { return *mapping_.At<ConsumerLine>(kLine); }
  const Record* At(uint64_t i) const {
    return mapping_.At<Record>(Geometry::records_at()) + i % kRecords;
  }
  bool Ready(uint64_t read) const {
    return __atomic_load_n(&At(read)->stamp, __ATOMIC_ACQUIRE) ==
           static_cast<uint32_t>(read + 1);
  }

  const Geometry geometry_;
  const Mapping mapping_;
  std::atomic<uint64_t> read_{0};
  uint64_t chunks_ = 0;
};

}  // namespace weft_shm

#endif  // WEFT_TRANSPORT_SHM_RING_H_
