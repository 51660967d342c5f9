// Agreement: before the first act every rank learns whether all plans mean the
// same channels. A plan that was proved alone may be right by itself and still
// contradict another rank's: another length, type or operation of a collective,
// or none at all.
//
//   WEFT_RETURN_IF_ERROR(
//       AgreeOnChannels(rendezvous, rank, "0", {{"train", &plan}}));
//
// Ranks exchange digests (core/plan/boundary.h); only where these differ do two
// of them tell their channels, so that the error says what each has. It is the
// same on all ranks.
//
// Threading: blocks; one call for each rank at a time.
#ifndef WEFT_RUNTIME_WIRE_AGREE_H_
#define WEFT_RUNTIME_WIRE_AGREE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "core/proto/plan.pb.h"
#include "runtime/rendezvous/rendezvous.h"

namespace weft::runtime {

// By name; only those that have channels count. `round`: every rank makes its
// n-th call with the same one, which no other has. kPlansDiffer names the
// program, the channel, both ranks and what each says; errors of the rendezvous
// name ranks that did not come.
absl::Status AgreeOnChannels(
    Rendezvous* rendezvous, uint32_t rank, const std::string& round,
    const std::map<std::string, const plan::Plan*>& programs);

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_WIRE_AGREE_H_
