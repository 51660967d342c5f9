#include "compiler/transforms/accumulate.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace weft {

absl::StatusOr<Value> AddAccumulate(Graph* graph, Value value, int count) {
  const Node& from = *graph->node(value);
  WEFT_ASSIGN_OR_RETURN(
      Node * node,
      graph->Add("weft.Accumulate", absl::StrCat(from.name(), "/accumulate"),
                 {value}, {{"count", count}}));
  node->device = from.device;
  node->stage = from.stage;
  node->provenance.push_back(
      absl::StrCat("accumulate: sum over ", count, " micro-batches"));
  return node->output(0);
}

}  // namespace weft
