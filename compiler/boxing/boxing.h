// Boxing: turns what a rank has of a value that lies in one way on a mesh into
// what it has of the same value in another way, as ordinary nodes of the rank's
// graph: slices, collectives (compiler/collectives), padding. Call it once per
// rank of the mesh with the same description but for `rank`.
//
//   BoxingCosts costs(mesh);              // one for all values of a mesh
//   Boxing b;
//   b.costs = &costs;
//   b.rank = 3;                           // this graph's
//   b.from = {Sbp::Split(0), Sbp::Partial()};
//   b.to = {Sbp::Split(0), Sbp::Broadcast()};
//   b.name = "fc1/to_b";                  // the same on all ranks
//   b.value = "fc1";
//   WEFT_ASSIGN_OR_RETURN(Value y, AddBoxing(&graph, b, x, whole));
//
// Each node made says why: "boxing: 'fc1' from P(sum) to B on axis model:
// all-reduce, 4 ranks".
//
// Order: collectives of one boxing follow one another through their operands.
// For several boxings the rule is that of collectives: all ranks add those that
// they share in one order, and `after` names the last node of the one before.
//
// Threading: a free function; as the graph.
#ifndef WEFT_COMPILER_BOXING_BOXING_H_
#define WEFT_COMPILER_BOXING_BOXING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/boxing/plan.h"
#include "compiler/collectives/collective.h"
#include "core/graph/graph.h"

namespace weft {

struct Boxing {
  BoxingCosts* costs = nullptr;  // not owned; of the mesh
  int rank = 0;                  // of the job: one of the mesh
  NdSbp from, to;
  // Unique in the job, without '#': its steps are "<name>/0", "<name>/1", ..
  std::string name;
  std::string value;          // what the user calls it; empty: `name`
  std::string rate = "step";  // of the value: "step" or "micro"
  // kAuto: the cheapest for each collective; and for a kind that the algorithm
  // does not exist for.
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  int64_t chunk_elements = 0;  // as of a collective
  bool narrow = false;         // as of a collective
  std::vector<int32_t> after;  // as of a collective
  std::string device;          // of the nodes
  int stage = -1;              // of the nodes
  Value* squares = nullptr;    // as of a collective
};

// `local` is this rank's part of a value of type `whole` by `from`; the result
// its part by `to`, `local` itself where nothing changes. Errors name the
// value: those of BoxingCosts::Plan; kInternal where the rank is not of the
// mesh or `local` is not such a part; those of AddCollective, as for a dtype
// without the reduction.
absl::StatusOr<Value> AddBoxing(Graph* graph, const Boxing& b, Value local,
                                const TensorType& whole);

}  // namespace weft

#endif  // WEFT_COMPILER_BOXING_BOXING_H_
