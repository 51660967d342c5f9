#include "compiler/rates/rates.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/graph/rates.h"

namespace weft {
namespace {

absl::Status CheckNode(const Graph& graph, const Node& node,
                       const std::vector<Rate>& rates, int micro_batches) {
  if (node.Is(OpId::kInput)) {
    return MakeError(ErrorCode::kBadGraph,
                     absl::StrCat("weft.Input '", node.name(),
                                  "' is not bound to data; a program can only "
                                  "start from weft.DataSource"));
  }
  if (node.Is(OpId::kAccumulate)) {
    int64_t count = graph.View(node).Int("count");
    if (count != micro_batches) {
      return MakeError(
          ErrorCode::kBadGraph,
          absl::StrCat("node '", node.name(), "' accumulates ", count,
                       " micro-batches, but a step has ", micro_batches));
    }
  }
  if (node.schema().effect == OpEffect::kUpdate && micro_batches > 1) {
    for (Value v : node.inputs()) {
      if (!v.valid() || rates[v.node] != Rate::kMicro) continue;
      return MakeError(
          ErrorCode::kBadGraph,
          absl::StrCat("update '", node.name(),
                       "' acts once a step but reads '", graph.node(v)->name(),
                       "', which has ", micro_batches,
                       " values a step; put a weft.Accumulate between"));
    }
  }
  return absl::OkStatus();
}

std::vector<int32_t> Predecessors(const Node& node) {
  std::vector<int32_t> out(node.control_inputs().begin(),
                           node.control_inputs().end());
  for (Value v : node.inputs()) {
    if (v.valid()) out.push_back(v.node);
  }
  return out;
}

}  // namespace

absl::StatusOr<RateTable> ClassifyRates(const Graph& graph, int micro_batches) {
  if (micro_batches < 1) {
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat("micro_batches is ", micro_batches,
                                  "; it must be at least 1"));
  }
  WEFT_ASSIGN_OR_RETURN(std::vector<Rate> rates, InferRates(graph));
  WEFT_ASSIGN_OR_RETURN(std::vector<const Node*> order,
                        graph.TopologicalOrder());
  for (const Node* node : order) {
    WEFT_RETURN_IF_ERROR(CheckNode(graph, *node, rates, micro_batches));
  }
  RateTable table;
  table.micro_batches = micro_batches;
  table.section.assign(graph.id_bound(), Section::kMicro);
  if (micro_batches == 1) return table;

  auto is_micro = [&](const Node& node) {
    return rates[node.id()] == Rate::kMicro || node.Is(OpId::kAccumulate);
  };
  // By node: the accumulating (or ordering) node that it must come after.
  std::vector<int32_t> after(graph.id_bound(), -1);
  for (const Node* node : order) {
    for (int32_t p : Predecessors(*node)) {
      const Node& pred = *graph.node(p);
      bool crosses = is_micro(pred) && !is_micro(*node);
      if (pred.Is(OpId::kAccumulate)) crosses = true;
      if (crosses) after[node->id()] = p;
      if (after[p] >= 0) after[node->id()] = after[p];
    }
    if (is_micro(*node) && after[node->id()] >= 0) {
      return MakeError(
          ErrorCode::kBadGraph,
          absl::StrCat("node '", node->name(),
                       "' acts for each micro-batch but depends on '",
                       graph.node(after[node->id()])->name(),
                       "', which is complete only after all of them"));
    }
  }
  std::vector<bool> feeds_micro(graph.id_bound(), false);
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node& node = **it;
    bool feeds = is_micro(node) || feeds_micro[node.id()] ||
                 (node.Is(OpId::kSend) && graph.View(node).Int("before") != 0);
    if (!is_micro(node)) {
      table.section[node.id()] = feeds || node.Is(OpId::kVariable)
                                     ? Section::kBefore
                                     : Section::kAfter;
    }
    if (!feeds) continue;
    for (int32_t p : Predecessors(node)) feeds_micro[p] = true;
  }
  return table;
}

}  // namespace weft
