#include "compiler/sharding/elimination.h"

#include <algorithm>
#include <map>
#include <set>

namespace weft {

Elimination::Elimination(std::vector<int> choices)
    : choices_(std::move(choices)), at_(choices_.size(), 0) {}

void Elimination::Add(std::vector<int> variables, std::vector<double> costs) {
  factors_.push_back({std::move(variables), std::move(costs)});
}

std::optional<std::vector<int>> Elimination::Order(double most_work) const {
  std::map<int, std::set<int>> left;  // neighbours
  for (const Factor& f : factors_) {
    for (int v : f.variables) {
      left[v].insert(f.variables.begin(), f.variables.end());
    }
  }
  for (auto& [v, neighbours] : left) neighbours.erase(v);
  std::vector<int> order;
  double work = 0;
  while (!left.empty()) {
    int next = -1;
    double least = 0;
    for (const auto& [v, neighbours] : left) {
      double size = choices_[v];
      for (int other : neighbours) size *= choices_[other];
      if (next < 0 || size < least) {
        next = v;
        least = size;
      }
    }
    work += least;
    if (work > most_work) return std::nullopt;
    const std::set<int> neighbours = std::move(left[next]);
    left.erase(next);
    for (int other : neighbours) {
      left[other].insert(neighbours.begin(), neighbours.end());
      left[other].erase(other);
      left[other].erase(next);
    }
    order.push_back(next);
  }
  return order;
}

void Elimination::Solve(const std::vector<int>& order,
                        std::vector<int>* choice) {
  for (int v : order) Eliminate(v);
  // The last one's choice follows from nobody's.
  for (auto s = solved_.rbegin(); s != solved_.rend(); ++s) {
    at_[s->variable] = s->choice[RowOf(s->others)];
    (*choice)[s->variable] = at_[s->variable];
  }
}

void Elimination::Eliminate(int v) {
  const auto mine = std::stable_partition(
      factors_.begin(), factors_.end(), [v](const Factor& f) {
        return std::find(f.variables.begin(), f.variables.end(), v) ==
               f.variables.end();
      });
  std::set<int> others;
  for (auto f = mine; f != factors_.end(); ++f) {
    others.insert(f->variables.begin(), f->variables.end());
  }
  others.erase(v);
  Solved solved = {v, {others.begin(), others.end()}, {}};
  Factor least = {solved.others, {}};
  size_t rows = 1;
  for (int other : others) rows *= choices_[other];
  for (size_t row = 0; row < rows; ++row) {
    SetRow(solved.others, row);
    const auto [best, cost] = Best(v, mine - factors_.begin());
    solved.choice.push_back(best);
    least.costs.push_back(cost);
  }
  factors_.erase(mine, factors_.end());
  factors_.push_back(std::move(least));
  solved_.push_back(std::move(solved));
}

std::pair<int, double> Elimination::Best(int v, size_t first) {
  std::pair<int, double> best = {0, 0};
  for (at_[v] = 0; at_[v] < choices_[v]; ++at_[v]) {
    double cost = 0;
    for (size_t f = first; f < factors_.size(); ++f) {
      cost += factors_[f].costs[RowOf(factors_[f].variables)];
    }
    if (at_[v] == 0 || cost < best.second) best = {at_[v], cost};
  }
  return best;
}

size_t Elimination::RowOf(const std::vector<int>& variables) const {
  size_t row = 0;
  for (int v : variables) row = row * choices_[v] + at_[v];
  return row;
}

void Elimination::SetRow(const std::vector<int>& variables, size_t row) {
  for (auto v = variables.rbegin(); v != variables.rend(); ++v) {
    at_[*v] = static_cast<int>(row % choices_[*v]);
    row /= choices_[*v];
  }
}

}  // namespace weft
