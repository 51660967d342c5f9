// HostLink: what the gRPC transport of a rank needs where ranks are on several
// hosts: an address that the others reach, and certificates, so that only ranks
// of the job connect and nobody between them reads.
//
//   HostLink link;
//   WEFT_RETURN_IF_ERROR(link.Make(meeting, rank, ranks, coordinator, secret));
//   transports.Load(options, {"shm", "grpc"}, {{"grpc", link.options()}}, ...);
//
// The address is the one by which this host reaches the coordinator. Rank 0 is
// the certificate authority, for this one job; what it issues goes by the
// coordinator, sealed by the job's secret, and lies in files that only this
// process has (memfd), so that nothing is left of it.
//
// Threading: thread-compatible. Ownership: the files go with the object.
#ifndef WEFT_TOOLS_WEFT_HOST_LINK_H_
#define WEFT_TOOLS_WEFT_HOST_LINK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/secret.h"
#include "runtime/rendezvous/grpc_rendezvous.h"
#include "tools/weft/many_ranks.h"

namespace weft {

class HostLink {
 public:
  HostLink() = default;
  ~HostLink();
  HostLink(const HostLink&) = delete;
  HostLink& operator=(const HostLink&) = delete;

  // All ranks call it. Pre-condition: there is a secret.
  absl::Status Make(runtime::GrpcRendezvous* meeting, uint32_t rank,
                    uint32_t ranks, const std::string& coordinator,
                    const Secret& secret);

  const TransportOptions& options() const { return options_; }

 private:
  absl::Status AddFile(const std::string& option, absl::string_view text);

  TransportOptions options_;
  std::vector<int> files_;
};

// The numeric address of this host on the way to `address`, "host:port".
// kBadLaunch.
absl::StatusOr<std::string> LocalAddressTowards(const std::string& address);

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_HOST_LINK_H_
