// Registers' places: offsets in the activation arenas of a plan that has
// everything else.
//
//   WEFT_RETURN_IF_ERROR(PlaceRegisters(&plan));
//
// Two registers of one device share bytes only where every act that may touch
// the one happens before (compiler/check) every act that touches the other,
// through all periods: it follows from the order of streams and from messages,
// so no timing can break it. Registers with several copies share with nobody:
// their copies are there to be live together. State has its place already;
// control registers have no bytes.
//
// Threading: thread-safe as far as the plan is not shared.
#ifndef WEFT_COMPILER_MEMORY_REGISTERS_H_
#define WEFT_COMPILER_MEMORY_REGISTERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/proto/plan.pb.h"

namespace weft {

// Sets `offset` of all registers in arenas of kind ACTIVATIONS and the bytes of
// those arenas. kBadPlan or kPlanRefuted where the plan cannot run anyway.
absl::Status PlaceRegisters(plan::Plan* plan);

// Bytes that a plan needs, by device: its arenas, and its constants as loaded.
std::vector<uint64_t> PlannedBytes(const plan::Plan& plan);

}  // namespace weft

#endif  // WEFT_COMPILER_MEMORY_REGISTERS_H_
