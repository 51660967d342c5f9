// Candidates: the ways in which a node may work on a mesh, each with the time
// of its kernel. See sharding.h.
//
// Threading: thread-compatible. Ownership: keeps references to its arguments.
#ifndef WEFT_COMPILER_SHARDING_CANDIDATES_H_
#define WEFT_COMPILER_SHARDING_CANDIDATES_H_

#include <map>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/sharding/sharding.h"
#include "core/graph/rates.h"

namespace weft {

inline constexpr size_t kMaxCandidates = 64;

// What is said of each axis of a value; nothing: free.
using Said = std::vector<std::optional<Sbp>>;

class Candidates {
 public:
  // Pre-condition: `rates` are those of `graph`; `said` of its variables.
  Candidates(const Graph& graph, const ShardingSpec& spec,
             const std::vector<Rate>& rates, const std::map<Value, Said>& said);

  // At least one. kBadGraph where what is said of a variable leaves none.
  absl::StatusOr<std::vector<NodeSharding>> Of(const Node& node);

 private:
  // Operands and results that memory does not see.
  struct Fused {
    std::vector<size_t> inputs, outputs;
  };
  // Layers are alike: the ways of an op on these types.
  struct Known {
    const Node* node = nullptr;
    Fused fused;
    std::vector<NodeSharding> ways;
  };

  std::vector<NodeSharding> OfSignatures(const Node& node);
  std::vector<NodeSharding> MakeWays(const Node& node,
                                     const Fused& fused) const;
  bool IsAlike(const Known& known, const Node& node, const Fused& fused) const;
  Fused FusedOf(const Node& node) const;
  static double SecondsOf(const OpView& op, const Fused& fused,
                          const ComputeRate& rate);
  std::vector<NodeSharding> OfMicroBatches(const Node& node) const;
  std::vector<NodeSharding> OfVariable(const Node& node,
                                       const Said& said) const;
  bool Agrees(const Node& node, const OpSignature& signature, int axis) const;
  NodeSharding AllBroadcast(const Node& node) const;
  // Whether the value stays within a weft.fused region, which reads and writes
  // memory once (compiler/transforms/fuse_elementwise.h).
  bool IsFused(Value v) const;
  bool IsMicro(Value v) const;
  // Of the variable that a sum of gradients updates, as far as it is said.
  std::optional<Sbp> SplitOfUpdate(const Node& gradient) const;

  const Graph& graph_;
  const ShardingSpec& spec_;
  const std::vector<Rate>& rates_;
  const std::map<Value, Said>& said_;
  std::map<OpId, std::vector<Known>> known_;  // the last few
  std::vector<int> groups_;                   // of splits that some node has
  bool splits_ = true;                        // anything at all
};

}  // namespace weft

#endif  // WEFT_COMPILER_SHARDING_CANDIDATES_H_
