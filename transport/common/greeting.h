// What the domains of all transports say of themselves and of each other when
// two of them meet.
//
//   weft_transport_info info = InfoOf("tcp", BootAndNamespace("net"), options);
//   const Refusal refusal = Meet(ours, theirs, kConnector, expected, seen);
//   TransportEvent event = About(WEFT_EVENT_ACCEPTED, theirs, ep);
//
// Threading: free functions.
#ifndef WEFT_TRANSPORT_COMMON_GREETING_H_
#define WEFT_TRANSPORT_COMMON_GREETING_H_

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>

#include "plugins/sdk/weft_hello.hpp"
#include "plugins/sdk/weft_transport.hpp"

namespace weft_transport {

// As much of it as there is room for.
template <size_t N>
void SetText(char (&field)[N], const std::string& text) {
  const size_t n = std::min(N - 1, text.size());
  std::memcpy(field, text.data(), n);
  field[n] = '\0';
}

// What every transport says of itself.
template <typename Options>
weft_transport_info InfoOf(const std::string& name, const std::string& locality,
                           const Options& options) {
  weft_transport_info info{};
  info.struct_size = sizeof(info);
  SetText(info.name, name);
  SetText(info.locality, locality);
  info.eager_max = options.eager_max;
  info.eager_credits = options.eager_credits;
  info.max_inflight = options.max_inflight;
  return info;
}

// "boot 1f0c.. net:[4026531840]": a locality of who runs on one machine, in one
// namespace of a kind.
inline std::string BootAndNamespace(const std::string& kind) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char space[64];
  const ssize_t n =
      readlink(("/proc/self/ns/" + kind).c_str(), space, sizeof(space));
  return "boot " + boot + " " + std::string(space, n < 0 ? 0 : n);
}

// How long a peer may be silent.
inline uint64_t PeerTimeoutNs(const weft_sdk::DomainConfig& config) {
  constexpr uint32_t kDefaultMs = 3500;
  return uint64_t{1'000'000} *
         (config.peer_timeout_ms != 0 ? config.peer_timeout_ms : kDefaultMs);
}

// ACCEPTED, CONNECTED and REFUSED say the same of the peer.
inline weft_sdk::TransportEvent About(uint32_t kind,
                                      const weft_sdk::Hello& peer,
                                      weft_endpoint ep) {
  weft_sdk::TransportEvent event;
  event.kind = kind;
  event.ep = ep;
  event.rank = peer.rank;
  event.incarnation = peer.incarnation;
  return event;
}

// CONNECTED of a connection that there will not be.
inline weft_sdk::TransportEvent NotConnected(weft_endpoint ep, uint32_t rank,
                                             uint64_t cookie, weft_code code,
                                             const std::string& why) {
  weft_sdk::TransportEvent event;
  event.kind = WEFT_EVENT_CONNECTED;
  event.ep = ep;
  event.rank = rank;
  event.cookie = cookie;
  event.code = code;
  event.message = why;
  return event;
}

// CONNECTED and REFUSED say the same of why.
inline void SetRefused(const weft_sdk::Refusal& refusal,
                       weft_sdk::TransportEvent* event) {
  event->code = WEFT_INVALID;
  event->reason = refusal.reason;
  event->message = refusal.message;
}

// Both sides compute it, each with what only it has seen. `expected`: the rank
// that the connector looks for.
inline weft_sdk::Refusal Meet(const weft_sdk::Hello& ours,
                              const weft_sdk::Hello& theirs, bool connector,
                              uint32_t expected,
                              const weft_sdk::Incarnations& seen) {
  weft_sdk::Refusal refusal = weft_sdk::CompareHellos(ours, theirs);
  if (!refusal) {
    refusal = connector ? weft_sdk::CompareRanks(ours, theirs, expected)
                        : weft_sdk::CompareRanks(theirs, ours, expected);
  }
  if (!refusal) refusal = seen.Check(theirs);
  return refusal;
}

}  // namespace weft_transport

#endif  // WEFT_TRANSPORT_COMMON_GREETING_H_
