// Halving-doubling, doubling, tree and hierarchical.
#include <algorithm>
#include <vector>

#include "compiler/collectives/schedule_builder.h"

namespace weft {
namespace {

using Kind = CollectiveKind;
using Action = CollectiveAction;

}  // namespace

// ---- Halving-doubling

// Each pair halves the places that both hold: bit `bit` of a position says
// which half is its own. At the end position p has the one place whose number
// is p with its bits reversed.
void CollectiveScheduleBuilder::Halve() {
  std::vector<int> first(n_, 0);
  int half = n_ / 2;
  for (int bit = 1; bit < n_; bit *= 2, half /= 2) {
    std::vector<CollectiveMove>& moves = Step("reduce");
    for (int from = 0; from < n_; ++from) {
      const bool upper = (from & bit) != 0;  // and the partner is below
      const int given = first[from] + (upper ? 0 : half);
      moves.push_back({from, from ^ bit, given, given, half,
                       upper ? Action::kReduceRight : Action::kReduceLeft});
    }
    for (int p = 0; p < n_; ++p) first[p] += (p & bit) != 0 ? half : 0;
  }
}

void CollectiveScheduleBuilder::Double() {
  std::vector<int> first(n_, 0);
  for (int p = 0; p < n_; ++p) {
    int half = n_ / 2;
    for (int bit = 1; bit < n_; bit *= 2, half /= 2) {
      first[p] += (p & bit) != 0 ? half : 0;
    }
  }
  int held = 1;
  for (int bit = n_ / 2; bit >= 1; bit /= 2, held *= 2) {
    std::vector<CollectiveMove>& moves = Step("gather");
    for (int from = 0; from < n_; ++from) {
      moves.push_back({from, from ^ bit, first[from], first[from], held});
    }
    for (int p = 0; p < n_; ++p) first[p] -= (p & bit) != 0 ? held : 0;
  }
}

void CollectiveScheduleBuilder::HalvingDoubling() {
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

// ---- Doubling

// Before the step of bit `bit` each position has the sum over those that differ
// from it in lower bits only.
void CollectiveScheduleBuilder::Doubling() {
  for (int bit = 1; bit < n_; bit *= 2) {
    std::vector<CollectiveMove>& moves = Step("reduce");
    for (int from = 0; from < n_; ++from) {
      moves.push_back(
          {from, from ^ bit, 0, 0, 1,
           (from & bit) == 0 ? Action::kReduceLeft : Action::kReduceRight});
    }
  }
}

// ---- Tree
//
// A node of the tree is a range of positions [lo, hi) of the class TREE. What
// is summed or gathered over it lies with one of them: the root where it is
// among them, else the lowest.

template <typename F>
void CollectiveScheduleBuilder::ForTreePairs(int half, F f) const {
  for (int lo = 0; lo + half < n_; lo += 2 * half) {
    const int mid = lo + half, hi = std::min(mid + half, n_);
    const bool root_left = root_ >= lo && root_ < mid;
    const bool root_right = root_ >= mid && root_ < hi;
    const int left = root_left ? root_ : lo, right = root_right ? root_ : mid;
    if (root_right) {
      f(CollectiveTreePair{right, left, lo, half, Action::kReduceLeft});
    } else {
      f(CollectiveTreePair{left, right, mid, hi - mid, Action::kReduceRight});
    }
  }
}

void CollectiveScheduleBuilder::TreeUp() {
  const bool gathers = kind_ == Kind::kGather;
  for (int half = 1; half < n_; half *= 2) {
    std::vector<CollectiveMove>& moves = Step(gathers ? "gather" : "reduce");
    ForTreePairs(half, [&](const CollectiveTreePair& p) {
      if (gathers) {
        moves.push_back({p.child, p.parent, p.first, p.first, p.count});
      } else {
        moves.push_back({p.child, p.parent, 0, 0, 1, p.action});
      }
    });
  }
}

void CollectiveScheduleBuilder::TreeDown() {
  const bool scatters = kind_ == Kind::kScatter;
  int half = 1;
  while (half * 2 < n_) half *= 2;
  for (; half >= 1; half /= 2) {
    std::vector<CollectiveMove>& moves =
        Step(scatters ? "scatter" : "broadcast");
    ForTreePairs(half, [&](const CollectiveTreePair& p) {
      if (scatters) {
        moves.push_back({p.parent, p.child, p.first, p.first, p.count});
      } else {
        moves.push_back({p.parent, p.child});
      }
    });
  }
}

void CollectiveScheduleBuilder::Tree() {
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
void CollectiveScheduleBuilder::HierarchicalAllReduce() {
  const int size = AlignedHostSize(group_), hosts = n_ / size;
  SetBlocks(n_);
  auto within = [&](absl::string_view name, bool reduce) {
    std::vector<CollectiveMove>& moves = Step(name);
    ForPairs([&](int from, int to) {
      if (from / size != to / size) return;
      const int place = (reduce ? to : from) % size * hosts;
      moves.push_back({from, to, place, place, hosts,
                       reduce ? Action::kContribute : Action::kStore});
    });
  };
  auto across = [&](absl::string_view name, bool reduce) {
    std::vector<CollectiveMove>& moves = Step(name);
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

void CollectiveScheduleBuilder::Hierarchical() {
  if (kind_ == Kind::kAllReduce) return HierarchicalAllReduce();
  // The member of each host with the root's number there speaks for its host.
  const int size = AlignedHostSize(group_);
  const bool reduce = kind_ == Kind::kReduce;
  auto add = [&](std::vector<CollectiveMove>& moves, int speaker, int other) {
    if (reduce) {
      moves.push_back({other, speaker, 0, 0, 1, Action::kContribute});
    } else {
      moves.push_back({speaker, other});
    }
  };
  auto within = [&] {
    std::vector<CollectiveMove>& moves =
        Step(reduce ? "reduce in hosts" : "broadcast in hosts");
    for (int p = 0; p < n_; ++p) {
      const int speaker = p / size * size + root_ % size;
      if (p != speaker) add(moves, speaker, p);
    }
  };
  auto across = [&] {
    std::vector<CollectiveMove>& moves =
        Step(reduce ? "reduce across hosts" : "broadcast across hosts");
    for (int p = root_ % size; p < n_; p += size) {
      if (p != root_) add(moves, root_, p);
    }
  };
  if (reduce) within();
  across();
  if (!reduce) within();
}

}  // namespace weft
