#include "compiler/transforms/pool_first.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/transforms/rewrite.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

// The Relu that this MaxPool alone reads; null where the two may not change
// places.
const Node* ReluBefore(const Graph& graph, const Node& pool) {
  if (HasControlEdges(graph, pool)) return nullptr;
  const Node* relu = graph.node(pool.input(0));
  if (!relu->Is(OpId::kRelu) || HasControlEdges(graph, *relu) ||
      !SamePlacement(*relu, pool) || graph.Uses(relu->output(0)).size() != 1) {
    return nullptr;
  }
  const OpView view = graph.View(pool);
  const std::vector<int64_t> pads = view.Ints("pads");
  const bool padded =
      std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p != 0; });
  return padded || view.Int("ceil_mode") != 0 ? nullptr : relu;
}

absl::StatusOr<Value> Moved(Graph* graph, const Node& node, Value x) {
  WEFT_ASSIGN_OR_RETURN(
      Node * made,
      AddInPlaceOf(graph, node, "moved", node.op(), {x}, node.attrs(),
                   absl::StrCat("pool_first: ", node.name(),
                                ", the maximum before Relu")));
  return made->output(0);
}

class PoolFirstPass : public Pass {
 public:
  absl::string_view Name() const override { return "pool_first"; }

  absl::StatusOr<bool> Run(Graph& graph, PassContext&) override {
    return PoolFirst(&graph);
  }
};

}  // namespace

absl::StatusOr<bool> PoolFirst(Graph* graph) {
  std::vector<int32_t> pools;
  for (const Node* node : std::as_const(*graph).Nodes()) {
    if (node->Is(OpId::kMaxPool)) pools.push_back(node->id());
  }
  bool changed = false;
  for (int32_t id : pools) {
    const Node* pool = graph->node(id);
    const Node* relu = ReluBefore(*graph, *pool);
    if (relu == nullptr) continue;
    WEFT_ASSIGN_OR_RETURN(Value maximum, Moved(graph, *pool, relu->input(0)));
    WEFT_ASSIGN_OR_RETURN(Value result, Moved(graph, *relu, maximum));
    const int32_t old = relu->id();
    WEFT_RETURN_IF_ERROR(ReplaceNode(graph, pool->id(), {result}));
    WEFT_RETURN_IF_ERROR(graph->Remove(old));
    changed = true;
  }
  return changed;
}

std::unique_ptr<Pass> CreatePoolFirstPass() {
  return std::make_unique<PoolFirstPass>();
}

}  // namespace weft
