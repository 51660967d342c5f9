// Lowering: the graph of a mesh, with what was chosen for it, becomes that of
// one rank. A node does its part, and boxing (compiler/boxing) brings operands
// from how they lie to how they are read, once for each way.
//
//   WEFT_ASSIGN_OR_RETURN(Sharding sharding, ChooseSharding(whole, spec));
//   LoweringOptions options;
//   options.member = 3;
//   WEFT_ASSIGN_OR_RETURN(Graph mine,
//                         LowerSharding(whole, spec, sharding, options));
//
// Node names, devices and stages stay; state has the member's shapes. All ranks
// make the boxings that they share in one order, which is that of the graph.
//
// Where the members share the micro-batches of a step, a weft.Accumulate over n
// takes n / members of them, and a micro weft.Counter counts from the member's
// first. Sums over the members travel together up to `bundle_bytes`: joined
// before, taken apart after it. In the order class TREE that changes no bit,
// and where n / members is a power of two, the sum has the bits that one rank
// alone would have computed.
//
// Members with different devices compute with other bits. With `first_decides`
// all have the bits of the first in what they all keep and tell: state that is
// whole is updated by its new value, as the first computed it, and so are the
// whole operands of updates of parts (learning rates), and outputs of the step.
// Sums over micro-batches differ in the members anyhow; parts have one owner.
//
// Threading: a free function, thread-safe.
#ifndef WEFT_COMPILER_SHARDING_LOWER_H_
#define WEFT_COMPILER_SHARDING_LOWER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "compiler/collectives/kinds.h"
#include "compiler/sharding/sharding.h"
#include "core/graph/graph.h"

namespace weft {

struct LoweringOptions {
  int member = 0;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  // Where the algorithm is chosen: only one of the order class TREE.
  bool fixed_order = false;
  int64_t chunk_elements = 0;
  // Sums are joined up to so many bytes; 0: none are.
  int64_t bundle_bytes = int64_t{1} << 20;
  // Variables that micro-batches read whole are gathered for each such reader,
  // and for each micro-batch, instead of once a step.
  bool gather_each_use = false;
  bool first_decides = false;
  // What may travel as bf16 (compiler/collectives/narrow.h) does.
  bool narrow_wire = false;
};

// Errors: kBadValue where the members do not divide the micro-batches, and for
// more than 256 chunks; kBadGraph, with first_decides, for a node that waits
// for an update or output; what AddBoxing says.
absl::StatusOr<Graph> LowerSharding(const Graph& whole,
                                    const ShardingSpec& spec,
                                    const Sharding& sharding,
                                    const LoweringOptions& options);

}  // namespace weft

#endif  // WEFT_COMPILER_SHARDING_LOWER_H_
