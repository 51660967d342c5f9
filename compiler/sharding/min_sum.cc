#include "compiler/sharding/min_sum.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

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

void MinSum::SearchCore(std::vector<int>* choice) {
  std::vector<int> core;
  for (int v = 0; v < static_cast<int>(costs_.size()); ++v) {
    if (!gone_[v]) core.push_back(v);
  }
  if (core.empty()) return;
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
