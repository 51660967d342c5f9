// What a collective costs, and which algorithm is the cheapest. Costs are read
// off the schedule that runs (schedule.h), so they cannot contradict it. A step
// takes as long as its busiest rank:
//
//   latency of its slowest link
//   + over this rank's messages out, or in, whichever is more:
//     (per_message + bytes / bandwidth of the link)
//   + bytes reduced / reduce_bytes_per_s
//
// A message whose value is read in place (Topology::Maps) has no bytes of its
// own: who reads it does so anyway. What is stored is copied once, by its owner
// where a gathering is in place, else by its reader, who puts its own part
// beside it; a sum in place leaves it there, and nobody copies.
//
// Steps follow one another: chunks, which overlap them, are not modelled.
//
//   Topology fast;  fast.across = {5e-6, 1e-6, 12e9};
//   WEFT_ASSIGN_OR_RETURN(
//       CollectiveChoice choice,
//       ChooseAlgorithm(CollectiveKind::kAllReduce, 4 << 20, {8, 0, {}},
//       fast));
//   choice.algorithm;   // and choice.explain: all, with their costs
//
// Threading: free functions, thread-safe; the same arguments give the same
// result.
#ifndef WEFT_COMPILER_COLLECTIVES_COST_H_
#define WEFT_COMPILER_COLLECTIVES_COST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/collectives/kinds.h"
#include "core/types/dtype.h"

namespace weft {

struct LinkCost {
  double latency_s = 0;      // from send to receive, of an empty message
  double per_message_s = 0;  // what each message keeps either side busy
  double bytes_per_s = 0;    // of one rank, each way
};

// The same on all ranks, and never measured by a job: plans must not depend on
// what else a machine does. Those within a host are of two processes on two
// cores of Zen 5 that poll (docs/sharding.md, "What costs are made of"); those
// across are of 10 Gbit/s Ethernet.
struct Topology {
  LinkCost in_host = {0.27e-6, 0.13e-6, 8e9};
  LinkCost across = {30e-6, 5e-6, 1.25e9};
  double reduce_bytes_per_s = 4e10;  // of operands
  // Ranks of one host read each other's values in place: of at least so many
  // bytes; what is smaller is sent. 0: they cannot.
  int64_t mapped_bytes = 0;

  bool Maps(int64_t bytes) const {
    return mapped_bytes != 0 && bytes >= mapped_bytes;
  }
};

// What else there is to know of a collective before it may be done in place.
struct CollectiveManner {
  bool micro = false;   // once for each micro-batch
  bool cut = false;     // in chunks
  bool narrow = false;  // f32 travels as bf16
};

// Whether the algorithm is done in place (collective.h): an all-reduce in three
// stages or a direct all-gather of `bytes` over all blocks, by ranks of one
// host that map each other's blocks, neither cut nor narrow. What micro-batches
// gather is not: each would lend room of its own.
bool InPlace(CollectiveKind kind, CollectiveAlgorithm algorithm, int64_t bytes,
             const CollectiveGroup& group, const Topology& topology,
             const CollectiveManner& manner = {});

// By no more ranks: weft.ReduceToAll has kernels of so many operands.
constexpr int kMostInPlace = 32;
// Blocks that are reduced or written in place begin at multiples of so many
// bytes.
constexpr int64_t kInPlaceAlignment = 64;

// Elements of a block of a sum in place, of `elements`: whole lines of memory.
// The last one has the rest, which there is where InPlace() is true; of less
// than a line for each rank a block may be more than all elements.
int64_t BlockInPlace(int64_t elements, int ranks, DType dtype);

struct CollectiveCost {
  double seconds = 0;
  int steps = 0;
  int messages = 0;          // that the busiest rank sends and receives
  int64_t rank_bytes = 0;    // that the rank which sends most sends
  int64_t total_bytes = 0;   // that all ranks send
  int64_t across_bytes = 0;  // of these, between hosts
};

// Of two ranks, or positions, as `hosts` numbers them; empty: all on one.
bool SameHost(const std::vector<std::vector<int>>& hosts, int a, int b);

// `bytes` of the whole value: n parts for all-gather and gather. Pre-condition:
// WhyNot() has no objection; not kAuto.
CollectiveCost CostOf(CollectiveKind kind, CollectiveAlgorithm algorithm,
                      int64_t bytes, const CollectiveGroup& group,
                      const Topology& topology,
                      const CollectiveManner& manner = {});

struct CollectiveChoice {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kDirect;
  CollectiveCost cost;
  // One line an algorithm: cost and class, or why it cannot be.
  std::string explain;
};

// Sends and receives of a rank that a choice does not count: so many nodes are
// in each rank's plan for each collective.
int FewMessages(int ranks);

// The cheapest; of equals the first by enumerator. Where it needs more messages
// of a rank than FewMessages, the cheapest that does not, unless that takes
// four times as long: plans must not grow as the ranks do. With `required` only
// what reduces in that class, or reduces nothing. kBadValue where none is left.
absl::StatusOr<CollectiveChoice> ChooseAlgorithm(
    CollectiveKind kind, int64_t bytes, const CollectiveGroup& group,
    const Topology& topology = {}, OrderClass required = OrderClass::kNone,
    const CollectiveManner& manner = {});

}  // namespace weft

#endif  // WEFT_COMPILER_COLLECTIVES_COST_H_
