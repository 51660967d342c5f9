// Text for a terminal, which must not obey it: names in files that are not the
// user's own, words of other processes.
//
//   Printable("no 'a\x1b[2J'")   // "no 'a\\x1b[2J'"
//
// Threading: a free function, thread-safe.
#ifndef WEFT_CORE_BASE_PRINTABLE_H_
#define WEFT_CORE_BASE_PRINTABLE_H_

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace weft {

// Control characters are escaped, but for the ends of lines and tabs.
inline std::string Printable(absl::string_view text) {
  std::string out;
  for (char c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c)) && c != '\n' &&
        c != '\t') {
      out += absl::CHexEscape(std::string(1, c));
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace weft

#endif  // WEFT_CORE_BASE_PRINTABLE_H_
