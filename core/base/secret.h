// Secret: bytes that no core file of this process has.
//
//   Secret key = Secret::Of("...");
//   Secret note = Secret::Join({address, "\n", key.view()});
//   Secret read = Secret::Fill(most, [&](char* to) { ... return size; });
//   Use(key.view());
//
// They lie in pages of their own, which the kernel leaves out of core files
// (MADV_DONTDUMP) and which are wiped when the last copy goes. So there is no
// way to a std::string: who needs one makes a copy that everybody finds. A key
// for a library that keeps its own copy is derived for that library alone
// (runtime/rendezvous/proof.h).
//
// Not for many small things: each is a page. Swap is not kept from it.
//
// Threading: as std::shared_ptr<const T>. Ownership: copies share the bytes.
#ifndef WEFT_CORE_BASE_SECRET_H_
#define WEFT_CORE_BASE_SECRET_H_

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>

#include "absl/strings/string_view.h"

namespace weft {

class Secret {
 public:
  Secret() = default;  // no bytes

  static Secret Of(absl::string_view bytes) { return Join({bytes}); }
  static Secret Join(std::initializer_list<absl::string_view> parts);
  // `fill` writes at most `most` bytes and returns how many.
  static Secret Fill(size_t most, const std::function<size_t(char*)>& fill);

  absl::string_view view() const;
  bool empty() const { return view().empty(); }
  size_t size() const { return view().size(); }

  friend bool operator==(const Secret& a, absl::string_view b) {
    return a.view() == b;
  }
  friend bool operator!=(const Secret& a, absl::string_view b) {
    return a.view() != b;
  }

 private:
  class Pages;

  std::shared_ptr<const Pages> pages_;
};

}  // namespace weft

#endif  // WEFT_CORE_BASE_SECRET_H_
