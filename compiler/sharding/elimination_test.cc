#include "compiler/sharding/elimination.h"

#include <vector>

#include "gtest/gtest.h"

namespace weft {
namespace {

std::vector<int> Solve(Elimination problem, int variables) {
  std::vector<int> choice(variables, -1);
  const auto order = problem.Order(1e6);
  EXPECT_TRUE(order.has_value());
  if (order.has_value()) problem.Solve(*order, &choice);
  return choice;
}

TEST(EliminationTest, WhatOneCostSaysAloneIsNotWhatAllSay) {
  Elimination problem({2, 3, 2});
  problem.Add({0, 1}, {0, 5, 1, 7, 0, 2});
  EXPECT_EQ(Solve(problem, 3), (std::vector<int>{0, 0, -1}))
      << "the first of equals; who has no costs is left alone";
  problem.Add({1, 2}, {9, 9, 9, 0, 9, 9});
  EXPECT_EQ(Solve(problem, 3), (std::vector<int>{1, 1, 1}));
  problem.Add({0}, {0, 20});
  EXPECT_EQ(Solve(problem, 3), (std::vector<int>{0, 1, 1}));
}

// The two bits and their exclusive or, which no two of them tell.
TEST(EliminationTest, ACostOfMoreThanTwo) {
  Elimination problem({2, 2, 2});
  problem.Add({0, 1, 2}, {0, 9, 9, 0, 9, 0, 0, 9});
  problem.Add({0}, {1, 0});
  problem.Add({2}, {0, 3});
  EXPECT_EQ(Solve(problem, 3), (std::vector<int>{1, 1, 0}));
}

// A star: its middle is not taken while it has several neighbours.
TEST(EliminationTest, TheSmallestTableIsNext) {
  Elimination problem({4, 2, 2, 2});
  for (int v : {1, 2, 3}) problem.Add({0, v}, std::vector<double>(8, 0));
  EXPECT_EQ(*problem.Order(1e6), (std::vector<int>{1, 2, 0, 3}));
  // Three tables of 4 times 2 choices, and then 2.
  EXPECT_TRUE(problem.Order(26).has_value());
  EXPECT_FALSE(problem.Order(25).has_value());
}

}  // namespace
}  // namespace weft
