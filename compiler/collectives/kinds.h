// Words of collective communication: what a group of ranks exchanges (kind),
// along which paths (algorithm), by which reduction, and in which order numbers
// are reduced (order class). Results of one order class are equal bit for bit;
// nothing is claimed across classes.
//
//   OrderClassOf(CollectiveKind::kAllReduce, CollectiveAlgorithm::kRing);
//   // OrderClass::kRing
//   WhyNot(CollectiveKind::kGather, CollectiveAlgorithm::kRing, {4, 0, {}});
//   // "ring cannot do gather"
//
// A *group* is an ordered list of ranks; everything here counts by *position*
// in it, from 0, and knows no rank numbers.
//
// TREE, the order of all algorithms but the ring: the sum over positions
// [lo, hi) is the sum over [lo, mid) plus the sum over [mid, hi), the lower
// positions on the left, where mid - lo is the largest power of two below
// hi - lo:
//
//   8 ranks: ((0+1)+(2+3))+((4+5)+(6+7))      7: ((0+1)+(2+3))+((4+5)+6)
//
// It is the tree of weft.Accumulate, so a sum over the micro-batches of each
// rank and then over ranks is the sum over all micro-batches where each rank
// has the same power of two of them.
//
// RING: the tensor is cut into one block per position (see BlockSizes of
// schedule.h); block b is summed from position b + 1 around to b:
// ((b+1) + (b+2)) + ... + b. It depends on the number of ranks and on where the
// blocks lie, not on chunks.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_COLLECTIVES_KINDS_H_
#define WEFT_COMPILER_COLLECTIVES_KINDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/types/reduce_op.h"

namespace weft {

enum class CollectiveKind : uint8_t {
  kAllReduce,      // everyone gets the reduction of all
  kReduceScatter,  // position i gets part i of the reduction
  kAllGather,      // everyone gets all parts, joined
  kBroadcast,      // everyone gets the root's
  kReduce,         // the root gets the reduction
  kGather,         // the root gets all parts, joined
  kScatter,        // position i gets part i of the root's
  kAllToAll,       // position i gets part i of everyone's, joined
};
inline constexpr int kNumCollectiveKinds = 8;

enum class CollectiveAlgorithm : uint8_t {
  kAuto,        // the cheapest (cost.h)
  kDirect,      // all that a rank needs comes from its source in one step
  kThreeStage,  // by balanced owners: parts to owners, reduce, results to all
  kRing,        // each rank talks to its two neighbours only
  kHalvingDoubling,  // pairs, nearest first; a power of two of ranks
  kTree,             // binomial
  kHierarchical,     // within hosts, then across, then within
  kDoubling,         // pairs, nearest first, swap sums; a power of two of ranks
};
inline constexpr int kNumCollectiveAlgorithms = 8;

enum class OrderClass : uint8_t {
  kNone,  // nothing is reduced: the bits are those that were sent
  kTree,
  kRing,
};

// "all-reduce", "three-stage", "sum", "TREE".
absl::string_view Name(CollectiveKind kind);
absl::string_view Name(CollectiveAlgorithm algorithm);
absl::string_view Name(OrderClass order);

// All-reduce, reduce-scatter and reduce.
bool Reduces(CollectiveKind kind);
// Broadcast, reduce, gather and scatter.
bool HasRoot(CollectiveKind kind);
// Reduce-scatter, scatter and all-to-all: the operand is split among positions.
bool Splits(CollectiveKind kind);

// Pre-condition: `algorithm` is not kAuto.
OrderClass OrderClassOf(CollectiveKind kind, CollectiveAlgorithm algorithm);

struct CollectiveGroup {
  int size = 1;
  int root = 0;  // position; of kinds that have one
  // Positions on each host. Empty: all on one.
  std::vector<std::vector<int>> hosts;
};

// Ranks per host where all hosts have the same number, a power of two, and hold
// successive positions in order: then the sum over a host is a part of TREE.
// 0 otherwise, and where no hosts are known.
int AlignedHostSize(const CollectiveGroup& group);

// Whether there is such an algorithm for the kind, in some group.
bool Exists(CollectiveKind kind, CollectiveAlgorithm algorithm);

// Why `algorithm` cannot do `kind` in this group, in words; "" where it can.
std::string WhyNot(CollectiveKind kind, CollectiveAlgorithm algorithm,
                   const CollectiveGroup& group);

// Those that can, by enumerator, without kAuto.
std::vector<CollectiveAlgorithm> AlgorithmsFor(CollectiveKind kind,
                                               const CollectiveGroup& group);
// As text: "direct, three-stage, tree".
std::string AlgorithmNamesFor(CollectiveKind kind,
                              const CollectiveGroup& group);

// Whether `position` has `block` (of schedule.h) before and after. With
// all-to-all, where block i is what goes to, and then what came from, position
// i, always.
bool HasBefore(CollectiveKind kind, const CollectiveGroup& group, int position,
               int block);
bool HasAfter(CollectiveKind kind, const CollectiveGroup& group, int position,
              int block);

}  // namespace weft

#endif  // WEFT_COMPILER_COLLECTIVES_KINDS_H_
