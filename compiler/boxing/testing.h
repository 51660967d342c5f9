// Testing: runs a boxing as a job of its own and says whether it is right.
//
//   LayoutRandom random(seed);
//   Literal whole = random.Value(type);
//   std::vector<Literal> locals = random.Locals(whole, from, mesh);
//   auto moved = RunBoxing(b, type, locals);
//   EXPECT_EQ(WhyNotLayout(*moved, to, mesh, whole), "");
//
// Threading: thread-compatible.
#ifndef WEFT_COMPILER_BOXING_TESTING_H_
#define WEFT_COMPILER_BOXING_TESTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/boxing/boxing.h"
#include "core/mesh/mesh.h"
#include "core/mesh/sbp.h"
#include "core/types/literal.h"

namespace weft {

class LayoutRandom {
 public:
  explicit LayoutRandom(uint64_t seed) : state_(seed * 2 + 1) {}

  int Below(int n);
  // Integers in [-7, 7]: exact in every dtype and every order of a sum.
  Literal Value(const TensorType& type);
  // By member: parts of `whole`. Those of a P are drawn, not `whole` and
  // neutral elements, and other ones for each group. No P(prod).
  std::vector<Literal> Locals(const Literal& whole, const NdSbp& sbp,
                              const Mesh& mesh);

 private:
  // `n` values that reduce to `whole`.
  std::vector<Literal> Parts(const Literal& whole, ReduceOp op, int n);

  uint64_t state_;
};

// "" where the members have `whole` by `sbp`, every one of its copies too;
// else what is wrong.
std::string WhyNotLayout(const std::vector<Literal>& locals, const NdSbp& sbp,
                         const Mesh& mesh, const Literal& whole);

// One graph for each rank up to the mesh's highest: a weft.Variable "x", the
// boxing, and a weft.Output "y". A rank that is not of the mesh has no nodes.
absl::StatusOr<std::vector<Graph>> BoxingGraphs(const Boxing& b,
                                                const TensorType& whole);

// What each member has after, by member. Ranks do their nodes in order.
absl::StatusOr<std::vector<Literal>> RunBoxing(
    const Boxing& b, const TensorType& whole,
    const std::vector<Literal>& locals);

}  // namespace weft

#endif  // WEFT_COMPILER_BOXING_TESTING_H_
