#include "tools/weft/host_link.h"

#include <netdb.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/certificates.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "runtime/rendezvous/host_port.h"
#include "runtime/rendezvous/sealed.h"

namespace weft {
namespace {

// Of certificates: longer than any run.
constexpr uint32_t kHours = 24 * 365;
// PEM texts have no such line.
constexpr absl::string_view kBetween = "\n\n";

std::string Purpose(uint32_t rank) {
  return absl::StrCat("certificate of rank ", rank);
}

absl::Status Issue(runtime::GrpcRendezvous* meeting, uint32_t ranks,
                   const Secret& secret) {
  WEFT_ASSIGN_OR_RETURN(const JobAuthority authority,
                        JobAuthority::Make(kHours));
  for (uint32_t r = 0; r < ranks; ++r) {
    WEFT_ASSIGN_OR_RETURN(const RankCertificate issued, authority.Issue(r));
    const Secret text =
        Secret::Join({authority.certificate(), kBetween, issued.certificate,
                      kBetween, issued.key.view()});
    WEFT_RETURN_IF_ERROR(meeting->Put(
        Purpose(r), runtime::Seal(secret.view(), Purpose(r), text.view())));
  }
  return absl::OkStatus();
}

// Empty, and why, where there is no way to `host`, which is numeric.
std::string LocalAddress(const std::string& host, uint32_t port,
                         std::string* why) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_DGRAM;  // nothing is sent by connecting
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (error != 0) {
    *why = gai_strerror(error);
    return "";
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found,
                                                            freeaddrinfo);
  const int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    *why = std::strerror(errno);
    return "";
  }
  sockaddr_storage local{};
  socklen_t size = sizeof(local);
  auto* name = reinterpret_cast<sockaddr*>(&local);
  const bool there = connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
                     getsockname(fd, name, &size) == 0;
  const int reason = errno;
  close(fd);
  if (!there) {
    *why = std::strerror(reason);
    return "";
  }
  char text[NI_MAXHOST];
  const int failed =
      getnameinfo(name, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  if (failed == 0) return text;
  *why = gai_strerror(failed);
  return "";
}

}  // namespace

absl::StatusOr<std::string> LocalAddressTowards(const std::string& address) {
  WEFT_ASSIGN_OR_RETURN(
      const runtime::HostPort at,
      runtime::ParseHostPort("the coordinator's address", address));
  WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> hosts,
                        runtime::OutsideAddresses(at.host));
  std::string why;
  for (const std::string& host : hosts) {
    const std::string local = LocalAddress(host, at.port, &why);
    if (local.empty()) continue;
    if (!runtime::IsLoopback(local)) return local;
    why = absl::StrCat(host, " is this machine itself");
  }
  return MakeError(ErrorCode::kBadLaunch,
                   absl::StrCat("no way from this host to the coordinator at ",
                                address, ": ", why));
}

HostLink::~HostLink() {
  for (int fd : files_) close(fd);
}

absl::Status HostLink::AddFile(const std::string& option,
                               absl::string_view text) {
  const int fd = memfd_create("weft-certificate", MFD_CLOEXEC);
  if (fd < 0) {
    return MakeError(ErrorCode::kNoDescriptor,
                     absl::StrCat("memfd_create: ", std::strerror(errno)));
  }
  files_.push_back(fd);
  if (fchmod(fd, 0600) != 0 || write(fd, text.data(), text.size()) !=
                                   static_cast<ssize_t>(text.size())) {
    return MakeError(ErrorCode::kOutOfMemory,
                     absl::StrCat("a file in memory: ", std::strerror(errno)));
  }
  options_.emplace_back(option, absl::StrCat("/proc/self/fd/", fd));
  return absl::OkStatus();
}

absl::Status HostLink::Make(runtime::GrpcRendezvous* meeting, uint32_t rank,
                            uint32_t ranks, const std::string& coordinator,
                            const Secret& secret) {
  WEFT_ASSIGN_OR_RETURN(const std::string local,
                        LocalAddressTowards(coordinator));
  options_.emplace_back("listen", runtime::JoinHostPort(local, 0));
  if (rank == 0) WEFT_RETURN_IF_ERROR(Issue(meeting, ranks, secret));
  WEFT_ASSIGN_OR_RETURN(const std::string sealed, meeting->Get(Purpose(rank)));
  WEFT_ASSIGN_OR_RETURN(const Secret text,
                        runtime::Unseal(secret.view(), Purpose(rank), sealed));
  const std::vector<absl::string_view> parts =
      absl::StrSplit(text.view(), kBetween);
  if (parts.size() != 3) {
    return MakeError(ErrorCode::kPeerRefused,
                     absl::StrCat(Purpose(rank), " is none"));
  }
  WEFT_RETURN_IF_ERROR(AddFile("tls_ca", parts[0]));
  WEFT_RETURN_IF_ERROR(AddFile("tls_cert", parts[1]));
  return AddFile("tls_key", parts[2]);
}

}  // namespace weft
