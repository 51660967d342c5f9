// Placement: which device runs each node, and with which kernel.
//
//   WEFT_ASSIGN_OR_RETURN(Placement placed,
//                         PlaceNodes(graph.Clone(), options, state, &cache));
//   placed.nodes[node->id()].device;
//
// For each node that computes, in this order:
//   1. its target, where that has a kernel: the node's device; an update's:
//      where the state lies; of what reads nothing: where all its readers are;
//      else the default device;
//   2. the op's decomposition, where the target has kernels for all of it;
//   3. the host, unless placement is strict: the values travel by copies; where
//      that has no kernel either, the first other device that has one;
//   4. the decomposition, each part on the target or else on the host;
//   5. otherwise kNoKernel, with what each device has.
// Nodes that only rename the bytes of their operand (Reshape and its kin)
// become views and run nowhere. weft.Accumulate follows its operand.
//
// What it does not do: choose by cost between devices.
//
// Threading: free functions, thread-safe as far as the oracle is. Ownership: a
// Placement owns its graph.
#ifndef WEFT_COMPILER_PLACEMENT_PLACEMENT_H_
#define WEFT_COMPILER_PLACEMENT_PLACEMENT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/memory/state_layout.h"
#include "compiler/placement/capability_cache.h"
#include "core/graph/graph.h"
#include "core/proto/plan.pb.h"

namespace weft {

struct PlacedNode {
  enum class Role : uint8_t {
    kCompute,
    kUpdate,
    kView,  // its operand's bytes under another shape
    kConstant,
    kVariable,
    kSource,  // data or counter
    kSink,
    kAccumulate,
    kSend,  // by way of the host's memory, as kRecv
    kRecv,
  };
  Role role = Role::kCompute;
  uint32_t device = 0;
  bool io = false;  // on the host's I/O stream
  // kCompute, kUpdate; kAccumulate: its Add. Device and masks are set.
  plan::Kernel kernel;
  uint32_t in_place = 0;  // result 0 may be the memory of operand i
  // Why it is there, where that is not simply the default device.
  std::string reason;
};

// Runs the node on `device` by the kernel that it answers `kernel` with; false,
// and nothing is changed, where it has none.
bool SetKernel(plan::Kernel kernel, uint32_t device, CapabilityCache* cache,
               PlacedNode* placed);

struct Placement {
  Graph graph;                    // as given, with some nodes decomposed
  std::vector<PlacedNode> nodes;  // by node id
  // By node id: the node of the given graph in whose place it is. In the order
  // of places all ranks of a job can act; new nodes have the last ids.
  std::vector<int32_t> place;

  // The value whose bytes `v` is: through views.
  Value Root(Value v) const;
};

struct PlacementOptions {
  absl::Span<const plan::Device> devices;
  uint32_t default_device = 0;
  bool strict = false;
  // Of a graph of all ranks: whatever the rank in front of a device, all of so
  // many have these. 0: there is none in front.
  int ranks = 0;
};

// Errors: kNoKernel, kDeviceNotFound, kBadGraph (a variable that is not in
// `state`).
absl::StatusOr<Placement> PlaceNodes(Graph graph,
                                     const PlacementOptions& options,
                                     const StateLayout& state,
                                     CapabilityCache* cache);

// True where PlaceNodes would run `node`, which computes, by one kernel: on its
// device or, where that can do nothing with it, on the host. False where it
// would be taken apart or refused. For passes that choose among forms of a
// node.
bool RunsAsKernel(const Graph& graph, const Node& node,
                  const PlacementOptions& options, CapabilityCache* cache);

// One line a node: "fc1: MatMul on sim:0".
std::string ToString(const Placement& placement,
                     absl::Span<const plan::Device> devices);

}  // namespace weft

#endif  // WEFT_COMPILER_PLACEMENT_PLACEMENT_H_
