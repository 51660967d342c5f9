// One linear order of the works of a partition, before they act several times:
// by section and phase, then predecessors first; among the ready, by position
// in the graph or, with a seed, at random. What reads a peer's memory has the
// position of what says that it is there, if that is an earlier one.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_ORDER_LINEAR_H_
#define WEFT_COMPILER_ORDER_LINEAR_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/partition/partition.h"

namespace weft {

// A fixed, well mixed function of `x` (splitmix64's finaliser).
uint64_t Mix(uint64_t x);

// Work indices. kBadGraph names the works of a cycle.
absl::StatusOr<std::vector<int>> LinearOrder(const Partition& parts,
                                             uint64_t seed);

}  // namespace weft

#endif  // WEFT_COMPILER_ORDER_LINEAR_H_
