#include "runtime/rendezvous/sealed.h"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "glog/logging.h"
#include "runtime/rendezvous/proof.h"

namespace weft::runtime {
namespace {

constexpr size_t kNonceBytes = 12;
constexpr size_t kTagBytes = 16;
constexpr size_t kMost = size_t{1} << 30;  // its calls count by int

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const {
    EVP_CIPHER_CTX_free(context);
  }
};
using Context = std::unique_ptr<EVP_CIPHER_CTX, FreeContext>;

// None of the calls fails but for lack of memory or of random bytes.
void Require(bool done) { CHECK(done) << "AES-256-GCM"; }

uint8_t* Bytes(std::string* text) {
  return reinterpret_cast<uint8_t*>(text->data());
}

const uint8_t* Bytes(absl::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

Context MakeContext() {
  Context context(EVP_CIPHER_CTX_new());
  Require(context != nullptr);
  return context;
}

}  // namespace

std::string Seal(absl::string_view secret, absl::string_view purpose,
                 absl::string_view text) {
  const Secret key = KeyOf(secret, purpose);
  std::string nonce(kNonceBytes, '\0');
  Require(RAND_bytes(Bytes(&nonce), kNonceBytes) == 1);
  const Context context = MakeContext();
  std::string out(text.size(), '\0');
  std::string tag(kTagBytes, '\0');
  int size = 0;
  Require(EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr,
                             Bytes(key.view()), Bytes(nonce)) == 1 &&
          EVP_EncryptUpdate(context.get(), Bytes(&out), &size, Bytes(text),
                            static_cast<int>(text.size())) == 1 &&
          EVP_EncryptFinal_ex(context.get(), Bytes(&out) + size, &size) == 1 &&
          EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes,
                              tag.data()) == 1);
  return absl::StrCat(nonce, tag, out);
}

absl::StatusOr<Secret> Unseal(absl::string_view secret,
                              absl::string_view purpose,
                              absl::string_view sealed) {
  const absl::Status foreign =
      MakeError(ErrorCode::kPeerRefused,
                absl::StrCat("the ", purpose,
                             " was not made by one who has the job's secret"));
  if (sealed.size() < kNonceBytes + kTagBytes || sealed.size() > kMost) {
    return foreign;
  }
  const Secret key = KeyOf(secret, purpose);
  const absl::string_view nonce = sealed.substr(0, kNonceBytes);
  std::string tag(sealed.substr(kNonceBytes, kTagBytes));
  const absl::string_view text = sealed.substr(kNonceBytes + kTagBytes);
  const Context context = MakeContext();
  bool genuine = false;
  Secret out = Secret::Fill(text.size(), [&](char* to) {
    auto* bytes = reinterpret_cast<uint8_t*>(to);
    int size = 0;
    Require(EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr,
                               Bytes(key.view()), Bytes(nonce)) == 1 &&
            EVP_DecryptUpdate(context.get(), bytes, &size, Bytes(text),
                              static_cast<int>(text.size())) == 1 &&
            EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes,
                                tag.data()) == 1);
    genuine = EVP_DecryptFinal_ex(context.get(), bytes + size, &size) == 1;
    return text.size();
  });
  if (!genuine) return foreign;
  return out;
}

}  // namespace weft::runtime
