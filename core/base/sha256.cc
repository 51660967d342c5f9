#include "core/base/sha256.h"

#include <openssl/evp.h>

#include <new>

#include "absl/strings/escaping.h"

namespace weft {

namespace {

// None of the calls below fails but for lack of memory: then as operator new.
void Require(bool done) {
  if (!done) throw std::bad_alloc();
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const {
  EVP_MD_CTX_free(context);
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  Require(context_ != nullptr &&
          EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::Update(absl::string_view bytes) {
  Require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::array<uint8_t, 32> Sha256::Digest() {
  std::array<uint8_t, 32> digest;
  Require(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1);
  return digest;
}

std::string Sha256::HexDigest() {
  std::array<uint8_t, 32> digest = Digest();
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(digest.data()), digest.size()));
}

std::string Sha256Hex(absl::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.HexDigest();
}

}  // namespace weft
