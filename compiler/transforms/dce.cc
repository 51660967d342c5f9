#include "compiler/transforms/dce.h"

#include <vector>

#include "core/base/status_macros.h"

namespace weft {
namespace {

bool IsRoot(const Node& node) {
  switch (node.schema().id) {
    case OpId::kCounter:
    case OpId::kAccumulate:
    case OpId::kCopy:
      return false;
    default:
      return node.schema().effect == OpEffect::kUpdate ||
             node.schema().effect == OpEffect::kStateful;
  }
}

std::vector<bool> FindLive(const Graph& graph) {
  std::vector<bool> live(graph.id_bound(), false);
  std::vector<int32_t> pending;
  auto mark = [&](int32_t id) {
    if (live[id]) return;
    live[id] = true;
    pending.push_back(id);
  };
  for (const Node* node : graph.Nodes()) {
    if (IsRoot(*node)) mark(node->id());
  }
  while (!pending.empty()) {
    const Node& node = *graph.node(pending.back());
    pending.pop_back();
    for (Value v : node.inputs()) {
      if (v.valid()) mark(v.node);
    }
    for (int32_t from : node.control_inputs()) mark(from);
  }
  return live;
}

class DcePass : public Pass {
 public:
  absl::string_view Name() const override { return "dce"; }

  absl::StatusOr<bool> Run(Graph& graph, PassContext&) override {
    std::vector<bool> live = FindLive(graph);
    WEFT_ASSIGN_OR_RETURN(std::vector<const Node*> order,
                          static_cast<const Graph&>(graph).TopologicalOrder());
    bool changed = false;
    // Readers before what they read.
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      int32_t id = (*it)->id();
      if (live[id]) continue;
      WEFT_RETURN_IF_ERROR(graph.Remove(id));
      changed = true;
    }
    return changed;
  }
};

}  // namespace

std::unique_ptr<Pass> CreateDcePass() { return std::make_unique<DcePass>(); }

}  // namespace weft
