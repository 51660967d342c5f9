// What a long random search makes of a packing problem: the measure for the
// planner, which has to be quick.
//
//   PackingProblem problem = {{1024, 512}, {{true, true}, {true, true}}};
//   EXPECT_LE(planned, 1.1 * BestBySearch(problem, /*tries=*/1000, seed));
//
// Threading: free functions, thread-safe. Test only.
#ifndef WEFT_COMPILER_MEMORY_TESTING_PACKING_SEARCH_H_
#define WEFT_COMPILER_MEMORY_TESTING_PACKING_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

// Blocks, already padded, and which of them may not overlap.
struct PackingProblem {
  std::vector<uint64_t> bytes;
  std::vector<std::vector<bool>> conflict;  // symmetric

  size_t size() const { return bytes.size(); }
};

// A number below `n`; advances `state`.
uint64_t NextRandom(uint64_t* state, uint64_t n);

// The fewest bytes found in `tries` tries: each block as low as it fits, in
// random orders and in small changes of the best one so far.
uint64_t BestBySearch(const PackingProblem& problem, int tries, uint64_t seed);

}  // namespace weft

#endif  // WEFT_COMPILER_MEMORY_TESTING_PACKING_SEARCH_H_
