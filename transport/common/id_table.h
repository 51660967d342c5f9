// What is under way, by ids that count up; to find one is no search.
//
//   IdTable<Send> sends;
//   const uint64_t id = sends.Add(send);       // above all ids before
//   if (Send* send = sends.Find(id)) ...       // an id of a peer may be any
//   sends.Remove(id);
//   for (auto& [id, send] : sends.TakeAll()) ...   // in the order of Add
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
  // No id has 0 as its low half.
  uint64_t Add(T value) {
    if (2 * size_ >= entries_.size()) Grow();
    ++size_;
    do {
      ++last_;
    } while (At(last_).first != 0 || static_cast<uint32_t>(last_) == 0);
    At(last_) = {last_, std::move(value)};
    return last_;
  }

  // Null where it is not there.
  T* Find(uint64_t id) {
    if (id == 0 || entries_.empty() || At(id).first != id) return nullptr;
    return &At(id).second;
  }
  // The whole of an id of which this is the low half; 0 where none is there.
  uint64_t Whole(uint32_t low) const {
    if (low == 0 || entries_.empty()) return 0;
    const uint64_t id = entries_[low & (entries_.size() - 1)].first;
    return static_cast<uint32_t>(id) == low ? id : 0;
  }

  // Pre-condition: it is there.
  void Remove(uint64_t id) {
    At(id) = {};
    --size_;
  }

  std::vector<std::pair<uint64_t, T>> TakeAll() {
    auto all = std::exchange(entries_, {});
    size_ = 0;
    all.erase(
        std::remove_if(all.begin(), all.end(),
                       [](const auto& entry) { return entry.first == 0; }),
        all.end());
    std::sort(all.begin(), all.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    return all;
  }

 private:
  std::pair<uint64_t, T>& At(uint64_t id) {
    return entries_[id & (entries_.size() - 1)];
  }

  void Grow() {
    const size_t room = std::max<size_t>(16, 2 * entries_.size());
    auto old =
        std::exchange(entries_, std::vector<std::pair<uint64_t, T>>(room));
    for (auto& entry : old) {
      if (entry.first != 0) At(entry.first) = std::move(entry);
    }
  }

  std::vector<std::pair<uint64_t, T>> entries_;  // id 0: none
  size_t size_ = 0;
  uint64_t last_ = 0;
};

}  // namespace weft_transport

#endif  // WEFT_TRANSPORT_COMMON_ID_TABLE_H_
