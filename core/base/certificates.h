// The certificate authority of one job, made in memory: what the ranks of a job
// need so that their connections are private (options tls_ca, tls_cert and
// tls_key of transport/grpc).
//
//   WEFT_ASSIGN_OR_RETURN(JobAuthority authority, JobAuthority::Make(hours));
//   WEFT_ASSIGN_OR_RETURN(RankCertificate mine, authority.Issue(rank));
//   ... authority.certificate(), mine.certificate and mine.key become files;
//   the key with mode 0600. Forget the authority: nobody else gets in then.
//
// All are PEM. Keys are of the curve P-256. A rank's certificate has one name,
// RankName(rank), which its peers ask for.
//
// Threading: thread-compatible.
#ifndef WEFT_CORE_BASE_CERTIFICATES_H_
#define WEFT_CORE_BASE_CERTIFICATES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/secret.h"

namespace weft {

inline std::string RankName(uint32_t rank) {
  return "rank-" + std::to_string(rank) + ".weft";
}

struct RankCertificate {
  std::string certificate;
  Secret key;
};

class JobAuthority {
 public:
  // All its certificates are good from an hour ago, so that clocks may differ,
  // and for `hours` from now.
  static absl::StatusOr<JobAuthority> Make(uint32_t hours);
  JobAuthority(JobAuthority&&);
  JobAuthority& operator=(JobAuthority&&);
  ~JobAuthority();

  const std::string& certificate() const { return certificate_; }
  absl::StatusOr<RankCertificate> Issue(uint32_t rank) const;

 private:
  struct Impl;
  JobAuthority(std::unique_ptr<Impl> impl, std::string certificate);

  std::unique_ptr<Impl> impl_;
  std::string certificate_;
};

}  // namespace weft

#endif  // WEFT_CORE_BASE_CERTIFICATES_H_
