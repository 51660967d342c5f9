// Testing: runs a collective as a job of its own and says what it should give.
//
//   std::vector<Literal> operands = Operands(c, type, Values::kExact);
//   auto results = RunCollective(c, type, operands);
//   EXPECT_EQ(*results, ExpectedResults(c, type, operands));
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_COLLECTIVES_TESTING_H_
#define WEFT_COMPILER_COLLECTIVES_TESTING_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/collectives/collective.h"
#include "core/graph/graph.h"
#include "core/reference/job_interpreter.h"
#include "core/types/literal.h"

namespace weft {

enum class Values {
  // Small integers: sums and products are exact in every order and dtype.
  kExact,
  // In [-1, 1), where the order of a sum shows in its bits.
  kRandom,
};

// One for each position of the group; of positions that give nothing as well.
std::vector<Literal> Operands(const Collective& c, const TensorType& type,
                              Values values);

// Adds the collective between a weft.Variable "<name>/x" and, where this rank
// has a result, a weft.Output "<name>".
absl::Status AddToGraph(Graph* graph, const Collective& c,
                        const TensorType& type);
// The feed of that variable.
void AddFeed(RankProgram* program, const Collective& c, const Literal& operand);

// Results by position, from a job of all ranks up to the group's highest; an
// invalid literal where there is none. Ranks run in order (JobOrder::kInOrder).
// Also proves each graph well-formed, its ids an order to run in, and that
// every node tells where it is from.
absl::StatusOr<std::vector<Literal>> RunCollective(
    const Collective& c, const TensorType& type,
    const std::vector<Literal>& operands);

// The same by plain loops. Sums in the order of the class TREE, f32 and f64
// rounded after each addition, 16-bit values after the last.
std::vector<Literal> ExpectedResults(const Collective& c,
                                     const TensorType& type,
                                     const std::vector<Literal>& operands);

}  // namespace weft

#endif  // WEFT_COMPILER_COLLECTIVES_TESTING_H_
