#include "core/base/certificates.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/error.h"

namespace weft {
namespace {

template <typename T, void (*kFree)(T*)>
struct Freer {
  void operator()(T* p) const { kFree(p); }
};
void FreeBio(BIO* bio) { BIO_free_all(bio); }
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY, EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509, X509_free>>;
using Bio = std::unique_ptr<BIO, Freer<BIO, FreeBio>>;
using Extension =
    std::unique_ptr<X509_EXTENSION, Freer<X509_EXTENSION, X509_EXTENSION_free>>;

absl::Status Failed(const char* what) {
  char text[128];
  ERR_error_string_n(ERR_get_error(), text, sizeof(text));
  return MakeError(ErrorCode::kInternal,
                   std::string("certificates: ") + what + ": " + text);
}

absl::string_view Contents(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}

std::string ToPem(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || PEM_write_bio_X509(bio.get(), certificate) != 1) {
    return {};
  }
  return std::string(Contents(bio.get()));
}

// OpenSSL wipes what it wrote.
Secret ToPem(EVP_PKEY* key) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr ||
      PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0,
                                    nullptr, nullptr) != 1) {
    return {};
  }
  return Secret::Of(Contents(bio.get()));
}

bool SetSerial(X509* certificate) {
  unsigned char bytes[16];
  if (RAND_bytes(bytes, sizeof(bytes)) != 1) return false;
  bytes[0] &= 0x7f;
  BIGNUM* number = BN_bin2bn(bytes, sizeof(bytes), nullptr);
  const bool good =
      number != nullptr &&
      BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return good;
}

bool SetName(X509_NAME* name, const std::string& common) {
  return X509_NAME_add_entry_by_txt(
             name, "CN", MBSTRING_UTF8,
             reinterpret_cast<const unsigned char*>(common.c_str()), -1, -1,
             0) == 1;
}

bool AddExtension(X509* certificate, X509* issuer, int nid,
                  const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension != nullptr &&
         X509_add_ext(certificate, extension.get(), -1) == 1;
}

// What every certificate has, but for its issuer, extensions and signature.
Certificate NewCertificate(EVP_PKEY* key, const std::string& name,
                           uint32_t hours) {
  constexpr long kHour = 3600;
  Certificate certificate(X509_new());
  if (certificate == nullptr ||
      X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      !SetSerial(certificate.get()) ||
      X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kHour) ==
          nullptr ||
      X509_gmtime_adj(X509_getm_notAfter(certificate.get()),
                      static_cast<long>(hours) * kHour) == nullptr ||
      X509_set_pubkey(certificate.get(), key) != 1 ||
      !SetName(X509_get_subject_name(certificate.get()), name)) {
    return nullptr;
  }
  return certificate;
}

}  // namespace

struct JobAuthority::Impl {
  Key key;
  Certificate certificate;
  uint32_t hours;
};

JobAuthority::JobAuthority(std::unique_ptr<Impl> impl, std::string certificate)
    : impl_(std::move(impl)), certificate_(std::move(certificate)) {}
JobAuthority::JobAuthority(JobAuthority&&) = default;
JobAuthority& JobAuthority::operator=(JobAuthority&&) = default;
JobAuthority::~JobAuthority() = default;

absl::StatusOr<JobAuthority> JobAuthority::Make(uint32_t hours) {
  auto impl = std::make_unique<Impl>();
  impl->hours = hours;
  impl->key = Key(EVP_EC_gen("P-256"));
  if (impl->key == nullptr) return Failed("no key");
  impl->certificate = NewCertificate(impl->key.get(), "weft job", hours);
  X509* const self = impl->certificate.get();
  if (self == nullptr ||
      X509_set_issuer_name(self, X509_get_subject_name(self)) != 1 ||
      !AddExtension(self, self, NID_basic_constraints,
                    "critical,CA:TRUE,pathlen:0") ||
      !AddExtension(self, self, NID_key_usage, "critical,keyCertSign") ||
      !AddExtension(self, self, NID_subject_key_identifier, "hash") ||
      X509_sign(self, impl->key.get(), EVP_sha256()) == 0) {
    return Failed("no authority");
  }
  std::string pem = ToPem(self);
  if (pem.empty()) return Failed("no PEM");
  return JobAuthority(std::move(impl), std::move(pem));
}

absl::StatusOr<RankCertificate> JobAuthority::Issue(uint32_t rank) const {
  X509* const issuer = impl_->certificate.get();
  const std::string name = RankName(rank);
  const Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Failed("no key");
  const Certificate certificate = NewCertificate(key.get(), name, impl_->hours);
  X509* const mine = certificate.get();
  if (mine == nullptr ||
      X509_set_issuer_name(mine, X509_get_subject_name(issuer)) != 1 ||
      !AddExtension(mine, issuer, NID_basic_constraints, "critical,CA:FALSE") ||
      !AddExtension(mine, issuer, NID_key_usage, "critical,digitalSignature") ||
      !AddExtension(mine, issuer, NID_ext_key_usage, "serverAuth,clientAuth") ||
      !AddExtension(mine, issuer, NID_subject_alt_name, "DNS:" + name) ||
      !AddExtension(mine, issuer, NID_authority_key_identifier, "keyid") ||
      X509_sign(mine, impl_->key.get(), EVP_sha256()) == 0) {
    return Failed("no certificate");
  }
  RankCertificate result{ToPem(mine), ToPem(key.get())};
  if (result.certificate.empty() || result.key.empty()) return Failed("no PEM");
  return result;
}

}  // namespace weft
