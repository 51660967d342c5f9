// CollectiveSchedule: a collective as a list of moves of blocks between
// positions of a group, in steps, the same list on every rank. Graphs
// (collective.h) and costs (cost.h) are both read off it.
//
//   CollectiveSchedule s = MakeSchedule(CollectiveKind::kAllReduce,
//                             CollectiveAlgorithm::kThreeStage, {4, 0, {}});
//   s.num_blocks;       // 4: one for each owner
//   s.steps[0].name;    // "reduce": everyone's block j goes to position j
//   s.steps[1].name;    // "distribute": position j's block j goes to everyone
//
// The tensor is cut into `num_blocks` blocks, which lie in `num_blocks` places
// of each rank; block order[v] in place v. A move takes `count` successive
// places of `from` as they were before the step, and says what `to` does with
// them.
//
// Why all ranks agree on one order: take each step's sends, then each step's
// receives, step after step. A send reads only what earlier steps left, so this
// is an order in which one machine could do the whole work of all ranks; the
// work of each rank is a part of it.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_COLLECTIVES_SCHEDULE_H_
#define WEFT_COMPILER_COLLECTIVES_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/collectives/kinds.h"

namespace weft {

enum class CollectiveAction : uint8_t {
  kStore,        // takes the place of what is there
  kReduceLeft,   // received op mine
  kReduceRight,  // mine op received
  // One of several to the same places in this step: they and the receiver's own
  // are reduced as a tree by position.
  kContribute,
};

struct CollectiveMove {
  int from = 0;
  int to = 0;
  int source = 0;  // first place at `from`
  int target = 0;  // first place at `to`
  int count = 1;
  CollectiveAction action = CollectiveAction::kStore;
};

struct CollectiveStep {
  absl::string_view name;  // "reduce"; of static storage
  std::vector<CollectiveMove> moves;
};

struct CollectiveSchedule {
  int num_blocks = 1;
  std::vector<int> order;  // place -> block
  std::vector<CollectiveStep> steps;
};

// Pre-conditions: WhyNot(kind, algorithm, group) is ""; `algorithm` is not
// kAuto; the root is in the group.
CollectiveSchedule MakeSchedule(CollectiveKind kind,
                                CollectiveAlgorithm algorithm,
                                const CollectiveGroup& group);

// The balanced cut of `total` elements: the first `total % blocks` blocks have
// one more than the others.
std::vector<int64_t> BlockSizes(int64_t total, int blocks);

}  // namespace weft

#endif  // WEFT_COMPILER_COLLECTIVES_SCHEDULE_H_
