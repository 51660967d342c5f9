// Ranks: which part of a job's step each rank does.
//
//   WEFT_ASSIGN_OR_RETURN(RankShare share, ShareOfRank(job, /*rank=*/1, 4));
//   share.micro_batches;   // on this rank
//
// A step is cut into micro-batches, all ranks together: the job's logical
// shards or, without these, `micro_batches` for each rank. Rank r of R does the
// r-th R-th of them. The mesh of a job has one axis, "data".
//
// Where `placement` gives nodes to ranks ("w1/cpu:0"), the ranks share the
// graph instead: each does its nodes, for all micro-batches.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_TOOLS_WEFT_RANKS_H_
#define WEFT_TOOLS_WEFT_RANKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/collectives/kinds.h"
#include "core/proto/job.pb.h"

namespace weft {

// What a command line may ask for.
inline constexpr uint64_t kMaxRanks = 1024;
// Whose plans are proved as one where all do the same.
inline constexpr uint64_t kMaxProvedRanks = 8;

struct RankShare {
  uint32_t rank = 0;
  uint32_t ranks = 1;
  int64_t micro_batches = 1;      // of a step, on this rank
  int64_t all_micro_batches = 1;  // on all
  bool placed = false;            // nodes are on ranks, not micro-batches
  int64_t first_micro_batch() const {
    return placed ? 0 : rank * micro_batches;
  }
};

// Ranks that the mesh of a job has: the product of its axes, 1 without any.
uint64_t MeshSize(const job::Job& job);

// The job as one rank runs it alone: without a mesh, and with its nodes on its
// own devices.
absl::Status TakeOffRanks(job::Job* job);

// Pre-condition: `job` is resolved. kBadJob, naming both numbers, where the
// mesh is of another size, or ranks, shards and batch do not divide each other.
absl::StatusOr<RankShare> ShareOfRank(const job::Job& job, uint32_t rank,
                                      uint32_t ranks);

// kBadJob, with the names that there are; and, with logical shards, for one
// whose sums depend on the number of ranks (the ring).
absl::StatusOr<CollectiveAlgorithm> AlgorithmOfJob(const job::Job& job);

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_RANKS_H_
