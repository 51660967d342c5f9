#include "compiler/collectives/schedule.h"

#include <utility>
#include <vector>

#include "compiler/collectives/schedule_builder.h"

namespace weft {
namespace {

using Kind = CollectiveKind;
using Algorithm = CollectiveAlgorithm;
using Action = MoveAction;

}  // namespace

// ---- Direct, three-stage

// Everyone's part of block j to its owner, position j, which reduces.
void ScheduleBuilder::Owners(absl::string_view name) {
  std::vector<Move>& moves = Step(name);
  ForPairs([&](int from, int to) {
    moves.push_back({from, to, to, to, 1, Action::kContribute});
  });
}

// Block j of position j to everyone who lacks it.
void ScheduleBuilder::Distribute(absl::string_view name) {
  std::vector<Move>& moves = Step(name);
  ForPairs([&](int from, int to) {
    if (kind_ == Kind::kBroadcast && to == root_) return;
    moves.push_back({from, to, from, from, 1, Action::kStore});
  });
}

void ScheduleBuilder::DirectToRoot(absl::string_view name, bool own_block) {
  std::vector<Move>& moves = Step(name);
  ForOthers(root_, [&](int from) {
    const int place = own_block ? from : 0;
    moves.push_back({from, root_, place, place, 1,
                     own_block ? Action::kStore : Action::kContribute});
  });
}

void ScheduleBuilder::Direct() {
  switch (kind_) {
    case Kind::kAllReduce: {
      std::vector<Move>& moves = Step("reduce");
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
      std::vector<Move>& moves = Step("broadcast");
      ForOthers(root_, [&](int to) { moves.push_back({root_, to}); });
      return;
    }
    case Kind::kScatter: {
      SetBlocks(n_);
      std::vector<Move>& moves = Step("scatter");
      ForOthers(root_, [&](int to) { moves.push_back({root_, to, to, to}); });
      return;
    }
    case Kind::kAllToAll: {
      SetBlocks(n_);
      std::vector<Move>& moves = Step("exchange");
      ForPairs([&](int from, int to) {
        moves.push_back({from, to, to, from});
      });
      return;
    }
  }
}

void ScheduleBuilder::ThreeStage() {
  SetBlocks(n_);
  if (kind_ == Kind::kBroadcast) {
    std::vector<Move>& moves = Step("scatter");
    ForOthers(root_, [&](int to) { moves.push_back({root_, to, to, to}); });
    return Distribute("distribute");
  }
  Owners("reduce");
  if (kind_ == Kind::kAllReduce) return Distribute("distribute");
  DirectToRoot("collect", true);
}

// ---- Ring

void ScheduleBuilder::RingReduce() {
  for (int step = 0; step < n_ - 1; ++step) {
    std::vector<Move>& moves = Step("reduce");
    for (int from = 0; from < n_; ++from) {
      const int block = (from - step - 1 + n_) % n_;
      moves.push_back(
          {from, (from + 1) % n_, block, block, 1, Action::kReduceLeft});
    }
  }
}

void ScheduleBuilder::RingGather() {
  for (int step = 0; step < n_ - 1; ++step) {
    std::vector<Move>& moves = Step("gather");
    for (int from = 0; from < n_; ++from) {
      const int block = (from - step + n_) % n_;
      moves.push_back({from, (from + 1) % n_, block, block});
    }
  }
}

void ScheduleBuilder::Ring() {
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

Schedule ScheduleBuilder::Build(Algorithm algorithm) {
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
    case Algorithm::kHierarchical:
      Hierarchical();
      break;
  }
  return std::move(schedule_);
}

Schedule MakeSchedule(CollectiveKind kind, CollectiveAlgorithm algorithm,
                      const CollectiveGroup& group) {
  return ScheduleBuilder(kind, group).Build(algorithm);
}

std::vector<int64_t> BlockSizes(int64_t total, int blocks) {
  std::vector<int64_t> sizes(blocks, total / blocks);
  for (int b = 0; b < total % blocks; ++b) ++sizes[b];
  return sizes;
}

}  // namespace weft
