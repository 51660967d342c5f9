#include "compiler/sharding/min_sum.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "compiler/sharding/elimination.h"

namespace weft {

int MinSum::AddVariable(std::vector<double> costs) {
  costs_.push_back(std::move(costs));
  pairs_.emplace_back();
  return static_cast<int>(costs_.size()) - 1;
}

void MinSum::AddPair(int a, int b, const std::vector<double>& costs) {
  const int na = Choices(a), nb = Choices(b);
  Table& there = pairs_[a][b];
  Table& back = pairs_[b][a];
  there.resize(costs.size(), 0);
  back.resize(costs.size(), 0);
  for (int i = 0; i < na; ++i) {
    for (int j = 0; j < nb; ++j) {
      there[i * nb + j] += costs[i * nb + j];
      back[j * na + i] += costs[i * nb + j];
    }
  }
}

void MinSum::Eliminate(int v) {
  Gone gone;
  gone.variable = v;
  std::map<int, Table> pairs = std::move(pairs_[v]);
  pairs_[v].clear();
  auto it = pairs.begin();
  const Table* left = nullptr;
  const Table* right = nullptr;
  if (it != pairs.end()) {
    gone.left = it->first;
    left = &(it++)->second;
  }
  if (it != pairs.end()) {
    gone.right = it->first;
    right = &it->second;
  }
  const int nl = left != nullptr ? Choices(gone.left) : 1;
  const int nr = right != nullptr ? Choices(gone.right) : 1;
  Table best(nl * nr);
  for (int l = 0; l < nl; ++l) {
    for (int r = 0; r < nr; ++r) {
      int choice = 0;
      double least = 0;
      for (int c = 0; c < Choices(v); ++c) {
        double cost = costs_[v][c];
        if (left != nullptr) cost += (*left)[c * nl + l];
        if (right != nullptr) cost += (*right)[c * nr + r];
        if (c == 0 || cost < least) {
          least = cost;
          choice = c;
        }
      }
      best[l * nr + r] = least;
      gone.choice.push_back(choice);
    }
  }
  if (gone.left >= 0) pairs_[gone.left].erase(v);
  if (gone.right >= 0) {
    pairs_[gone.right].erase(v);
    AddPair(gone.left, gone.right, best);
  } else if (gone.left >= 0) {
    for (int l = 0; l < nl; ++l) costs_[gone.left][l] += best[l];
  }
  gone_[v] = true;
  order_.push_back(std::move(gone));
}

double MinSum::CostOf(int v, int c, const std::vector<int>& choice) const {
  double cost = costs_[v][c];
  for (const auto& [other, table] : pairs_[v]) {
    cost += table[c * Choices(other) + choice[other]];
  }
  return cost;
}

void MinSum::Improve(const std::vector<int>& core,
                     std::vector<int>* choice) const {
  // Each change lowers the total, so it ends; the bound is for rounding.
  for (int round = 0; round < 100; ++round) {
    bool changed = false;
    for (int v : core) {
      int best = (*choice)[v];
      double least = CostOf(v, best, *choice);
      for (int c = 0; c < Choices(v); ++c) {
        const double cost = CostOf(v, c, *choice);
        if (cost < least) {
          least = cost;
          best = c;
        }
      }
      changed = changed || best != (*choice)[v];
      (*choice)[v] = best;
    }
    if (!changed) return;
  }
}

double MinSum::Total(const std::vector<int>& core,
                     const std::vector<int>& choice) const {
  double total = 0;
  for (int v : core) {
    total += costs_[v][choice[v]];
    for (const auto& [other, table] : pairs_[v]) {
      if (other > v) {
        total += table[choice[v] * Choices(other) + choice[other]];
      }
    }
  }
  return total;
}

bool MinSum::SolveCore(const std::vector<int>& core,
                       std::vector<int>* choice) const {
  constexpr size_t kMostVariables = 200;
  constexpr double kMostWork = 3e5;  // costs that are compared
  if (core.size() > kMostVariables) return false;
  std::vector<int> choices;
  for (const std::vector<double>& costs : costs_) {
    choices.push_back(static_cast<int>(costs.size()));
  }
  Elimination elimination(std::move(choices));
  for (int v : core) {
    elimination.Add({v}, costs_[v]);
    for (const auto& [other, table] : pairs_[v]) {
      if (v < other) elimination.Add({v, other}, table);
    }
  }
  const std::optional<std::vector<int>> order = elimination.Order(kMostWork);
  if (order.has_value()) elimination.Solve(*order, choice);
  return order.has_value();
}

std::vector<bool> MinSum::Hold(const std::vector<int>& core,
                               std::vector<int>* times) const {
  std::vector<std::vector<int>> left(costs_.size());  // neighbours
  for (int v : core) {
    for (const auto& [other, table] : pairs_[v]) left[v].push_back(other);
  }
  std::vector<bool> held(costs_.size(), false);
  // Least first: who can leave, then who is to be held.
  using Rank = std::tuple<bool, int, size_t, int>;
  const auto rank_of = [&](int v) {
    const size_t degree = left[v].size();
    return degree <= 2 ? Rank(false, 0, degree, v)
                       : Rank(true, (*times)[v], ~degree, v);
  };
  std::set<Rank> queue;
  for (int v : core) queue.insert(rank_of(v));
  while (!queue.empty()) {
    const int v = std::get<3>(*queue.begin());
    queue.erase(queue.begin());
    const std::vector<int> neighbours = std::move(left[v]);
    held[v] = neighbours.size() > 2;
    if (held[v]) ++(*times)[v];
    for (int other : neighbours) {
      queue.erase(rank_of(other));
      std::vector<int>& mine = left[other];
      mine.erase(std::find(mine.begin(), mine.end(), v));
      for (int third : neighbours) {
        const bool joins =
            !held[v] && third != other &&
            std::find(mine.begin(), mine.end(), third) == mine.end();
        if (joins) mine.push_back(third);
      }
      queue.insert(rank_of(other));
    }
  }
  return held;
}

std::vector<int> MinSum::SolveOthers(const std::vector<int>& core,
                                     const std::vector<bool>& held,
                                     const std::vector<int>& choice) const {
  MinSum others;
  std::vector<int> index(costs_.size(), -1);
  for (int v : core) {
    if (held[v]) continue;
    std::vector<double> costs = costs_[v];
    for (const auto& [other, table] : pairs_[v]) {
      if (!held[other]) continue;
      for (int c = 0; c < Choices(v); ++c) {
        costs[c] += table[c * Choices(other) + choice[other]];
      }
    }
    index[v] = others.AddVariable(std::move(costs));
    for (const auto& [other, table] : pairs_[v]) {
      if (other < v && !held[other]) {
        others.AddPair(index[v], index[other], table);
      }
    }
  }
  const std::vector<int> best = others.Solve();
  std::vector<int> out = choice;
  for (int v : core) {
    if (!held[v]) out[v] = best[index[v]];
  }
  return out;
}

double MinSum::Size(const std::vector<int>& core) const {
  double size = 0;
  for (int v : core) {
    for (const auto& [other, table] : pairs_[v]) size += table.size();
  }
  return size;
}

void MinSum::ImproveTogether(const std::vector<int>& core,
                             std::vector<int>* choice) const {
  // Others are held in each round, so one that does not help says little.
  constexpr int kRounds = 16, kInVain = 3;
  // Of entries of tables, over all rounds: some tens of milliseconds.
  constexpr double kMostWork = 5e6;
  const double size = Size(core);
  std::vector<int> times(costs_.size(), 0);
  double least = Total(core, *choice);
  int in_vain = 0;
  for (int round = 0; round < kRounds && in_vain < kInVain; ++round) {
    if ((round + 1) * size > kMostWork) return;
    std::vector<int> other = SolveOthers(core, Hold(core, &times), *choice);
    const double total = Total(core, other);
    ++in_vain;
    // What differs by rounding alone is equal.
    if (total >= least * (1 - 1e-12)) continue;
    least = total;
    *choice = std::move(other);
    in_vain = 0;
  }
}

void MinSum::SearchCore(std::vector<int>* choice) {
  std::vector<int> core;
  for (int v = 0; v < static_cast<int>(costs_.size()); ++v) {
    if (!gone_[v]) core.push_back(v);
  }
  if (core.empty()) return;
  if (SolveCore(core, choice)) return;
  exact_ = false;
  std::vector<int> other = *choice;  // all first choices
  for (int v : core) {
    other[v] =
        static_cast<int>(std::min_element(costs_[v].begin(), costs_[v].end()) -
                         costs_[v].begin());
  }
  Improve(core, choice);
  Improve(core, &other);
  if (Total(core, other) < Total(core, *choice)) *choice = std::move(other);
  ImproveTogether(core, choice);
}

std::vector<int> MinSum::Solve() {
  const int n = static_cast<int>(costs_.size());
  gone_.assign(n, false);
  exact_ = true;
  std::set<std::pair<size_t, int>> few;  // (neighbours, variable)
  std::vector<size_t> degree(n);
  const auto note = [&](int v) {
    few.erase({degree[v], v});
    degree[v] = pairs_[v].size();
    if (!gone_[v] && degree[v] <= 2) few.insert({degree[v], v});
  };
  for (int v = 0; v < n; ++v) note(v);
  while (!few.empty()) {
    const int v = few.begin()->second;
    few.erase(few.begin());
    std::vector<int> neighbours;
    for (const auto& [other, table] : pairs_[v]) neighbours.push_back(other);
    Eliminate(v);
    for (int other : neighbours) note(other);
  }
  std::vector<int> choice(n, 0);
  SearchCore(&choice);
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    const int l = it->left >= 0 ? choice[it->left] : 0;
    const int r = it->right >= 0 ? choice[it->right] : 0;
    const int nr = it->right >= 0 ? Choices(it->right) : 1;
    choice[it->variable] = it->choice[l * nr + r];
  }
  return choice;
}

}  // namespace weft
