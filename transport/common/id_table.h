// What is under way, by ids that count up; to find one is no search.
//
//   IdTable<Send> sends;
//   auto& entry = sends.Add();                 // entry.id: above all before
//   entry.value = ...
//   if (Send* send = sends.Find(id)) ...       // an id of a peer may be any
//   sends.Remove(id);
//   for (auto& entry : sends.TakeAll()) ...    // in the order of Add
//
// An id lies at its low bits; one whose place is taken is left out. So ids
// count up by one where not much is under way, and nothing is allocated where
// as much comes as goes. Pointers hold until the next Add.
//
// Threading: thread-compatible.
#ifndef WEFT_TRANSPORT_COMMON_ID_TABLE_H_
#define WEFT_TRANSPORT_COMMON_ID_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace weft_transport {

template <typename T>
class IdTable {
 public:
  struct Entry {
    uint64_t id = 0;  // 0: none
    T value{};
  };

  // To be filled in; it is as Remove has left another one. No id has 0 as its
  // low half.
  Entry& Add() {
    if (2 * size_ >= room_) Grow();
    ++size_;
    do {
      ++last_;
    } while (At(last_).id != 0 || static_cast<uint32_t>(last_) == 0);
    At(last_).id = last_;
    return At(last_);
  }

  // Null where it is not there.
  T* Find(uint64_t id) {
    if (id == 0 || room_ == 0 || At(id).id != id) return nullptr;
    return &At(id).value;
  }
  // The whole of an id of which this is the low half; 0 where none is there.
  uint64_t Whole(uint32_t low) {
    if (low == 0 || room_ == 0) return 0;
    const uint64_t id = At(low).id;
    return static_cast<uint32_t>(id) == low ? id : 0;
  }

  // Pre-condition: it is there.
  void Remove(uint64_t id) {
    At(id).id = 0;
    --size_;
  }

  // In the order of Add.
  std::vector<Entry> TakeAll() {
    auto all = std::exchange(entries_, {});
    size_ = room_ = 0;
    all.erase(std::remove_if(all.begin(), all.end(),
                             [](const Entry& entry) { return entry.id == 0; }),
              all.end());
    std::sort(all.begin(), all.end(),
              [](const Entry& a, const Entry& b) { return a.id < b.id; });
    return all;
  }

 private:
  Entry& At(uint64_t id) { return entries_[id & (room_ - 1)]; }

  void Grow() {
    auto old = std::move(entries_);
    room_ = std::max<size_t>(16, 2 * old.size());
    entries_ = std::vector<Entry>(room_);
    for (Entry& entry : old) {
      if (entry.id != 0) At(entry.id) = std::move(entry);
    }
  }

  std::vector<Entry> entries_;
  size_t room_ = 0;  // their number, a power of two
  size_t size_ = 0;
  uint64_t last_ = 0;
};

}  // namespace weft_transport

#endif  // WEFT_TRANSPORT_COMMON_ID_TABLE_H_
