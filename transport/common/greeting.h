// What the domains of all transports say of themselves and of each other when
// two of them meet.
//
//   SetText(info.name, "tcp");
//   const Refusal refusal = Meet(ours, theirs, kConnector, expected, seen);
//   TransportEvent event = About(WEFT_EVENT_ACCEPTED, theirs, ep);
//
// Threading: free functions.
#ifndef WEFT_TRANSPORT_COMMON_GREETING_H_
#define WEFT_TRANSPORT_COMMON_GREETING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
