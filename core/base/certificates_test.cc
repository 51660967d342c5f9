#include "core/base/certificates.h"

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

namespace weft {
namespace {

using Certificate = std::unique_ptr<X509, void (*)(X509*)>;

Certificate Parse(const std::string& pem) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  Certificate certificate(PEM_read_bio_X509(bio, nullptr, nullptr, nullptr),
                          X509_free);
  BIO_free(bio);
  return certificate;
}

// As a peer that trusts `authority` alone would, at `when`; 0: now.
bool Trusted(const std::string& authority, const std::string& pem,
             time_t when = 0) {
  const Certificate root = Parse(authority);
  const Certificate leaf = Parse(pem);
  X509_STORE* store = X509_STORE_new();
  X509_STORE_add_cert(store, root.get());
  X509_STORE_CTX* context = X509_STORE_CTX_new();
  X509_STORE_CTX_init(context, store, leaf.get(), nullptr);
  X509_STORE_CTX_set_purpose(context, X509_PURPOSE_SSL_CLIENT);
  if (when != 0) {
    X509_STORE_CTX_set_time(context, 0, when);
  }
  const bool good = X509_verify_cert(context) == 1;
  X509_STORE_CTX_free(context);
  X509_STORE_free(store);
  return good;
}

TEST(CertificatesTest, ARankIsOfItsJobAndHasItsName) {
  const JobAuthority job = JobAuthority::Make(2).value();
  const JobAuthority another = JobAuthority::Make(2).value();
  const RankCertificate mine = job.Issue(3).value();
  EXPECT_TRUE(Trusted(job.certificate(), mine.certificate));
  EXPECT_FALSE(Trusted(another.certificate(), mine.certificate));
  const Certificate leaf = Parse(mine.certificate);
  EXPECT_EQ(X509_check_host(leaf.get(), "rank-3.weft", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_host(leaf.get(), "rank-4.weft", 0, 0, nullptr), 0);
  EXPECT_EQ(RankName(3), "rank-3.weft");
  EXPECT_EQ(X509_check_ca(leaf.get()), 0) << "a rank could let others in";
}

TEST(CertificatesTest, TheKeyIsThatOfTheCertificate) {
  const JobAuthority job = JobAuthority::Make(2).value();
  const RankCertificate mine = job.Issue(0).value();
  const RankCertificate other = job.Issue(0).value();
  EXPECT_TRUE(mine.key != other.key.view());
  BIO* bio = BIO_new_mem_buf(mine.key.view().data(),
                             static_cast<int>(mine.key.size()));
  EVP_PKEY* key = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  ASSERT_NE(key, nullptr);
  EXPECT_EQ(X509_check_private_key(Parse(mine.certificate).get(), key), 1);
  EXPECT_EQ(X509_check_private_key(Parse(other.certificate).get(), key), 0);
  EVP_PKEY_free(key);
}

TEST(CertificatesTest, TheyEnd) {
  const JobAuthority job = JobAuthority::Make(2).value();
  const std::string pem = job.Issue(0).value().certificate;
  const time_t now = time(nullptr);
  EXPECT_TRUE(Trusted(job.certificate(), pem, now - 1800));
  EXPECT_FALSE(Trusted(job.certificate(), pem, now - 2 * 3600));
  EXPECT_TRUE(Trusted(job.certificate(), pem, now + 3600));
  EXPECT_FALSE(Trusted(job.certificate(), pem, now + 3 * 3600));
}

}  // namespace
}  // namespace weft
