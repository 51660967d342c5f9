// Grouped updates: one launch for several variables, so that small ones cost
// none of their own and threads share all elements evenly.
//
//   WEFT_ASSIGN_OR_RETURN(Placement placed, PlaceNodes(...));
//   WEFT_RETURN_IF_ERROR(GroupUpdates(&placed, &cache).status());
//
// Updates of one op with equal attributes, dtype, device and shared operands
// (learning rate, multiplier) become one where that keeps no more memory:
//
// - together: each one's gradient is needed to compute an operand that all
//   share, as the norm that clips them is. All of these gradients are there
//   when the first of the updates acts, whatever the grouping;
// - small: gradients of at most 16 KiB (biases, norms), 64 KiB in one group,
//   live until the last of them is made.
//
// State has to lie where the kernel runs, with no copy between, and the device
// has to have a kernel for the group, without a workspace: else updates stay
// single. So do those with control edges, and those that read a variable itself
// instead of something computed: one of the group would change it under the
// kernel's hands. At most 64 operands make a group; one that would have more
// becomes several.
//
// The bits do not change: an update works on each element alone.
//
// Threading: a free function, thread-compatible.
#ifndef WEFT_COMPILER_PLACEMENT_GROUP_UPDATES_H_
#define WEFT_COMPILER_PLACEMENT_GROUP_UPDATES_H_

#include "absl/status/statusor.h"
#include "compiler/placement/capability_cache.h"
#include "compiler/placement/placement.h"

namespace weft {

// How many groups were made.
absl::StatusOr<int> GroupUpdates(Placement* placement, CapabilityCache* cache);

}  // namespace weft

#endif  // WEFT_COMPILER_PLACEMENT_GROUP_UPDATES_H_
