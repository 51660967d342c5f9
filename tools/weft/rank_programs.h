// From the programs of a job to those of one of its ranks: the axes of the mesh
// that share values, then the one that shares micro-batches, then the one that
// shares nodes.
//
//   RankPrograms mine(job, share);
//   WEFT_RETURN_IF_ERROR(mine.SplitValues(&graphs));   // before their passes
//   ...
//   WEFT_RETURN_IF_ERROR(mine.TakeShare(&graphs));     // after them
//
// Training says where state is and how it lies; the other programs follow.
// Results come to all ranks of the first stage; the first rank tells them to
// people and saves.
//
// Threading: thread-compatible. Ownership: keeps references to its arguments.
#ifndef WEFT_TOOLS_WEFT_RANK_PROGRAMS_H_
#define WEFT_TOOLS_WEFT_RANK_PROGRAMS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/partition/by_rank.h"
#include "compiler/sharding/lower.h"
#include "core/graph/graph.h"
#include "core/proto/job.pb.h"
#include "tools/weft/ranks.h"

namespace weft {

class RankPrograms {
 public:
  // By name; "train" is one of them.
  using Graphs = std::map<std::string, Graph>;

  RankPrograms(const job::Job& job, const RankShare& share);

  // Values on the axes that share them. Errors: kBadJob for a sharding of no
  // value, what ChooseSharding and LowerSharding say.
  absl::Status SplitValues(Graphs* graphs);

  // Micro-batches, then nodes. Errors: what LowerSharding, AssignRanks and
  // GraphOfRank say.
  absl::Status TakeShare(Graphs* graphs);

 private:
  absl::Status ShareMicroBatches(Graphs* graphs);
  absl::Status ShareNodes(Graphs* graphs);

  // Training, then the others, with the stages of their nodes.
  template <typename Take>
  absl::Status ForEachAssigned(int micro_batches, Graphs* graphs,
                               const Take& take);
  absl::StatusOr<RankAssignment> Assign(Graph* graph, int micro_batches) const;
  // In each node's device.
  absl::Status NameStages(Graphs* graphs);
  void TakeHomes(const RankAssignment& where, const Graph& train);
  void ApplyHomes(Graph* graph) const;

  // Of training alone: what else is computed is exact.
  bool narrow_wire() const {
    return job_.precision().wire() == job::Precision::BF16;
  }

  // One for each stage, through this rank's place on the other axes.
  std::vector<Mesh> MeshesOf(const std::vector<int>& axes) const;
  ShardingSpec SpecOf(const std::vector<int>& axes) const;
  absl::Status AddConstraints(const Graph& train, ShardingSpec* spec) const;
  void AddZero(const Graph& train, ShardingSpec* spec) const;
  absl::StatusOr<LoweringOptions> OptionsOf(const ShardingSpec& spec) const;
  // Of programs other than training, where variables lie as in that.
  absl::Status LowerOthers(const ShardingSpec& training,
                           const std::map<std::string, NdSbp>& variables,
                           Graphs* graphs) const;

  const job::Job& job_;
  const RankShare& share_;
  std::map<std::string, std::string> home_;  // of variables: "w1", "w1/sim:0"
};

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_RANK_PROGRAMS_H_
