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

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/certificates.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
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
                   const std::string& secret) {
  WEFT_ASSIGN_OR_RETURN(const JobAuthority authority,
                        JobAuthority::Make(kHours));
  for (uint32_t r = 0; r < ranks; ++r) {
    WEFT_ASSIGN_OR_RETURN(const RankCertificate issued, authority.Issue(r));
    const std::string text = absl::StrJoin(
        {authority.certificate(), issued.certificate, issued.key}, kBetween);
    WEFT_RETURN_IF_ERROR(
        meeting->Put(Purpose(r), runtime::Seal(secret, Purpose(r), text)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> LocalAddressTowards(const std::string& address) {
  const auto bad = [&address](absl::string_view why) {
    return MakeError(
        ErrorCode::kBadLaunch,
        absl::StrCat("no way from this host to the coordinator at ", address,
                     ": ", why));
  };
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return bad("no port");
  std::string host = address.substr(0, colon);
  if (absl::StartsWith(host, "[")) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;  // nothing is sent by connecting
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (error != 0) return bad(gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found,
                                                            freeaddrinfo);
  const int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return bad(std::strerror(errno));
  sockaddr_storage local{};
  socklen_t size = sizeof(local);
  auto* name = reinterpret_cast<sockaddr*>(&local);
  const bool there = connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
                     getsockname(fd, name, &size) == 0;
  const int reason = errno;
  close(fd);
  if (!there) return bad(std::strerror(reason));
  char text[NI_MAXHOST];
  const int failed =
      getnameinfo(name, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  if (failed != 0) return bad(gai_strerror(failed));
  return std::string(text);
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
                            const std::string& secret) {
  WEFT_ASSIGN_OR_RETURN(const std::string local,
                        LocalAddressTowards(coordinator));
  options_.emplace_back(
      "listen",
      absl::StrCat(
          absl::StrContains(local, ':') ? absl::StrCat("[", local, "]") : local,
          ":0"));
  if (rank == 0) WEFT_RETURN_IF_ERROR(Issue(meeting, ranks, secret));
  WEFT_ASSIGN_OR_RETURN(const std::string sealed, meeting->Get(Purpose(rank)));
  WEFT_ASSIGN_OR_RETURN(const std::string text,
                        runtime::Unseal(secret, Purpose(rank), sealed));
  const std::vector<std::string> parts = absl::StrSplit(text, kBetween);
  if (parts.size() != 3) {
    return MakeError(ErrorCode::kPeerRefused,
                     absl::StrCat(Purpose(rank), " is none"));
  }
  WEFT_RETURN_IF_ERROR(AddFile("tls_ca", parts[0]));
  WEFT_RETURN_IF_ERROR(AddFile("tls_cert", parts[1]));
  return AddFile("tls_key", parts[2]);
}

}  // namespace weft
