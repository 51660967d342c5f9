// Partition by rank: one logical graph as one graph for each rank, which meet
// only in the channels of weft.Send and weft.Recv.
//
//   WEFT_ASSIGN_OR_RETURN(RankAssignment where, AssignRanks(graph, ranks, n));
//   WEFT_ASSIGN_OR_RETURN(Graph mine, GraphOfRank(graph, where, rank));
//
// A node's device says where it runs: "w1" any device of rank 1, "w1/sim:0" one
// of them, "sim:0" one of some rank. What no device says follows, in this
// order: an update is where the state is; a node is where its first operand
// comes from that has a rank; what has no operands (data, state, counters) is
// where it is first read; all else is on rank 0. Constants are on every rank
// that reads them: they are cloned, not sent.
//
// A value that another rank reads is sent there once, whatever the number of
// its readers there; a control edge between ranks is a channel of its own,
// without data. The graph of a rank holds its own nodes and the ends of its
// channels in the order of the whole graph: that order contains the order of
// every rank, so ranks that run their nodes in it never wait for each other in
// a circle.
//
// Pipelines. With a pipeline each node that acts for each micro-batch has a
// phase (compiler/pipeline/schedule.h): the first one of its rank that is not
// before its stage and its operands' phases. It becomes the node's stage in the
// graph of its rank; the ends of a channel have that of what is sent, and room
// for as many transfers as there are micro-batches from there to the last
// reader.
//
// What it does not do: copies between devices of one rank (partition.h).
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_PARTITION_BY_RANK_H_
#define WEFT_COMPILER_PARTITION_BY_RANK_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/collectives/cost.h"
#include "compiler/pipeline/schedule.h"
#include "core/graph/graph.h"

namespace weft {

struct RankAssignment {
  int ranks = 1;
  int micro_batches = 1;
  // By node id; constants have none of their own (-1).
  std::vector<int> rank;
  // Why, by node id; empty where the device said so.
  std::vector<std::string> reason;
  // By node id; empty without a pipeline.
  std::vector<int> phase;
  PipelineSpec pipeline;
  // What may travel as bf16 (compiler/collectives/narrow.h) does: it is cast
  // before its Send and back after its Recv.
  bool narrow_wire = false;
  // Ranks of one host read each other's values where they lie, as Topology and
  // Collective say (compiler/collectives/cost.h).
  Topology topology;
  std::vector<std::vector<int>> hosts;  // ranks; empty: all on one
};

// With a pipeline, which says both numbers, stages of nodes are phases: those
// of gradients lead back (training/training.h).
//
// kDeviceNotFound for a rank that there is not; kBadGraph for an update that is
// to run on another rank than its state, naming both; kBadJob for a node that
// comes, by what it reads, after all phases of its rank, naming that and both
// stages; those of CheckPipeline.
absl::StatusOr<RankAssignment> AssignRanks(const Graph& graph, int ranks,
                                           int micro_batches = 1);
absl::StatusOr<RankAssignment> AssignRanks(const Graph& graph,
                                           const PipelineSpec& pipeline);

// Costs the whole graph's size in time, and what the rank has in memory.
// Errors: those of ClassifyRates.
absl::StatusOr<Graph> GraphOfRank(const Graph& graph,
                                  const RankAssignment& assignment, int rank);

}  // namespace weft

#endif  // WEFT_COMPILER_PARTITION_BY_RANK_H_
