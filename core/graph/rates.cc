#include "core/graph/rates.h"

#include "core/base/status_macros.h"

namespace weft {
namespace {

bool IsMicroSource(const Graph& graph, const Node& node) {
  if (node.Is(OpId::kInput) || node.Is(OpId::kDataSource)) return true;
  const bool says =
      node.Is(OpId::kCounter) || node.Is(OpId::kRecv) || node.Is(OpId::kSend);
  return says && graph.View(node).String("rate") == "micro";
}

}  // namespace

absl::StatusOr<std::vector<Rate>> InferRates(const Graph& graph) {
  std::vector<Rate> rates(graph.id_bound(), Rate::kStep);
  WEFT_ASSIGN_OR_RETURN(std::vector<const Node*> order,
                        graph.TopologicalOrder());
  for (const Node* node : order) {
    if (node->Is(OpId::kAccumulate)) continue;
    bool micro = IsMicroSource(graph, *node);
    for (Value v : node->inputs()) {
      micro = micro || (v.valid() && rates[v.node] == Rate::kMicro);
    }
    if (micro) rates[node->id()] = Rate::kMicro;
  }
  return rates;
}

bool HasAccumulation(const Graph& graph) {
  for (const Node* node : graph.Nodes()) {
    if (node->Is(OpId::kAccumulate) && graph.View(*node).Int("count") > 1) {
      return true;
    }
  }
  return false;
}

}  // namespace weft
