// HOST:PORT, as people write where ranks meet.
//
//   WEFT_ASSIGN_OR_RETURN(HostPort meet,
//                         ParseHostPort("--coordinator", "[2001:db8::1]:80"));
//   meet.host;                             // "2001:db8::1"
//   JoinHostPort(meet.host, meet.port);    // "[2001:db8::1]:80"
//
// An address of IPv6 has colons of its own: with a port it stands in brackets.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_RUNTIME_RENDEZVOUS_HOST_PORT_H_
#define WEFT_RUNTIME_RENDEZVOUS_HOST_PORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace weft::runtime {

struct HostPort {
  std::string host;  // a name or an address, without brackets
  uint32_t port = 0;
};

// `what` names the text in the error; `lowest`: 0 where a port may be any that
// is free. kBadLaunch.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view what,
                                       absl::string_view text,
                                       uint32_t lowest = 1);

// Host "::1" and "[::1]" give the same.
std::string JoinHostPort(absl::string_view host, const absl::AlphaNum& port);

// "[::1]" -> "::1".
std::string WithoutBrackets(absl::string_view host);

// Whether `host` (a name or an address) means the machine itself, by how it is
// written.
bool IsLoopback(absl::string_view host);

// Whether `host` is the address that stands for all of a machine, however it is
// written.
bool IsAnyAddress(absl::string_view host);

// The numeric addresses of `host`, as this machine finds them: by /etc/hosts,
// then by a server. Several hosts meet there, so those that mean the machine
// itself are left out; where no other is left it is kBadLaunch, and so is a
// name that is not known. Debian's /etc/hosts, for example, has 127.0.1.1 for
// the name of the machine.
absl::StatusOr<std::vector<std::string>> OutsideAddresses(
    const std::string& host);

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_RENDEZVOUS_HOST_PORT_H_
