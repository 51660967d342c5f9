// CRC32C (Castagnoli, polynomial 0x1EDC6F41, reflected), as RFC 3720 appendix
// B.4 has it: for a few bytes on a wire.
//
//   uint32_t crc = Crc32c({reinterpret_cast<const char*>(&frame), 28});
//
// Threading: a pure function.
#ifndef WEFT_CORE_BASE_CRC32C_H_
#define WEFT_CORE_BASE_CRC32C_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace weft {
namespace internal {

// Row k: of a byte that k others follow.
using Crc32cRows = std::array<std::array<uint32_t, 256>, 8>;

constexpr Crc32cRows MakeCrc32cRows() {
  Crc32cRows rows{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int k = 0; k < 8; ++k) {
      crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F63B78u : crc >> 1;
    }
    rows[0][i] = crc;
  }
  for (uint32_t i = 0; i < 256; ++i) {
    for (size_t k = 1; k < rows.size(); ++k) {
      rows[k][i] = rows[0][rows[k - 1][i] & 0xff] ^ (rows[k - 1][i] >> 8);
    }
  }
  return rows;
}

inline constexpr Crc32cRows kCrc32cRows = MakeCrc32cRows();

// Eight bytes at a time; for processors without an instruction for it.
constexpr uint32_t Crc32cByTable(absl::string_view bytes) {
  const auto& rows = kCrc32cRows;
  uint32_t crc = ~uint32_t{0};
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint32_t next = 0;
    for (size_t k = 0; k < 8; ++k) {
      const auto byte = static_cast<uint8_t>(bytes[at + k]);
      const uint32_t mixed = k < 4 ? byte ^ (crc >> (8 * k) & 0xff) : byte;
      next ^= rows[7 - k][mixed];
    }
    crc = next;
  }
  for (; at < bytes.size(); ++at) {
    crc = rows[0][(crc ^ static_cast<uint8_t>(bytes[at])) & 0xff] ^ (crc >> 8);
  }
  return ~crc;
}

}  // namespace internal

uint32_t Crc32c(absl::string_view bytes);

}  // namespace weft

#endif  // WEFT_CORE_BASE_CRC32C_H_
