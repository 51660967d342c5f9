// SHA-256 by OpenSSL, which uses the processor's own instructions: plugin
// manifests, checkpoint checksums, plan hashes. Not for passwords or
// authentication.
//
//   Sha256Hex("abc");   // "ba7816bf..."
//   Sha256 h; h.Update(a); h.Update(b); h.HexDigest();
//
// Threading: thread-compatible. Move-only.
#ifndef WEFT_CORE_BASE_SHA256_H_
#define WEFT_CORE_BASE_SHA256_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

struct evp_md_ctx_st;  // EVP_MD_CTX

namespace weft {

class Sha256 {
 public:
  Sha256();
  void Update(absl::string_view bytes);
  // Ends the message; call once.
  std::array<uint8_t, 32> Digest();
  std::string HexDigest();  // 64 lower-case digits

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string Sha256Hex(absl::string_view bytes);

}  // namespace weft

#endif  // WEFT_CORE_BASE_SHA256_H_
