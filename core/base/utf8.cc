#include "core/base/utf8.h"

#include <cstddef>
#include <cstdint>

namespace weft {

bool IsUtf8(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i]);
    const size_t length = lead < 0x80   ? 1
                          : lead < 0xe0 ? 2
                          : lead < 0xf0 ? 3
                                        : 4;
    if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4) return false;
    if (text.size() - i < length) return false;
    uint32_t code = length == 1 ? lead : lead & (0x7f >> length);
    for (size_t k = 1; k < length; ++k) {
      const auto next = static_cast<uint8_t>(text[i + k]);
      if ((next & 0xc0) != 0x80) return false;
      code = code << 6 | (next & 0x3f);
    }
    const bool overlong =
        (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    if (overlong || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) {
      return false;
    }
    i += length;
  }
  return true;
}

}  // namespace weft
