#include "compiler/collectives/schedule.h"

#include <utility>
#include <vector>

#include "compiler/collectives/schedule_builder.h"

namespace weft {
namespace {

using Kind = CollectiveKind;
using Algorithm = CollectiveAlgorithm;
using Action = CollectiveAction;

}  // namespace

// ---- Direct, three-stage

// Everyone's part of block j to its owner, position j, which reduces.
void CollectiveScheduleBuilder::Owners(absl::string_view name) {
  std::vector<CollectiveMove>& moves = Step(name);
  ForPairs([&](int from, int to) {
    moves.push_back({from, to, to, to, 1, Action::kContribute});
  });
}

// Block j of position j to everyone who lacks it.
void CollectiveScheduleBuilder::Distribute(absl::string_view name) {
  std::vector<CollectiveMove>& moves = Step(name);
  ForPairs([&](int from, int to) {
    if (kind_ == Kind::kBroadcast && to == root_) return;
    moves.push_back({from, to, from, from, 1, Action::kStore});
  });
}

void CollectiveScheduleBuilder::DirectToRoot(absl::string_view name,
                                             bool own_block) {
  std::vector<CollectiveMove>& moves = Step(name);
  ForOthers(root_, [&](int from) {
    const int place = own_block ? from : 0;
    moves.push_back({from, root_, place, place, 1,
                     own_block ? Action::kStore : Action::kContribute});
  });
}

void CollectiveScheduleBuilder::Direct() {
  switch (kind_) {
    case Kind::kAllReduce: {
      std::vector<CollectiveMove>& moves = Step("reduce");
      ForPairs([&](int from, int to) {
        moves.push_back({from, to, 0, 0, 1, Action::kContribute});
      });
      return;
    }
    case Kind::kReduceScatter:
      SetBlocks(n_);
      return Owners("reduce");
    case Kind::kAllGather:
      SetBlocks(n_);
      return Distribute("gather");
    case Kind::kReduce:
      return DirectToRoot("reduce", false);
    case Kind::kGather:
      SetBlocks(n_);
      return DirectToRoot("gather", true);
    case Kind::kBroadcast: {
      std::vector<CollectiveMove>& moves = Step("broadcast");
      ForOthers(root_, [&](int to) { moves.push_back({root_, to}); });
      return;
    }
    case Kind::kScatter: {
      SetBlocks(n_);
      std::vector<CollectiveMove>& moves = Step("scatter");
      ForOthers(root_, [&](int to) { moves.push_back({root_, to, to, to}); });
      return;
    }
    case Kind::kAllToAll: {
      SetBlocks(n_);
      std::vector<CollectiveMove>& moves = Step("exchange");
      ForPairs([&](int from, int to) {
        moves.push_back({from, to, to, from});
      });
      return;
    }
  }
}

void CollectiveScheduleBuilder::ThreeStage() {
  SetBlocks(n_);
  if (kind_ == Kind::kBroadcast) {
    std::vector<CollectiveMove>& moves = Step("scatter");
    ForOthers(root_, [&](int to) { moves.push_back({root_, to, to, to}); });
    return Distribute("distribute");
  }
  Owners("reduce");
  if (kind_ == Kind::kAllReduce) return Distribute("distribute");
  DirectToRoot("collect", true);
}

// ---- Ring

void CollectiveScheduleBuilder::RingReduce() {
  for (int step = 0; step < n_ - 1; ++step) {
    std::vector<CollectiveMove>& moves = Step("reduce");
    for (int from = 0; from < n_; ++from) {
      const int block = (from - step - 1 + n_) % n_;
      moves.push_back(
          {from, (from + 1) % n_, block, block, 1, Action::kReduceLeft});
    }
  }
}

void CollectiveScheduleBuilder::RingGather() {
  for (int step = 0; step < n_ - 1; ++step) {
    std::vector<CollectiveMove>& moves = Step("gather");
    for (int from = 0; from < n_; ++from) {
      const int block = (from - step + n_) % n_;
      moves.push_back({from, (from + 1) % n_, block, block});
    }
  }
}

void CollectiveScheduleBuilder::Ring() {
  if (kind_ == Kind::kBroadcast) {  // a chain; chunks follow one another on it
    for (int step = 0; step < n_ - 1; ++step) {
      Step("broadcast")
          .push_back({(root_ + step) % n_, (root_ + step + 1) % n_});
    }
    return;
  }
  SetBlocks(n_);
  if (Reduces(kind_)) RingReduce();
  if (kind_ == Kind::kReduce) DirectToRoot("collect", true);
  if (kind_ == Kind::kAllReduce || kind_ == Kind::kAllGather) RingGather();
}

CollectiveSchedule CollectiveScheduleBuilder::Build(Algorithm algorithm) {
  SetBlocks(1);
  switch (algorithm) {
    case Algorithm::kAuto:
    case Algorithm::kDirect:
      Direct();
      break;
    case Algorithm::kThreeStage:
      ThreeStage();
      break;
    case Algorithm::kRing:
      Ring();
      break;
    case Algorithm::kHalvingDoubling:
      HalvingDoubling();
      break;
    case Algorithm::kTree:
      Tree();
      break;
    case Algorithm::kDoubling:
      Doubling();
      break;
    case Algorithm::kHierarchical:
      Hierarchical();
      break;
  }
  return std::move(schedule_);
}

CollectiveSchedule MakeSchedule(CollectiveKind kind,
                                CollectiveAlgorithm algorithm,
                                const CollectiveGroup& group) {
  return CollectiveScheduleBuilder(kind, group).Build(algorithm);
}

std::vector<int64_t> BlockSizes(int64_t total, int blocks) {
  std::vector<int64_t> sizes(blocks, total / blocks);
  for (int b = 0; b < total % blocks; ++b) ++sizes[b];
  return sizes;
}

}  // namespace weft
