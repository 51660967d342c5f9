// Ahead: which SENDs need not hear of a receive before they act.
//
// What is small is copied into the transport's own memory when it is posted,
// and lies there until its receive comes. A credit that says that there is one
// costs a message and, where both ends send to each other, a latency for each
// value. So of small values a few may be under way whose receives are not
// posted yet; that the transport completes a SEND, which it does once it has
// met its receive, lets the next one go.
//
//   std::vector<uint32_t> ahead = SendsAhead(plan, [&](const auto& channel) {
//     return BoundsOfSender(channel);
//   });
//   ahead[c];  // so many of channel c, or 0: credits tell
//
// One more than the channel has copies: all copies, and one whose completion is
// on its way. Together at most half of what the transport takes, in the order
// of the channels' ids: what is left lets those through that others wait for.
// Both ends come to the same.
//
// Threading: a pure function.
#ifndef WEFT_RUNTIME_WIRE_AHEAD_H_
#define WEFT_RUNTIME_WIRE_AHEAD_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/proto/plan.pb.h"

namespace weft::runtime {

// What the transport of the rank that sends copies when it is posted.
struct EagerBounds {
  uint64_t max_bytes = 0;
  uint32_t credits = 0;  // of one connection
};

// By the plan's channels. No bounds: it is not for this one.
std::vector<uint32_t> SendsAhead(
    const plan::Plan& plan,
    absl::FunctionRef<EagerBounds(const plan::Channel&)> bounds_of);

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_WIRE_AHEAD_H_
