// Attributes of an op: typed, ordered by name (so that text, hashes and plans
// are the same in every process).
//
//   AttrMap attrs = {{"axis", 1}, {"perm", std::vector<int64_t>{1, 0}}};
//   attrs.Find("axis");   // const Attr*, null where absent
//
// Threading: thread-compatible value types.
#ifndef WEFT_CORE_OPS_ATTR_H_
#define WEFT_CORE_OPS_ATTR_H_

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/types/literal.h"

namespace weft {

enum class AttrKind : uint32_t {
  kInt = 0,
  kFloat = 1,
  kString = 2,
  kInts = 3,
  kFloats = 4,
  kStrings = 5,
  kDType = 6,
  kTensor = 7,
};

// The variant's index is the AttrKind.
class Attr {
 public:
  Attr() : value_(int64_t{0}) {}
  Attr(int v) : value_(int64_t{v}) {}                         // NOLINT
  Attr(int64_t v) : value_(v) {}                              // NOLINT
  Attr(double v) : value_(v) {}                               // NOLINT
  Attr(const char* v) : value_(std::string(v)) {}             // NOLINT
  Attr(std::string v) : value_(std::move(v)) {}               // NOLINT
  Attr(std::vector<int64_t> v) : value_(std::move(v)) {}      // NOLINT
  Attr(std::vector<double> v) : value_(std::move(v)) {}       // NOLINT
  Attr(std::vector<std::string> v) : value_(std::move(v)) {}  // NOLINT
  Attr(DType v) : value_(v) {}                                // NOLINT
  Attr(Literal v) : value_(std::move(v)) {}                   // NOLINT

  AttrKind kind() const { return static_cast<AttrKind>(value_.index()); }

  // Pre-condition: kind() fits.
  int64_t i() const { return std::get<int64_t>(value_); }
  double f() const { return std::get<double>(value_); }
  const std::string& s() const { return std::get<std::string>(value_); }
  const std::vector<int64_t>& ints() const {
    return std::get<std::vector<int64_t>>(value_);
  }
  const std::vector<double>& floats() const {
    return std::get<std::vector<double>>(value_);
  }
  const std::vector<std::string>& strings() const {
    return std::get<std::vector<std::string>>(value_);
  }
  DType dtype() const { return std::get<DType>(value_); }
  const Literal& tensor() const { return std::get<Literal>(value_); }

  friend bool operator==(const Attr& a, const Attr& b) {
    return a.value_ == b.value_;
  }
  friend bool operator!=(const Attr& a, const Attr& b) { return !(a == b); }

 private:
  std::variant<int64_t, double, std::string, std::vector<int64_t>,
               std::vector<double>, std::vector<std::string>, DType, Literal>
      value_;
};

class AttrMap {
 public:
  using Map = std::map<std::string, Attr, std::less<>>;

  AttrMap() = default;
  AttrMap(std::initializer_list<Map::value_type> items) : map_(items) {}

  const Attr* Find(absl::string_view name) const {
    auto it = map_.find(name);
    return it == map_.end() ? nullptr : &it->second;
  }
  void Set(absl::string_view name, Attr value) {
    map_[std::string(name)] = std::move(value);
  }
  void Erase(absl::string_view name) { map_.erase(std::string(name)); }

  Map::const_iterator begin() const { return map_.begin(); }
  Map::const_iterator end() const { return map_.end(); }
  size_t size() const { return map_.size(); }
  bool empty() const { return map_.empty(); }

  friend bool operator==(const AttrMap& a, const AttrMap& b) {
    return a.map_ == b.map_;
  }

 private:
  Map map_;
};

// {{"axis", 1}} prints as `axis: 1`; the graph text's own syntax.
std::string ToString(const Attr& attr);

}  // namespace weft

#endif  // WEFT_CORE_OPS_ATTR_H_
