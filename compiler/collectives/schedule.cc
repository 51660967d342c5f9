#include "compiler/collectives/schedule.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace weft {
namespace {

using Kind = CollectiveKind;
using Algorithm = CollectiveAlgorithm;
using Action = MoveAction;

class Builder {
 public:
  Builder(Kind kind, const CollectiveGroup& group)
      : kind_(kind), group_(group), n_(group.size), root_(group.root) {}

  Schedule Build(Algorithm algorithm);

 private:
  // The moves of the step named `name`, which comes last.
  std::vector<Move>& Step(absl::string_view name) {
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
  void Tree();
  void Hierarchical();

  void DirectToRoot(absl::string_view name, bool own_block);
  void Owners(absl::string_view name);
  void Distribute(absl::string_view name);
  void RingReduce();
  void RingGather();
  void Halve();
  void Double();
  void TreeUp();
  void TreeDown();
  void HierarchicalAllReduce();

  Kind kind_;
  const CollectiveGroup& group_;
  int n_;
  int root_;
  Schedule schedule_;
};

// ---- Direct, three-stage

// Everyone's part of block j to its owner, position j, which reduces.
void Builder::Owners(absl::string_view name) {
  std::vector<Move>& moves = Step(name);
  ForPairs([&](int from, int to) {
    moves.push_back({from, to, to, to, 1, Action::kContribute});
  });
}

// Block j of position j to everyone who lacks it.
void Builder::Distribute(absl::string_view name) {
  std::vector<Move>& moves = Step(name);
  ForPairs([&](int from, int to) {
    if (kind_ == Kind::kBroadcast && to == root_) return;
    moves.push_back({from, to, from, from, 1, Action::kStore});
  });
}

void Builder::DirectToRoot(absl::string_view name, bool own_block) {
  std::vector<Move>& moves = Step(name);
  ForOthers(root_, [&](int from) {
    const int place = own_block ? from : 0;
    moves.push_back({from, root_, place, place, 1,
                     own_block ? Action::kStore : Action::kContribute});
  });
}

void Builder::Direct() {
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

void Builder::ThreeStage() {
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

void Builder::RingReduce() {
  for (int step = 0; step < n_ - 1; ++step) {
    std::vector<Move>& moves = Step("reduce");
    for (int from = 0; from < n_; ++from) {
      const int block = (from - step - 1 + n_) % n_;
      moves.push_back(
          {from, (from + 1) % n_, block, block, 1, Action::kReduceLeft});
    }
  }
}

void Builder::RingGather() {
  for (int step = 0; step < n_ - 1; ++step) {
    std::vector<Move>& moves = Step("gather");
    for (int from = 0; from < n_; ++from) {
      const int block = (from - step + n_) % n_;
      moves.push_back({from, (from + 1) % n_, block, block});
    }
  }
}

void Builder::Ring() {
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

// ---- Halving-doubling

// Each pair halves the places that both hold: bit `bit` of a position says
// which half is its own. At the end position p has the one place whose number
// is p with its bits reversed.
void Builder::Halve() {
  std::vector<int> first(n_, 0);
  int half = n_ / 2;
  for (int bit = 1; bit < n_; bit *= 2, half /= 2) {
    std::vector<Move>& moves = Step("reduce");
    for (int from = 0; from < n_; ++from) {
      const bool upper = (from & bit) != 0;  // and the partner is below
      const int given = first[from] + (upper ? 0 : half);
      moves.push_back({from, from ^ bit, given, given, half,
                       upper ? Action::kReduceRight : Action::kReduceLeft});
    }
    for (int p = 0; p < n_; ++p) first[p] += (p & bit) != 0 ? half : 0;
  }
}

void Builder::Double() {
  std::vector<int> first(n_, 0);
  for (int p = 0; p < n_; ++p) {
    int half = n_ / 2;
    for (int bit = 1; bit < n_; bit *= 2, half /= 2) {
      first[p] += (p & bit) != 0 ? half : 0;
    }
  }
  int held = 1;
  for (int bit = n_ / 2; bit >= 1; bit /= 2, held *= 2) {
    std::vector<Move>& moves = Step("gather");
    for (int from = 0; from < n_; ++from) {
      moves.push_back({from, from ^ bit, first[from], first[from], held});
    }
    for (int p = 0; p < n_; ++p) first[p] -= (p & bit) != 0 ? held : 0;
  }
}

void Builder::HalvingDoubling() {
  SetBlocks(n_);
  if (kind_ != Kind::kAllReduce) {
    // Position p must end (or starts) with block p, which is in its last place.
    for (int place = 0; place < n_; ++place) {
      int reversed = 0;
      for (int bit = 1, back = n_ / 2; bit < n_; bit *= 2, back /= 2) {
        if ((place & bit) != 0) reversed |= back;
      }
      schedule_.order[place] = reversed;
    }
  }
  if (kind_ != Kind::kAllGather) Halve();
  if (kind_ != Kind::kReduceScatter) Double();
}

// ---- Tree
//
// A node of the tree is a range of positions [lo, hi) of the class TREE. What
// is summed or gathered over it lies with one of them: the root where it is
// among them, else the lowest.

void Builder::TreeUp() {
  const bool gathers = kind_ == Kind::kGather;
  for (int half = 1; half < n_; half *= 2) {
    std::vector<Move>& moves = Step(gathers ? "gather" : "reduce");
    for (int lo = 0; lo + half < n_; lo += 2 * half) {
      const int mid = lo + half, hi = std::min(mid + half, n_);
      const bool root_left = root_ >= lo && root_ < mid;
      const bool root_right = root_ >= mid && root_ < hi;
      const int left = root_left ? root_ : lo;
      const int right = root_right ? root_ : mid;
      Move move = root_right ? Move{left, right} : Move{right, left};
      move.action = root_right ? Action::kReduceLeft : Action::kReduceRight;
      if (gathers) {
        move.source = move.target = root_right ? lo : mid;
        move.count = root_right ? half : hi - mid;
        move.action = Action::kStore;
      }
      moves.push_back(move);
    }
  }
}

void Builder::TreeDown() {
  const bool scatters = kind_ == Kind::kScatter;
  int half = 1;
  while (half * 2 < n_) half *= 2;
  for (; half >= 1; half /= 2) {
    std::vector<Move>& moves = Step(scatters ? "scatter" : "broadcast");
    for (int lo = 0; lo + half < n_; lo += 2 * half) {
      const int mid = lo + half, hi = std::min(mid + half, n_);
      const bool root_left = root_ >= lo && root_ < mid;
      const bool root_right = root_ >= mid && root_ < hi;
      const int left = root_left ? root_ : lo;
      const int right = root_right ? root_ : mid;
      Move move = root_right ? Move{right, left} : Move{left, right};
      if (scatters) {
        move.source = move.target = root_right ? lo : mid;
        move.count = root_right ? half : hi - mid;
      }
      moves.push_back(move);
    }
  }
}

void Builder::Tree() {
  if (kind_ == Kind::kAllReduce) root_ = 0;
  if (kind_ == Kind::kGather || kind_ == Kind::kScatter) SetBlocks(n_);
  if (Reduces(kind_) || kind_ == Kind::kGather) TreeUp();
  if (!HasRoot(kind_) || kind_ == Kind::kBroadcast || kind_ == Kind::kScatter) {
    TreeDown();
  }
}

// ---- Hierarchical
//
// Position p is member p % size of host p / size.

// Member j owns the j-th part of the tensor within its host; the members j of
// all hosts own a block each of that part.
void Builder::HierarchicalAllReduce() {
  const int size = AlignedHostSize(group_), hosts = n_ / size;
  SetBlocks(n_);
  auto within = [&](absl::string_view name, bool reduce) {
    std::vector<Move>& moves = Step(name);
    ForPairs([&](int from, int to) {
      if (from / size != to / size) return;
      const int place = (reduce ? to : from) % size * hosts;
      moves.push_back({from, to, place, place, hosts,
                       reduce ? Action::kContribute : Action::kStore});
    });
  };
  auto across = [&](absl::string_view name, bool reduce) {
    std::vector<Move>& moves = Step(name);
    ForPairs([&](int from, int to) {
      if (from % size != to % size) return;
      const int place = from % size * hosts + (reduce ? to : from) / size;
      moves.push_back({from, to, place, place, 1,
                       reduce ? Action::kContribute : Action::kStore});
    });
  };
  within("reduce in hosts", true);
  across("reduce across hosts", true);
  across("distribute across hosts", false);
  within("distribute in hosts", false);
}

void Builder::Hierarchical() {
  if (kind_ == Kind::kAllReduce) return HierarchicalAllReduce();
  // The member of each host with the root's number there speaks for its host.
  const int size = AlignedHostSize(group_);
  const bool reduce = kind_ == Kind::kReduce;
  auto add = [&](std::vector<Move>& moves, int speaker, int other) {
    if (reduce) {
      moves.push_back({other, speaker, 0, 0, 1, Action::kContribute});
    } else {
      moves.push_back({speaker, other});
    }
  };
  auto within = [&] {
    std::vector<Move>& moves =
        Step(reduce ? "reduce in hosts" : "broadcast in hosts");
    for (int p = 0; p < n_; ++p) {
      const int speaker = p / size * size + root_ % size;
      if (p != speaker) add(moves, speaker, p);
    }
  };
  auto across = [&] {
    std::vector<Move>& moves =
        Step(reduce ? "reduce across hosts" : "broadcast across hosts");
    for (int p = root_ % size; p < n_; p += size) {
      if (p != root_) add(moves, root_, p);
    }
  };
  if (reduce) within();
  across();
  if (!reduce) within();
}

Schedule Builder::Build(Algorithm algorithm) {
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

}  // namespace

Schedule MakeSchedule(CollectiveKind kind, CollectiveAlgorithm algorithm,
                      const CollectiveGroup& group) {
  return Builder(kind, group).Build(algorithm);
}

std::vector<int64_t> BlockSizes(int64_t total, int blocks) {
  std::vector<int64_t> sizes(blocks, total / blocks);
  for (int b = 0; b < total % blocks; ++b) ++sizes[b];
  return sizes;
}

bool HasBefore(CollectiveKind kind, const CollectiveGroup& group, int position,
               int block) {
  switch (kind) {
    case Kind::kAllGather:
    case Kind::kGather:
      return block == position;
    case Kind::kBroadcast:
    case Kind::kScatter:
      return position == group.root;
    default:
      return true;
  }
}

bool HasAfter(CollectiveKind kind, const CollectiveGroup& group, int position,
              int block) {
  switch (kind) {
    case Kind::kReduceScatter:
    case Kind::kScatter:
      return block == position;
    case Kind::kReduce:
    case Kind::kGather:
      return position == group.root;
    default:
      return true;
  }
}

}  // namespace weft
