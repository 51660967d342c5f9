#include "runtime/rendezvous/host_port.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/error.h"

namespace weft::runtime {
namespace {

constexpr uint32_t kLastPort = 65535;

absl::Status Bad(absl::string_view message) {
  return MakeError(ErrorCode::kBadLaunch, message);
}

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(absl::string_view what,
                                       absl::string_view text,
                                       uint32_t lowest) {
  const size_t colon = text.rfind(':');
  const absl::string_view host = text.substr(0, colon);
  HostPort out;
  out.host = WithoutBrackets(host);
  const bool bare = out.host == host && absl::StrContains(host, ':');
  if (colon == absl::string_view::npos || out.host.empty() || bare ||
      !absl::SimpleAtoi(text.substr(colon + 1), &out.port) ||
      out.port < lowest || out.port > kLastPort) {
    return Bad(absl::StrCat(
        what, " is '", text, "', expected HOST:PORT with a port of ", lowest,
        " to ", kLastPort, bare ? ", an address of IPv6 in brackets" : ""));
  }
  return out;
}

std::string JoinHostPort(absl::string_view host, const absl::AlphaNum& port) {
  const std::string plain = WithoutBrackets(host);
  if (!absl::StrContains(plain, ':')) return absl::StrCat(plain, ":", port);
  return absl::StrCat("[", plain, "]:", port);
}

std::string WithoutBrackets(absl::string_view host) {
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    return std::string(host.substr(1, host.size() - 2));
  }
  return std::string(host);
}

bool IsLoopback(absl::string_view host) {
  const std::string plain = WithoutBrackets(host);
  return absl::EqualsIgnoreCase(plain, "localhost") ||
         absl::StartsWith(plain, "127.") || plain == "::1";
}

bool IsAnyAddress(absl::string_view host) {
  const std::string plain = WithoutBrackets(host);
  in_addr v4;
  in6_addr v6;
  if (inet_pton(AF_INET, plain.c_str(), &v4) == 1) {
    return v4.s_addr == INADDR_ANY;
  }
  return inet_pton(AF_INET6, plain.c_str(), &v6) == 1 &&
         IN6_IS_ADDR_UNSPECIFIED(&v6);
}

absl::StatusOr<std::vector<std::string>> OutsideAddresses(
    const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string plain = WithoutBrackets(host);
  const int error = getaddrinfo(plain.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return Bad(absl::StrCat("host '", plain, "': ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found,
                                                            freeaddrinfo);
  std::vector<std::string> outside;
  std::string inside;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof(text), nullptr,
                    0, NI_NUMERICHOST) != 0) {
      continue;
    }
    if (IsLoopback(text)) {
      inside = text;
    } else {
      outside.emplace_back(text);
    }
  }
  if (!outside.empty()) return outside;
  return Bad(absl::StrCat(
      "host '", plain, "' is ", inside,
      " on this machine (see its /etc/hosts), which other hosts cannot reach; "
      "give an address that they do"));
}

}  // namespace weft::runtime
