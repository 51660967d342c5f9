// Boxing between meshes: turns what the ranks of one mesh have of a value into
// what those of another have of it. The meshes may share ranks or not.
//
//   MeshBoxing b;
//   b.from_costs = &stage0;                 // of ranks 0-3
//   b.to_costs = &stage1;                   // of ranks 4-5
//   b.rank = 4;                             // this graph's
//   b.from = {Sbp::Split(0)};
//   b.to = {Sbp::Broadcast()};
//   b.name = "block3/out/to_stage1";        // the same on all ranks
//   WEFT_ASSIGN_OR_RETURN(Value y, AddMeshBoxing(&graph, b, Value(), whole));
//
// Three things happen, of which a rank does those that it is in: reductions are
// finished on the first mesh, so that no part of one travels; slices are sent
// point to point (transfers.h), each element to each rank at most once; what
// is to be P on the second mesh is made so there. Equal meshes: boxing.h.
//
// Order: a rank's sends come first, then its receives, so copies never wait for
// each other in a circle. `after` as with a collective.
//
// Threading: free functions; as the graph.
#ifndef WEFT_COMPILER_BOXING_BETWEEN_H_
#define WEFT_COMPILER_BOXING_BETWEEN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/boxing/plan.h"
#include "compiler/collectives/kinds.h"
#include "core/graph/graph.h"

namespace weft {

struct MeshBoxing {
  BoxingCosts* from_costs = nullptr;  // not owned; of the mesh it lies on
  BoxingCosts* to_costs = nullptr;    // not owned; of the mesh it is to lie on
  int rank = 0;                       // of the job
  NdSbp from, to;
  // The rest as of a Boxing.
  std::string name;
  std::string value;
  std::string rate = "step";
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  int64_t chunk_elements = 0;
  std::vector<int32_t> after;
  std::string device;
  int stage = -1;
};

// `local`: this rank's part of a value of type `whole` by `from`; invalid where
// the rank is not of the first mesh. The result: its part by `to`; invalid
// where it is not of the second. A rank of neither gets no nodes. Errors, which
// name the value: as AddBoxing; kInternal for an operand that is missing or too
// much.
absl::StatusOr<Value> AddMeshBoxing(Graph* graph, const MeshBoxing& b,
                                    Value local, const TensorType& whole);

}  // namespace weft

#endif  // WEFT_COMPILER_BOXING_BETWEEN_H_
