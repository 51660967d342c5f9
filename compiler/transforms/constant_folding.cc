#include "compiler/transforms/constant_folding.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/transforms/rewrite.h"
#include "core/base/status_macros.h"
#include "core/reference/evaluate.h"

namespace weft {
namespace {

bool HasConstantOperands(const Graph& graph, const Node& node) {
  bool any = false;
  for (Value v : node.inputs()) {
    if (!v.valid()) continue;
    if (AsConstant(graph, v) == nullptr) return false;
    any = true;
  }
  return any;
}

bool WithinBudget(const Graph& graph, const Node& node,
                  const PassSettings& settings) {
  int64_t bytes = 0;
  for (const TensorType& type : node.output_types()) bytes += type.num_bytes();
  if (bytes > settings.fold_bytes) return false;
  if (!node.schema().cost) return true;
  return node.schema().cost(graph.View(node)).flops <= settings.fold_flops;
}

bool IsFoldable(const Graph& graph, const Node& node,
                const PassSettings& settings) {
  return IsPure(node) && !node.Is(OpId::kCopy) &&
         !HasControlEdges(graph, node) && CanEvaluate(node.schema()) &&
         HasConstantOperands(graph, node) &&
         WithinBudget(graph, node, settings);
}

absl::Status Fold(Graph* graph, const Node& node,
                  const std::vector<Literal>& values) {
  std::vector<Value> replacements;
  for (const Literal& value : values) {
    WEFT_ASSIGN_OR_RETURN(
        Node * constant,
        AddInPlaceOf(graph, node, "folded", "Constant", {}, {{"value", value}},
                     absl::StrCat("constant_folding: value of ", node.name())));
    replacements.push_back(constant->output(0));
  }
  return ReplaceNode(graph, node.id(), replacements);
}

class ConstantFoldingPass : public Pass {
 public:
  absl::string_view Name() const override { return "constant_folding"; }

  absl::StatusOr<bool> Run(Graph& graph, PassContext& context) override {
    WEFT_ASSIGN_OR_RETURN(std::vector<const Node*> order,
                          static_cast<const Graph&>(graph).TopologicalOrder());
    bool changed = false;
    for (const Node* node : order) {
      if (!IsFoldable(graph, *node, context.settings)) continue;
      std::vector<Literal> operands;
      for (Value v : node->inputs()) {
        const Node* constant = AsConstant(graph, v);
        operands.push_back(constant == nullptr
                               ? Literal()
                               : constant->attrs().Find("value")->tensor());
      }
      absl::StatusOr<std::vector<Literal>> values =
          Evaluate(graph.View(*node), operands);
      if (!values.ok()) continue;
      WEFT_RETURN_IF_ERROR(Fold(&graph, *node, *values));
      changed = true;
    }
    return changed;
  }
};

}  // namespace

std::unique_ptr<Pass> CreateConstantFoldingPass() {
  return std::make_unique<ConstantFoldingPass>();
}

}  // namespace weft
