// Registers' places: offsets in the activation arenas of a plan that has
// everything else.
//
//   WEFT_RETURN_IF_ERROR(PlaceRegisters(&plan));
//
// Bytes of a device are used twice only where the plan orders it: all acts that
// touch the one register precede, in compiler/check's order, all acts that
// touch the other, in every period. That order comes from streams and messages,
// so it holds however fast anything runs. A register with several copies has
// its bytes for itself: the copies are there to be live together. State has its
// place already; control registers have no bytes.
//
// Threading: thread-safe as far as the plan is not shared.
#ifndef WEFT_COMPILER_MEMORY_REGISTERS_H_
#define WEFT_COMPILER_MEMORY_REGISTERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/proto/plan.pb.h"

namespace weft {

// Sets `offset` of all registers in arenas of kinds ACTIVATIONS and SHARED and
// the bytes of those arenas. kBadPlan or kPlanRefuted where the plan cannot run
// anyway.
absl::Status PlaceRegisters(plan::Plan* plan);

// Bytes that a plan needs, by device: its arenas, and its constants as loaded.
std::vector<uint64_t> PlannedBytes(const plan::Plan& plan);

}  // namespace weft

#endif  // WEFT_COMPILER_MEMORY_REGISTERS_H_
