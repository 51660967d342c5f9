// SHA-256 (FIPS 180-4): plugin manifests, checkpoint checksums, plan hashes.
// Not for passwords or authentication.
//
//   Sha256Hex("abc");   // "ba7816bf..."
//   Sha256 h; h.Update(a); h.Update(b); h.HexDigest();
//
// Threading: thread-compatible.
#ifndef WEFT_CORE_BASE_SHA256_H_
#define WEFT_CORE_BASE_SHA256_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace weft {

class Sha256 {
 public:
  void Update(absl::string_view bytes);
  // Ends the message; call once.
  std::array<uint8_t, 32> Digest();
  std::string HexDigest();  // 64 lower-case digits

 private:
  void Block(const uint8_t* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372,
                                    0xa54ff53a, 0x510e527f, 0x9b05688c,
                                    0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> buffer_;
  uint64_t size_ = 0;
};

std::string Sha256Hex(absl::string_view bytes);

}  // namespace weft

#endif  // WEFT_CORE_BASE_SHA256_H_
