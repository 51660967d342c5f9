#include "transport/grpc/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "plugins/sdk/weft_host.hpp"

namespace weft_grpc {

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()),
                 static_cast<int>(count)) != 1) {
    throw weft_sdk::Error(WEFT_INTERNAL, "no random bytes to be had");
  }
  return bytes;
}

std::string RandomHex(size_t bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : RandomBytes(bytes)) {
    hex += kDigits[(c >> 4) & 15];
    hex += kDigits[c & 15];
  }
  return hex;
}

std::string Prove(std::string_view secret, Role role, std::string_view said) {
  if (secret.empty()) return {};
  std::string text =
      role == Role::kConnector ? "weft connector" : "weft listener";
  text.push_back('\0');
  text.append(said);
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(),
           mac, &size) == nullptr) {
    throw weft_sdk::Error(WEFT_INTERNAL, "HMAC-SHA256 failed");
  }
  return std::string(reinterpret_cast<const char*>(mac), size);
}

bool SameBytes(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace weft_grpc
