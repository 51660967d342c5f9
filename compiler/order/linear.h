// One linear order of the works of a partition, before they act several times:
// by section and phase, then predecessors first; among the ready, by position
// in the graph or, with a seed, at random.
//
// Collectives send and receive in the order in which they were made, which is
// one order on all ranks: of several ranks that wait for each other one could
// not have what comes first in it. Positions are no such order: a pass may find
// something to do on one rank only, and what it makes, and what follows from
// that, has a late position.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_ORDER_LINEAR_H_
#define WEFT_COMPILER_ORDER_LINEAR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/partition/partition.h"

namespace weft {

// The collective that an end of a channel belongs to: all that its ranks agreed
// on. Empty: none.
std::string CollectiveOf(const Partition& parts, const Work& end);

// A fixed, well mixed function of `x` (splitmix64's finaliser).
uint64_t Mix(uint64_t x);

// Work indices. kBadGraph names the works of a cycle.
absl::StatusOr<std::vector<int>> LinearOrder(const Partition& parts,
                                             uint64_t seed);

}  // namespace weft

#endif  // WEFT_COMPILER_ORDER_LINEAR_H_
