#include "compiler/order/acts.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/order/linear.h"
#include "core/base/error.h"

namespace weft {
namespace {

// Before, then phase by phase of micro-batches, then after; a shared phase when
// something needs it.
class BySections {
 public:
  BySections(absl::Span<const Unit> units, absl::Span<const UnitEdge> edges,
             const std::vector<bool>& shared)
      : shared_(shared), needs_(units.size()), placed_(units.size(), false) {
    for (const UnitEdge& e : edges) {
      if (shared[e.from]) needs_[e.to].push_back(e.from);
    }
  }

  std::vector<int> Run(absl::Span<const Unit> units, const PhaseOrder& phases) {
    std::vector<int> before, after;
    std::vector<std::vector<int>> micro(phases.spec().phases());
    for (size_t u = 0; u < units.size(); ++u) {
      std::vector<int>& part = units[u].section == Section::kBefore ? before
                               : units[u].section == Section::kAfter
                                   ? after
                                   : micro[units[u].phase];
      part.push_back(static_cast<int>(u));
    }
    Place(before);
    for (const PhaseAct& act : phases.acts()) Place(micro[act.phase]);
    Place(after);
    return std::move(order_);
  }

 private:
  void Place(const std::vector<int>& units) {
    for (int u : units) {
      if (shared_[u]) continue;
      for (int phase : needs_[u]) {
        if (placed_[phase]) continue;
        placed_[phase] = true;
        order_.push_back(phase);
      }
      order_.push_back(u);
    }
  }

  const std::vector<bool>& shared_;
  std::vector<std::vector<int>> needs_;  // shared phases, by unit
  std::vector<bool> placed_;             // of these
  std::vector<int> order_;
};

// Any topological order of the acts.
class RandomOrder {
 public:
  RandomOrder(absl::Span<const Unit> units, absl::Span<const UnitEdge> edges)
      : units_(units) {
    for (const Unit& unit : units) {
      first_.push_back(num_acts_);
      num_acts_ += unit.acts;
    }
    next_.resize(num_acts_);
    missing_.resize(num_acts_, 0);
    for (size_t u = 0; u < units.size(); ++u) {
      for (int k = 0; k + 1 < units[u].acts; ++k) {
        Edge(first_[u] + k, first_[u] + k + 1);
      }
    }
    for (const UnitEdge& e : edges) AddActs(e);
  }

  absl::StatusOr<std::vector<int>> Run(uint64_t seed) {
    std::vector<int> owner(num_acts_);
    for (size_t u = 0; u < units_.size(); ++u) {
      for (int k = 0; k < units_[u].acts; ++k) {
        owner[first_[u] + k] = static_cast<int>(u);
      }
    }
    std::vector<int> ready;
    for (int a = 0; a < num_acts_; ++a) {
      if (missing_[a] == 0) ready.push_back(a);
    }
    std::vector<int> order;
    while (!ready.empty()) {
      seed = Mix(seed);
      size_t pick = seed % ready.size();
      int act = ready[pick];
      ready.erase(ready.begin() + static_cast<int64_t>(pick));
      order.push_back(owner[act]);
      for (int s : next_[act]) {
        if (--missing_[s] == 0) ready.push_back(s);
      }
    }
    if (order.size() == owner.size()) return order;
    // What is left waits for itself, by way of copies that are too few.
    std::set<int> blocked;
    for (int a = 0; a < num_acts_; ++a) {
      if (missing_[a] > 0) blocked.insert(owner[a]);
    }
    return MakeError(
        ErrorCode::kInternal,
        absl::StrCat("no order of the acts of a period is possible: ",
                     owner.size() - order.size(), " of ", owner.size(),
                     " wait for each other, in the units ",
                     absl::StrJoin(blocked, ", ")));
  }

 private:
  void Edge(int from, int to) {
    next_[from].push_back(to);
    ++missing_[to];
  }

  void AddActs(const UnitEdge& e) {
    const int from_acts = units_[e.from].acts;
    const int to_acts = units_[e.to].acts;
    if (from_acts == to_acts) {
      for (int k = 0; k < to_acts; ++k) {
        Edge(first_[e.from] + k, first_[e.to] + k);
        // The copy that act k read is free for act k + copies.
        if (e.copies > 0 && k + e.copies < from_acts) {
          Edge(first_[e.to] + k, first_[e.from] + k + e.copies);
        }
      }
    } else {
      // Held from its only act on, or complete with its last.
      Edge(first_[e.from] + from_acts - 1, first_[e.to]);
    }
  }

  absl::Span<const Unit> units_;
  int num_acts_ = 0;
  std::vector<int> first_;
  std::vector<std::vector<int>> next_;
  std::vector<int> missing_;
};

}  // namespace

absl::StatusOr<std::vector<int>> OrderActs(absl::Span<const Unit> units,
                                           absl::Span<const UnitEdge> edges,
                                           const std::vector<bool>& shared,
                                           const PhaseOrder& phases,
                                           uint64_t seed) {
  if (seed == 0) return BySections(units, edges, shared).Run(units, phases);
  return RandomOrder(units, edges).Run(seed);
}

}  // namespace weft
