// Sharding: how each value of a graph lies on a mesh, and by which signature
// each node works there. What the user says of some values is kept; the rest is
// chosen by cost. lower.h makes the graph of one rank of it.
//
//   ShardingSpec spec;
//   spec.meshes = {mesh};                                 // model=4
//   spec.constraints = {{weight, 0, Sbp::Split(1)}};      // a column split
//   WEFT_ASSIGN_OR_RETURN(Sharding sharding, ChooseSharding(graph, spec));
//   sharding.nodes[matmul->id()].outputs[0];              // {S(1)}
//
// Candidates of a node are its signatures (core/ops/signatures.h), one for each
// axis, at most 64: those whose kernels cost least. A node costs what its
// kernel takes on a member's parts, by the flops or the bytes of its schema,
// whichever takes longer; a value costs the boxing (compiler/boxing) to each
// way in which it is read, once for each way; both count once a micro-batch
// where the node acts so often. The choice is exact for chains and trees of
// candidates and for small graphs, and improved elsewhere, many at a time
// (min_sum.h); then nodes change their choice one at a time while that helps.
// Among equals the first: B of all, and the order of the schemas.
//
// A variable that is updated lies as its update has it. What the user says of
// another value holds for what its readers get: the node that makes it is free,
// and boxing follows it.
//
// Micro-batches. With `shares_micro_batches` the mesh has one axis, whose
// members have micro-batches of their own: each value of the micro rate is M,
// weft.Accumulate makes P(sum) of them, and step values that they read are B.
// Without constraints nothing else is split.
//
// Threading: free functions, thread-safe; values.
#ifndef WEFT_COMPILER_SHARDING_SHARDING_H_
#define WEFT_COMPILER_SHARDING_SHARDING_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/collectives/cost.h"
#include "core/graph/graph.h"
#include "core/mesh/mesh.h"
#include "core/mesh/sbp.h"

namespace weft {

struct ShardingConstraint {
  Value value;
  int axis = 0;
  Sbp sbp;
  std::string source;  // what said so, for messages
};

// What a member's kernels do in a second, and what a collective takes beyond
// its links: its tasks, and ranks that wait for each other. As in Topology, the
// same on all ranks: one core of Zen 5 (docs/sharding.md).
struct ComputeRate {
  double flops_per_s = 2.3e11;      // of products of f32
  double other_flops_per_s = 4e10;  // of all else
  double bytes_per_s = 8e10;        // of passes, read and written
  double collective_s = 6e-6;
};

struct ShardingSpec {
  // By stage, where nodes are on stages ("w1" of Node::device): equal axes on
  // other ranks. Else one.
  std::vector<Mesh> meshes;
  std::vector<ShardingConstraint> constraints;
  int micro_batches = 1;  // of a step, all members together
  bool shares_micro_batches = false;
  // With it: gradients that end up split are summed over the members for each
  // micro-batch, so that only a part of them is kept.
  bool split_gradients = false;
  Topology topology;
  std::vector<std::vector<int>> hosts;  // job ranks; empty: all on one
  ComputeRate rate;

  const Mesh& mesh() const { return meshes[0]; }
};

// How one node works: by operand and by result, on all axes.
struct NodeSharding {
  std::vector<NdSbp> inputs;
  std::vector<NdSbp> outputs;
  double seconds = 0;  // of a member's kernel

  friend bool operator==(const NodeSharding& a, const NodeSharding& b) {
    return a.inputs == b.inputs && a.outputs == b.outputs;
  }
};

std::string ToString(const NodeSharding& node);  // "(B, S(0)), B -> S(0)"

struct Sharding {
  std::vector<NodeSharding> nodes;  // by node id; nothing in holes
  // Values whose readers get them in the user's way.
  std::map<Value, NdSbp> given;
  // By node id: the choice, its cost with the boxing around it, and the
  // nearest alternatives. Empty where there was none.
  std::vector<std::string> why;

  // As its readers find it, before boxing.
  const NdSbp& of(Value v) const {
    auto it = given.find(v);
    return it != given.end() ? it->second : nodes[v.node].outputs[v.index];
  }
};

// Errors, which name the value: kBadValue for two constraints that contradict
// each other (both sources), for P and M of a variable; kShapeMismatch for a
// split that does not divide; kBadGraph where no signature of a node agrees
// with its state.
absl::StatusOr<Sharding> ChooseSharding(const Graph& graph,
                                        const ShardingSpec& spec);

}  // namespace weft

#endif  // WEFT_COMPILER_SHARDING_SHARDING_H_
