// Ranks: which part of a job's step each rank does.
//
//   WEFT_ASSIGN_OR_RETURN(RankShare share, ShareOfRank(job, /*rank=*/1, 4));
//   share.micro_batches;   // on this rank
//
// A step is cut into micro-batches, all ranks together: the job's logical
// shards or, without these, `micro_batches` for each rank. Rank r of R does the
// r-th R-th of them. Where `placement` gives nodes to ranks ("w1/cpu:0"), the
// ranks share the graph instead: each does its nodes, for all micro-batches. So
// they do where `pipeline` cuts the model into stages.
//
// A job with a mesh does both, and more: its ranks are a grid. Those that
// differ in the axis "data" share the micro-batches, those that differ in the
// axis "pipe" the nodes ("w1" is the second of them), and those that differ in
// another axis the values (docs/sharding.md). Without a mesh there is one axis,
// "data" or "pipe".
//
// Ranks may have unlike devices. Those on the axis "data" would then update
// what they all keep to other bits: parts of it are updated by one rank each
// (zero is at least 1), and the rest is what the first of them says.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_TOOLS_WEFT_RANKS_H_
#define WEFT_TOOLS_WEFT_RANKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/collectives/kinds.h"
#include "compiler/pipeline/schedule.h"
#include "core/mesh/mesh.h"
#include "core/mesh/sbp.h"
#include "core/proto/job.pb.h"

namespace weft {

// What a command line may ask for.
inline constexpr uint64_t kMaxRanks = 1024;
// Of all ranks together, which are proved as one: seconds. Where ranks do the
// same on other data and have more, each proves its own part; ranks that differ
// are always proved together. What goes between ranks is compared in any case,
// by digests, when their sessions start (runtime/wire/agree.h).
inline constexpr uint64_t kMaxProvedTasks = 200'000;

struct RankShare {
  uint32_t rank = 0;
  uint32_t ranks = 1;
  int64_t micro_batches = 1;      // of a step, on this rank
  int64_t all_micro_batches = 1;  // on all
  // Of all ranks, a rank's number its member.
  Mesh mesh;
  int data = -1;  // axes of the mesh; -1: there is none
  int pipe = -1;
  // Of the ranks of axis "pipe", where they work on several micro-batches at
  // once.
  PipelineSpec pipeline;
  uint32_t zero = 0;  // the job's, or more
  // Ranks of one host read values of so many bytes in place; 0: none.
  int64_t mapped_bytes = 0;
  std::vector<std::vector<int>> hosts;  // ranks; empty: all on one
  // Two ranks that compute with unlike devices, "ranks 0 (cpu) and 1 (sim)";
  // empty: all are alike. The same of two that differ on the axis "data" alone.
  std::string unlike;
  std::string unlike_data;

  int SizeOf(int axis) const { return axis < 0 ? 1 : mesh.axis(axis).size; }
  int PlaceOn(int axis) const {
    return axis < 0 ? 0 : mesh.CoordinateOf(static_cast<int>(rank), axis);
  }
  bool placed() const { return SizeOf(pipe) > 1; }  // nodes are on ranks
  // Of its other axes, those of more than one rank.
  std::vector<int> value_axes() const;
  int64_t first_micro_batch() const { return PlaceOn(data) * micro_batches; }
  // Whether ranks do other things than the same on other data.
  bool differ() const { return placed() || !value_axes().empty(); }
};

// Ranks that the mesh of a job has: the product of its axes, 1 without any.
uint64_t MeshSize(const job::Job& job);

// The job as one rank runs it alone: without a mesh, what splits values on it
// and a pipeline, and with its nodes on its own devices.
absl::Status TakeOffRanks(job::Job* job);

// Pre-condition: `job` is resolved. kBadJob, naming both sides, where the mesh
// is of another size or has no axis "pipe" for nodes that are placed on ranks,
// where ranks, shards and batch do not divide each other, for a pipeline that
// placement contradicts or that has no such axis, and what CheckPipeline,
// device_list.h and TakeKinds say.
absl::StatusOr<RankShare> ShareOfRank(const job::Job& job, uint32_t rank,
                                      uint32_t ranks);

// `kinds`: by rank, what it computes with; ranks with the same text compute the
// same bits. kBadJob, with both ranks, where unlike ones share values, and with
// logical shards.
absl::Status TakeKinds(const job::Job& job,
                       const std::vector<std::string>& kinds, RankShare* share);

// `localities`: by rank, equal where two can map each other's memory, empty
// where a rank cannot. Hosts, and whether anything is mapped, follow.
void TakeLocalities(const std::vector<std::string>& localities,
                    RankShare* share);

// Whether mesh, sharding and zero say something that can be: kBadJob.
absl::Status CheckMesh(const job::Job& job);

// What it says of the values that it names. kBadValue for a signature that is
// none, and M.
absl::StatusOr<Sbp> SbpOf(const job::Sharding& sharding);

// kBadJob, with the names that there are; and, with logical shards, for one
// whose sums depend on the number of ranks (the ring).
absl::StatusOr<CollectiveAlgorithm> AlgorithmOfJob(const job::Job& job);

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_RANKS_H_
