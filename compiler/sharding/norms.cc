#include "compiler/sharding/norms.h"

#include <algorithm>
#include <vector>

#include "compiler/collectives/cost.h"
#include "compiler/sharding/bundles.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

std::vector<Node*> NormsOf(Graph* graph) {
  std::vector<Node*> out;
  for (Node* node : graph->Nodes()) {
    if (node->Is(OpId::kGlobalNorm)) out.push_back(node);
  }
  return out;
}

// The root of `total` in place of the norm.
absl::Status Replace(const Node& norm, Value total, GraphEmitter* emit,
                     Graph* graph) {
  const Value root = emit->Emit1("Sqrt", {total});
  const Value value = emit->Emit1("Cast", {root}, {{"to", DType::kF32}});
  WEFT_RETURN_IF_ERROR(emit->status());
  WEFT_RETURN_IF_ERROR(graph->ReplaceUses(norm.output(0), value));
  return graph->Remove(norm.id());
}

// A sum over members that is a value of its own, as it is reduced.
bool TravelsAlone(const Graph& graph, Value v, int64_t bundle_bytes) {
  const TensorType& type = graph.type(v);
  return graph.node(v)->Is(OpId::kAccumulate) && DTypeSize(type.dtype) >= 4 &&
         GoesAlone(type, bundle_bytes);
}

}  // namespace

absl::Status DecomposeNorms(Graph* graph) {
  for (const Node* norm : NormsOf(graph)) {
    GraphEmitter emit(graph, norm->name(), "sharding: a norm of parts");
    emit.set_placement(norm->device, norm->stage);
    Value total;
    for (Value v : norm->inputs()) {
      const Value sum = emit.Emit1("weft.SumOfSquares", {v});
      total = total.valid() ? emit.Emit1("Add", {total, sum}) : sum;
    }
    WEFT_RETURN_IF_ERROR(Replace(*norm, total, &emit, graph));
  }
  return absl::OkStatus();
}

absl::Status SplitNorms(Graph* graph, int members, int64_t bundle_bytes) {
  if (members < 2) return absl::OkStatus();
  for (const Node* norm : NormsOf(graph)) {
    std::vector<Value> alone, others;
    std::vector<int64_t> blocks;
    for (Value v : norm->inputs()) {
      if (!TravelsAlone(*graph, v, bundle_bytes)) {
        others.push_back(v);
        continue;
      }
      alone.push_back(v);
      const TensorType& type = graph->type(v);
      const int64_t elements = type.shape.num_elements();
      blocks.push_back(
          std::min(elements, BlockInPlace(elements, members, type.dtype)));
    }
    if (alone.empty()) continue;
    GraphEmitter emit(graph, norm->name(),
                      "sharding: a norm of what members reduce");
    emit.set_placement(norm->device, norm->stage);
    const Value parts = emit.Emit1("weft.SumOfSquares", alone,
                                   {{"parts", members}, {"blocks", blocks}});
    Value total = emit.Emit1("ReduceSum", {parts}, {{"keepdims", 0}});
    if (!others.empty()) {
      total =
          emit.Emit1("Add", {total, emit.Emit1("weft.SumOfSquares", others)});
    }
    WEFT_RETURN_IF_ERROR(Replace(*norm, total, &emit, graph));
  }
  return absl::OkStatus();
}

}  // namespace weft
