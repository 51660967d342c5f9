// What makes one port of a spec well formed, whatever else is in the table.
//
//   WEFT_RETURN_IF_ERROR(CheckPort(actor, in.reg, in.copies, pattern,
//                                  kTake | kAck));
//
// All errors are kBadPlan and name the actor.
//
// Threading: pure functions.
#ifndef WEFT_CORE_ACTOR_PORT_CHECK_H_
#define WEFT_CORE_ACTOR_PORT_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/actor/spec.h"

namespace weft::actor {

// kBadPlan: "'fc1' [actor ...]: " and `what`.
absl::Status BadActor(const ActorSpec& actor, absl::string_view what);

// Copies, the length of the pattern and its bits, which must be of `allowed`.
absl::Status CheckPort(const ActorSpec& actor, uint32_t reg, uint32_t copies,
                       const std::string& pattern, uint8_t allowed);

// Takes and acks alternate, beginning with a take; the same of acquire and
// give. `needs_open`: nothing is closed that was not opened.
absl::Status CheckAlternates(const ActorSpec& actor, uint32_t reg,
                             const std::string& pattern, uint8_t open,
                             uint8_t close, bool needs_open);

}  // namespace weft::actor

#endif  // WEFT_CORE_ACTOR_PORT_CHECK_H_
