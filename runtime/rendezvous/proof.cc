#include "runtime/rendezvous/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace weft::runtime {
namespace {

constexpr size_t kNonceBytes = 16;

// Each field with its length before it, so that no two lists look the same.
std::string Joined(std::initializer_list<absl::string_view> fields) {
  std::string text;
  for (absl::string_view field : fields) {
    absl::StrAppend(&text, field.size(), ":", field);
  }
  return text;
}

constexpr size_t kDigestBytes = 32;

void Hmac(absl::string_view secret, const std::string& text, char* digest) {
  // It fails for lack of memory only.
  CHECK(HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
             reinterpret_cast<const uint8_t*>(text.data()), text.size(),
             reinterpret_cast<uint8_t*>(digest), nullptr) != nullptr)
      << "HMAC-SHA256";
}

std::string Proof(absl::string_view secret, const std::string& text) {
  std::string digest(kDigestBytes, '\0');
  Hmac(secret, text, digest.data());
  return digest;
}

}  // namespace

std::string NewNonce() {
  uint8_t bytes[kNonceBytes];
  // Without random bytes there is nothing to trust.
  CHECK(RAND_bytes(bytes, sizeof(bytes)) == 1) << "RAND_bytes";
  return std::string(reinterpret_cast<const char*>(bytes), sizeof(bytes));
}

std::string ProofOfRank(absl::string_view secret, absl::string_view challenge,
                        absl::string_view nonce, absl::string_view hello) {
  return Proof(secret, Joined({"weft rank", challenge, nonce, hello}));
}

std::string ProofOfCoordinator(absl::string_view secret,
                               absl::string_view challenge,
                               absl::string_view nonce,
                               absl::string_view hello) {
  return Proof(secret, Joined({"weft coordinator", challenge, nonce, hello}));
}

Secret KeyOf(absl::string_view secret, absl::string_view purpose) {
  return Secret::Fill(kDigestBytes, [&](char* digest) {
    Hmac(secret, Joined({"weft key", purpose}), digest);
    return kDigestBytes;
  });
}

bool SameBytes(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() &&
         CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace weft::runtime
