#include "compiler/transforms/decompose.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/transforms/rewrite.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

// Decompositions lead to primitives in a few steps; more is a cycle among
// schemas.
constexpr int kMaxRounds = 32;

class DecomposePass : public Pass {
 public:
  absl::string_view Name() const override { return "decompose"; }

  absl::StatusOr<bool> Run(Graph& graph, PassContext& context) override {
    const auto& wanted = context.settings.decompose;
    bool any = false;
    for (int round = 0; round < kMaxRounds; ++round) {
      bool changed = false;
      for (const Node* node : static_cast<const Graph&>(graph).Nodes()) {
        if (!node->schema().decompose || (wanted && !wanted(*node))) continue;
        WEFT_RETURN_IF_ERROR(DecomposeNode(&graph, node->id()));
        changed = true;
      }
      if (!changed) return any;
      any = true;
    }
    return MakeError(ErrorCode::kInternal,
                     "decompositions do not come to an end");
  }
};

}  // namespace

absl::Status DecomposeNode(Graph* graph, int32_t id) {
  const Node& node = *graph->node(id);
  int32_t first_new = graph->id_bound();
  GraphEmitter emit(
      graph, node.name(),
      absl::StrCat("decompose: part of ", node.name(), " (", node.op(), ")"));
  emit.set_placement(node.device, node.stage);
  std::vector<Value> results =
      node.schema().decompose(graph->View(node), node.inputs(), emit);
  WEFT_RETURN_IF_ERROR(emit.status());
  if (static_cast<int>(results.size()) < node.num_outputs()) {
    return MakeError(ErrorCode::kInternal,
                     absl::StrCat("the decomposition of ", node.op(), " gives ",
                                  results.size(), " results"));
  }
  // The new values of an update still have to be stored.
  for (int i = 0; i < node.num_updated(); ++i) {
    if (graph->node(results[i])->schema().effect == OpEffect::kUpdate) continue;
    results[i] = emit.Emit1("weft.Assign", {node.input(i), results[i]});
    WEFT_RETURN_IF_ERROR(emit.status());
  }
  std::vector<int32_t> waiting = graph->ControlUses(id);
  for (int32_t made = first_new; made < graph->id_bound(); ++made) {
    graph->node(made)->provenance.insert(graph->node(made)->provenance.begin(),
                                         node.provenance.begin(),
                                         node.provenance.end());
    for (int32_t from : node.control_inputs()) {
      graph->AddControlInput(made, from);
    }
    for (int32_t user : waiting) graph->AddControlInput(user, made);
  }
  for (int32_t user : waiting) graph->RemoveControlInput(user, id);
  results.resize(node.num_outputs());
  return ReplaceNode(graph, id, results);
}

std::unique_ptr<Pass> CreateDecomposePass() {
  return std::make_unique<DecomposePass>();
}

}  // namespace weft
