// CRC32C (Castagnoli, polynomial 0x1EDC6F41, reflected), as RFC 3720 appendix
// B.4 has it: for a few bytes on a wire.
//
//   uint32_t crc = Crc32c({reinterpret_cast<const char*>(&frame), 28});
//
// Threading: a constexpr function.
#ifndef WEFT_CORE_BASE_CRC32C_H_
#define WEFT_CORE_BASE_CRC32C_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace weft {
namespace internal {

constexpr std::array<uint32_t, 256> Crc32cTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int k = 0; k < 8; ++k) {
      crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F63B78u : crc >> 1;
    }
    table[i] = crc;
  }
  return table;
}

inline constexpr std::array<uint32_t, 256> kCrc32cTable = Crc32cTable();

}  // namespace internal

constexpr uint32_t Crc32c(absl::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (char c : bytes) {
    crc = internal::kCrc32cTable[(crc ^ static_cast<uint8_t>(c)) & 0xff] ^
          (crc >> 8);
  }
  return ~crc;
}

}  // namespace weft

#endif  // WEFT_CORE_BASE_CRC32C_H_
