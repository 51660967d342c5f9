// Acts: the works of a period, unrolled over its micro-batches, in one linear
// order that a run of the protocol can follow. With a pipeline this is this
// rank's part of the order of all ranks (compiler/pipeline/schedule.h).
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_ORDER_ACTS_H_
#define WEFT_COMPILER_ORDER_ACTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/order/chains.h"
#include "compiler/pipeline/schedule.h"

namespace weft {

// Act `act` of unit `unit` must come before the act of `next` that belongs to
// it: the same one, the only one, the first one.
struct UnitEdge {
  int from = 0;
  int to = 0;
  // Copies of the register on a data edge; 0 where nothing flows back.
  int copies = 0;
};

// Units in the order of their acts; a unit appears as often as it acts.
// `shared`: units of shared phases, placed just before their first successor.
// Pre-condition: every edge leads forward in the order of `units`. kInternal
// where acts wait for each other all the same, which rates that fit rule out.
absl::StatusOr<std::vector<int>> OrderActs(absl::Span<const Unit> units,
                                           absl::Span<const UnitEdge> edges,
                                           const std::vector<bool>& shared,
                                           const PhaseOrder& phases,
                                           uint64_t seed);

}  // namespace weft

#endif  // WEFT_COMPILER_ORDER_ACTS_H_
