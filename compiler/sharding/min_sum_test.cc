#include "compiler/sharding/min_sum.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;

struct Pair {
  int a, b;
  std::vector<double> costs;
};

struct Problem {
  std::vector<std::vector<double>> costs;
  std::vector<Pair> pairs;

  MinSum Build() const {
    MinSum out;
    for (const auto& c : costs) out.AddVariable(c);
    for (const Pair& p : pairs) out.AddPair(p.a, p.b, p.costs);
    return out;
  }
  double Total(const std::vector<int>& choice) const {
    double total = 0;
    for (size_t v = 0; v < costs.size(); ++v) total += costs[v][choice[v]];
    for (const Pair& p : pairs) {
      total += p.costs[choice[p.a] * costs[p.b].size() + choice[p.b]];
    }
    return total;
  }
  double Least() const {
    double least = 1e300;
    std::vector<int> choice(costs.size(), 0);
    std::function<void(size_t)> all = [&](size_t v) {
      if (v == costs.size()) {
        least = std::min(least, Total(choice));
        return;
      }
      for (size_t c = 0; c < costs[v].size(); ++c) {
        choice[v] = static_cast<int>(c);
        all(v + 1);
      }
    };
    all(0);
    return least;
  }
};

class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 2 + 1) {}
  int Below(int n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state_ >> 33) % n);
  }

 private:
  uint64_t state_;
};

std::vector<double> Costs(Dice& dice, int n) {
  std::vector<double> out;
  for (int i = 0; i < n; ++i) out.push_back(dice.Below(50));
  return out;
}

void AddPair(Dice& dice, int a, int b, Problem* out) {
  out->pairs.push_back({a, b,
                        Costs(dice, static_cast<int>(out->costs[a].size() *
                                                     out->costs[b].size()))});
}

TEST(MinSum, TakesThePairThatIsCheapestTogether) {
  MinSum problem;
  const int a = problem.AddVariable({0, 1});
  const int b = problem.AddVariable({0, 1, 0});
  problem.AddPair(a, b, {9, 9, 9, 9, 0, 9});
  EXPECT_THAT(problem.Solve(), ElementsAre(1, 1));
  EXPECT_TRUE(problem.exact());
}

TEST(MinSum, AmongEqualsTheFirst) {
  MinSum problem;
  const int a = problem.AddVariable({2, 2});
  const int b = problem.AddVariable({0, 0, 0});
  problem.AddPair(a, b, std::vector<double>(6, 1));
  problem.AddVariable({7});
  EXPECT_THAT(problem.Solve(), ElementsAre(0, 0, 0));
}

TEST(MinSum, IsExactOnTreesAndParallelPaths) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Dice dice(seed);
    Problem problem;
    const int n = 2 + dice.Below(7);
    for (int v = 0; v < n; ++v) {
      problem.costs.push_back(Costs(dice, 1 + dice.Below(4)));
    }
    // A tree, and then some of its edges a second time, through one more.
    for (int v = 1; v < n; ++v) AddPair(dice, dice.Below(v), v, &problem);
    if (n > 2) {
      const Pair along = problem.pairs[dice.Below(n - 1)];
      problem.costs.push_back(Costs(dice, 3));
      AddPair(dice, along.a, n, &problem);
      AddPair(dice, n, along.b, &problem);
      AddPair(dice, along.b, along.a, &problem);
    }
    MinSum solver = problem.Build();
    const std::vector<int> choice = solver.Solve();
    EXPECT_TRUE(solver.exact());
    EXPECT_EQ(problem.Total(choice), problem.Least()) << "seed " << seed;
  }
}

// A ring around one that all depend on. Each change alone is for the worse, and
// so is what each prefers on its own.
TEST(MinSum, ChangesManyAtATime) {
  MinSum problem;
  const int hub = problem.AddVariable({0, 100});
  constexpr int kRing = 240;  // more than tables are made for
  const std::vector<double> alike = {0, 9, 9, 9, 0, 9, 9, 9, 9};
  for (int v = 1; v <= kRing; ++v) {
    problem.AddVariable({3, 2, 0});
    problem.AddPair(hub, v, {1, 1, 1, 1, 1, 1});
    if (v > 1) problem.AddPair(v - 1, v, alike);
  }
  problem.AddPair(kRing, 1, alike);
  std::vector<int> expected(1 + kRing, 1);
  expected[hub] = 0;
  EXPECT_EQ(problem.Solve(), expected);
  EXPECT_FALSE(problem.exact());
}

Problem EverybodyWithEverybody(uint64_t seed, int variables) {
  Dice dice(seed);
  Problem problem;
  for (int v = 0; v < variables; ++v) problem.costs.push_back(Costs(dice, 3));
  for (int a = 0; a < variables; ++a) {
    for (int b = a + 1; b < variables; ++b) AddPair(dice, a, b, &problem);
  }
  return problem;
}

TEST(MinSum, IsExactWhereTablesStaySmall) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Problem problem = EverybodyWithEverybody(seed, 5);
    MinSum solver = problem.Build();
    EXPECT_EQ(problem.Total(solver.Solve()), problem.Least()) << seed;
    EXPECT_TRUE(solver.exact());
  }
}

// No bound is promised, but never worse than all first choices.
TEST(MinSum, ImprovesWhatItCannotSolve) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Problem problem = EverybodyWithEverybody(seed, 13);
    MinSum solver = problem.Build();
    const std::vector<int> choice = solver.Solve();
    EXPECT_FALSE(solver.exact());
    EXPECT_LT(problem.Total(choice), problem.Total(std::vector<int>(13, 0)));
  }
}

}  // namespace
}  // namespace weft
