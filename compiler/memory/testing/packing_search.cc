#include "compiler/memory/testing/packing_search.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace weft {
namespace {

uint64_t FirstFit(const PackingProblem& problem,
                  const std::vector<int>& order) {
  std::vector<uint64_t> at(problem.size(), 0);
  std::vector<int> placed;
  uint64_t top = 0;
  for (int b : order) {
    uint64_t offset = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (int p : placed) {
        if (!problem.conflict[b][p]) continue;
        const uint64_t end = at[p] + problem.bytes[p];
        if (end <= offset || at[p] >= offset + problem.bytes[b]) continue;
        offset = end;
        moved = true;
      }
    }
    at[b] = offset;
    placed.push_back(b);
    top = std::max(top, offset + problem.bytes[b]);
  }
  return top;
}

}  // namespace

uint64_t NextRandom(uint64_t* state, uint64_t n) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (*state >> 33) % n;
}

uint64_t BestBySearch(const PackingProblem& problem, int tries, uint64_t seed) {
  if (problem.size() == 0) return 0;
  uint64_t state = seed;
  std::vector<int> best(problem.size());
  std::iota(best.begin(), best.end(), 0);
  std::stable_sort(best.begin(), best.end(), [&](int a, int b) {
    return problem.bytes[a] > problem.bytes[b];
  });
  uint64_t bytes = FirstFit(problem, best);
  for (int t = 0; t < tries; ++t) {
    std::vector<int> order = best;
    if (t % 3 == 0) {
      for (size_t i = order.size(); i > 1; --i) {
        std::swap(order[i - 1], order[NextRandom(&state, i)]);
      }
    } else {
      const uint64_t i = NextRandom(&state, order.size());
      std::swap(order[i], order[NextRandom(&state, order.size())]);
    }
    const uint64_t found = FirstFit(problem, order);
    if (found > bytes) continue;
    bytes = found;
    best = std::move(order);
  }
  return bytes;
}

}  // namespace weft
