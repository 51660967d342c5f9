// Elimination: choices of variables so that costs, each of a few of them, add
// up to as little as possible; exact, by variable elimination: one variable
// after the other is decided as a function of all that share a cost with it.
// Its time is that of the largest tables that come up, so of small or sparse
// problems; MinSum (min_sum.h) uses it for what is left of its own.
//
//   Elimination problem({2, 3, 2});                  // choices of 0, 1 and 2
//   problem.Add({0, 1}, {0, 5, 1, 7, 0, 2});         // row by row of 0's
//   problem.Add({1, 2}, {0, 4, 1, 1, 3, 0});
//   const auto order = problem.Order(/*most_work=*/1e5);
//   std::vector<int> choice(3);
//   if (order.has_value()) problem.Solve(*order, &choice);   // {0, 0, 0}
//
// Among equals the first choice.
//
// Threading: thread-compatible.
#ifndef WEFT_COMPILER_SHARDING_ELIMINATION_H_
#define WEFT_COMPILER_SHARDING_ELIMINATION_H_

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace weft {

class Elimination {
 public:
  // `choices`: of each variable, how many.
  explicit Elimination(std::vector<int> choices);

  // A cost by choices of these variables, the last one fastest.
  void Add(std::vector<int> variables, std::vector<double> costs);

  // Of all variables that have costs, the one with the smallest table next.
  // Nothing where more than `most_work` costs would be compared.
  std::optional<std::vector<int>> Order(double most_work) const;

  // Writes the choices of the variables of `order`, which is Order()'s. The
  // problem is used up.
  void Solve(const std::vector<int>& order, std::vector<int>* choice);

 private:
  struct Factor {
    std::vector<int> variables;
    std::vector<double> costs;
  };
  struct Solved {
    int variable = -1;
    std::vector<int> others;  // that its choice follows from
    std::vector<int> choice;  // by rows of those
  };

  void Eliminate(int v);
  // With the others as in at_: the choice, and what it costs by the factors
  // from `first` on.
  std::pair<int, double> Best(int v, size_t first);
  size_t RowOf(const std::vector<int>& variables) const;
  void SetRow(const std::vector<int>& variables, size_t row);

  const std::vector<int> choices_;
  std::vector<int> at_;  // of each variable, the choice that is looked at
  std::vector<Factor> factors_;
  std::vector<Solved> solved_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_SHARDING_ELIMINATION_H_
