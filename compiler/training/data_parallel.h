// Data parallelism: the training graph of all micro-batches of a step becomes
// that of one rank, which runs its share of them and sums over the ranks what
// it has summed over those.
//
//   DataParallelSpec spec;
//   spec.ranks = 4;
//   spec.rank = 1;
//   WEFT_RETURN_IF_ERROR(MakeDataParallel(&train, spec));
//   // 8 micro-batches: rank 1 runs 2 and 3.
//
// A weft.Accumulate over n micro-batches accumulates n / ranks of them, and a
// sum over ranks (compiler/collectives) follows it; where one is left, the
// sum over ranks alone. All that reads an accumulated value (updates, norms,
// metrics, running statistics) then sees the same number on every rank, so
// state stays equal without being sent. Where n / ranks is a power of two and
// the algorithm is of the order class TREE, that number has the bits that one
// rank alone would have computed.
//
// Small sums travel together, so that their number does not multiply with that
// of the messages of a sum: joined before the sum over ranks, taken apart after
// it. In the order class TREE that changes no bit.
//
// weft.Counter nodes of the micro rate count from the rank's first micro-batch,
// so random numbers belong to a micro-batch, wherever it runs.
//
// Threading: a free function; as the graph.
#ifndef WEFT_COMPILER_TRAINING_DATA_PARALLEL_H_
#define WEFT_COMPILER_TRAINING_DATA_PARALLEL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "compiler/collectives/kinds.h"
#include "core/graph/graph.h"

namespace weft::training {

struct DataParallelSpec {
  int ranks = 1;
  int rank = 0;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  // Where the algorithm is chosen: only one of the order class TREE.
  bool fixed_order = false;
  int64_t chunk_elements = 0;
  // Sums are joined up to so many bytes; 0: none are.
  int64_t bundle_bytes = int64_t{1} << 20;
};

// kBadValue where the ranks do not divide the micro-batches, and what
// AddCollective says. A graph that accumulates nothing is left as it is.
absl::Status MakeDataParallel(Graph* graph, const DataParallelSpec& spec);

}  // namespace weft::training

#endif  // WEFT_COMPILER_TRAINING_DATA_PARALLEL_H_
