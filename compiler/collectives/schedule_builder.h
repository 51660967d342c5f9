// CollectiveScheduleBuilder: the moves of each algorithm. schedule.cc has those
// of one or two steps and the ring, schedule_pairs.cc those by pairs and by
// hosts.
//
//   CollectiveScheduleBuilder builder(kind, group);
//   CollectiveSchedule s = builder.Build(algorithm);
//
// Threading: thread-compatible. Ownership: refers to the group.
#ifndef WEFT_COMPILER_COLLECTIVES_SCHEDULE_BUILDER_H_
#define WEFT_COMPILER_COLLECTIVES_SCHEDULE_BUILDER_H_

#include <numeric>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/collectives/kinds.h"
#include "compiler/collectives/schedule.h"

namespace weft {

// Two halves of a range of positions, each with its speaker, of which one
// speaks for both.
struct CollectiveTreePair {
  int parent, child;        // positions
  int first, count;         // the child's half
  CollectiveAction action;  // of what the parent gets
};

class CollectiveScheduleBuilder {
 public:
  CollectiveScheduleBuilder(CollectiveKind kind, const CollectiveGroup& group)
      : kind_(kind), group_(group), n_(group.size), root_(group.root) {}

  CollectiveSchedule Build(CollectiveAlgorithm algorithm);

 private:
  // The moves of the step named `name`, which comes last.
  std::vector<CollectiveMove>& Step(absl::string_view name) {
    schedule_.steps.push_back({name, {}});
    return schedule_.steps.back().moves;
  }
  void SetBlocks(int count) {
    schedule_.num_blocks = count;
    schedule_.order.resize(count);
    std::iota(schedule_.order.begin(), schedule_.order.end(), 0);
  }
  // f(from, to) for all pairs. Each rank sends to the next one first, so that
  // not all talk to the same at once.
  template <typename F>
  void ForPairs(F f) const {
    for (int distance = 1; distance < n_; ++distance) {
      for (int from = 0; from < n_; ++from) f(from, (from + distance) % n_);
    }
  }
  template <typename F>
  void ForOthers(int position, F f) const {
    for (int i = 1; i < n_; ++i) f((position + i) % n_);
  }

  void Direct();
  void ThreeStage();
  void Ring();
  void HalvingDoubling();
  void Doubling();
  void Tree();
  void Hierarchical();

  void DirectToRoot(absl::string_view name, bool own_block);
  void Owners(absl::string_view name);
  void Distribute(absl::string_view name);
  void RingReduce();
  void RingGather();
  void Halve();
  void Double();
  template <typename F>
  void ForTreePairs(int half, F f) const;
  void TreeUp();
  void TreeDown();
  void HierarchicalAllReduce();

  CollectiveKind kind_;
  const CollectiveGroup& group_;
  int n_;
  int root_;
  CollectiveSchedule schedule_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_COLLECTIVES_SCHEDULE_BUILDER_H_
