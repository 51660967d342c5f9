// A map from numbers to values that stay where they are, quick for the few that
// are looked up again and again: the lanes of a connection, by tag.
//
//   NearMap<Lane> lanes;
//   Lane& lane = lanes.at(tag);  // made where there is none
//   lanes.erase(tag);
//
// Threading: thread-compatible. Neither copied nor moved.
#ifndef WEFT_PLUGINS_SDK_WEFT_NEAR_MAP_HPP_
#define WEFT_PLUGINS_SDK_WEFT_NEAR_MAP_HPP_

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace weft_sdk {

template <typename T>
class NearMap {
 public:
  NearMap() = default;
  // What was looked up before is in this map's own memory.
  NearMap(const NearMap&) = delete;
  NearMap& operator=(const NearMap&) = delete;

  T& at(uint64_t key) {
    Near& near = near_[key % near_.size()];
    if (near.value == nullptr || near.key != key) near = {key, &map_[key]};
    return *near.value;
  }
  void erase(uint64_t key) {
    map_.erase(key);
    near_.fill({});
  }
  void clear() {
    map_.clear();
    near_.fill({});
  }
  size_t size() const { return map_.size(); }
  auto begin() { return map_.begin(); }
  auto end() { return map_.end(); }

 private:
  struct Near {
    uint64_t key = 0;
    T* value = nullptr;
  };
  std::unordered_map<uint64_t, T> map_;
  std::array<Near, 16> near_{};  // looked up before
};

}  // namespace weft_sdk

#endif  // WEFT_PLUGINS_SDK_WEFT_NEAR_MAP_HPP_
