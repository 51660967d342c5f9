// MinSum: one choice for each of many variables, so that the costs of choices
// and of pairs of choices add up to as little as possible.
//
//   MinSum problem;
//   int a = problem.AddVariable({1, 2});          // two choices, and what each
//   int b = problem.AddVariable({0, 5, 0});       // costs
//   problem.AddPair(a, b, {0, 9, 9, 9, 9, 1});    // row by row of a's choices
//   problem.Solve();                              // {0, 0}
//
// How: a variable with one or two neighbours is decided as a function of them
// and leaves, the cost of its best choice goes to them; so chains, trees and
// all that is made of parallel and successive paths are solved exactly. What is
// left, the *core*, is solved exactly, too, where tables over all neighbours of
// a variable stay small (elimination.h). Elsewhere its choices are improved one
// at a time, from two starts, until none helps; then many at a time: some are
// held as they are, so that the others fall into such paths and are solved
// together, and others are held next, while that helps (cutset conditioning).
// Among equals the first choice.
//
// Costs are finite; kImpossible is one that no sum of others reaches.
//
// Threading: thread-compatible.
#ifndef WEFT_COMPILER_SHARDING_MIN_SUM_H_
#define WEFT_COMPILER_SHARDING_MIN_SUM_H_

#include <map>
#include <vector>

namespace weft {

class MinSum {
 public:
  static constexpr double kImpossible = 1e15;

  // At least one choice. Returns 0, 1, ...
  int AddVariable(std::vector<double> costs);
  // `costs[i * choices(b) + j]` of choice i of a with choice j of b; adds to
  // what the pair has. Pre-condition: a != b.
  void AddPair(int a, int b, const std::vector<double>& costs);

  // One choice for each variable. The problem is used up.
  std::vector<int> Solve();
  // Whether the last solution is known to be the best.
  bool exact() const { return exact_; }

 private:
  // A matrix from one variable's choices to another's.
  using Table = std::vector<double>;
  // A variable that left, and how its choice follows from its neighbours'.
  struct Gone {
    int variable = -1;
    int left = -1, right = -1;  // neighbours; -1: none
    std::vector<int> choice;    // by choices of left, then of right
  };

  int Choices(int v) const { return static_cast<int>(costs_[v].size()); }
  void Eliminate(int v);
  void SearchCore(std::vector<int>* choice);
  // By tables over all neighbours; false where that is too much work.
  bool SolveCore(const std::vector<int>& core, std::vector<int>* choice) const;
  void Improve(const std::vector<int>& core, std::vector<int>* choice) const;
  void ImproveTogether(const std::vector<int>& core,
                       std::vector<int>* choice) const;
  // By variable. Those first that were held the fewest times, which it counts;
  // of equals those with most neighbours.
  std::vector<bool> Hold(const std::vector<int>& core,
                         std::vector<int>* times) const;
  std::vector<int> SolveOthers(const std::vector<int>& core,
                               const std::vector<bool>& held,
                               const std::vector<int>& choice) const;
  // What a solution of all that is not gone reads and writes.
  double Size(const std::vector<int>& core) const;
  double CostOf(int v, int c, const std::vector<int>& choice) const;
  double Total(const std::vector<int>& core,
               const std::vector<int>& choice) const;

  std::vector<std::vector<double>> costs_;
  std::vector<std::map<int, Table>> pairs_;  // both directions
  std::vector<bool> gone_;
  std::vector<Gone> order_;
  bool exact_ = true;
};

}  // namespace weft

#endif  // WEFT_COMPILER_SHARDING_MIN_SUM_H_
