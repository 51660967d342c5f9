#include "compiler/transforms/rewrite.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace weft {

const Node* AsConstant(const Graph& graph, Value v) {
  if (!v.valid() || !graph.node(v)->Is(OpId::kConstant)) return nullptr;
  return graph.node(v);
}

bool IsSplat(const Graph& graph, Value v, double* value) {
  const Node* constant = AsConstant(graph, v);
  if (constant == nullptr) return false;
  const Literal& tensor = constant->attrs().Find("value")->tensor();
  absl::string_view bytes = tensor.bytes();
  size_t size = DTypeSize(tensor.type().dtype);
  if (bytes.size() < size || size == 0) return false;
  // Equal to itself moved by one element: all elements are equal.
  if (bytes.substr(size) != bytes.substr(0, bytes.size() - size)) return false;
  Literal first({tensor.type().dtype, Shape()},
                std::string(bytes.substr(0, size)));
  *value = first.ToDoubles()[0];
  return tensor.type().dtype != DType::kI64 ||
         std::fabs(*value) <= 9007199254740992.0;
}

absl::Status ReplaceNode(Graph* graph, int32_t node,
                         absl::Span<const Value> replacements) {
  Node* old = graph->node(node);
  for (int i = 0; i < old->num_outputs(); ++i) {
    if (i >= static_cast<int>(replacements.size())) break;
    if (!replacements[i].valid()) continue;
    WEFT_RETURN_IF_ERROR(graph->ReplaceUses(old->output(i), replacements[i]));
  }
  for (int32_t user : graph->ControlUses(node)) {
    graph->RemoveControlInput(user, node);
    int32_t from = replacements[0].node;
    if (from != user) graph->AddControlInput(user, from);
  }
  return graph->Remove(node);
}

absl::StatusOr<Node*> AddInPlaceOf(Graph* graph, const Node& node,
                                   absl::string_view suffix,
                                   absl::string_view op,
                                   absl::Span<const Value> inputs,
                                   AttrMap attrs, std::string why,
                                   int num_outputs) {
  WEFT_ASSIGN_OR_RETURN(Node * made,
                        graph->Add(op, absl::StrCat(node.name(), "/", suffix),
                                   inputs, std::move(attrs), num_outputs));
  made->device = node.device;
  made->stage = node.stage;
  made->provenance = node.provenance;
  made->provenance.push_back(std::move(why));
  return made;
}

}  // namespace weft
