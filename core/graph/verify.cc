#include "core/graph/verify.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/graph/rates.h"

namespace weft {
namespace {

absl::Status Bad(const Node& node, absl::string_view message) {
  return MakeError(
      ErrorCode::kBadGraph,
      absl::StrCat("node '", node.name(), "' (", node.op(), "): ", message));
}

absl::Status CheckName(const Graph& graph, const Node& node) {
  if (node.name().empty()) {
    return Bad(node, absl::StrCat("node [", node.id(), "] has no name"));
  }
  if (graph.FindNode(node.name()) != &node) {
    return Bad(node, "another node has the same name");
  }
  return absl::OkStatus();
}

absl::Status CheckOperands(const Graph& graph, const Node& node) {
  OpView view = graph.View(node);
  for (int i = 0; i < static_cast<int>(node.inputs().size()); ++i) {
    Value v = node.input(i);
    if (!v.valid()) continue;
    if (!graph.Contains(v.node) || v.index < 0 ||
        v.index >= graph.node(v)->num_outputs()) {
      return Bad(node, absl::StrCat("operand ", i, " is no live value"));
    }
    if (graph.type(v) != view.input(i)) {
      return Bad(node,
                 absl::StrCat("operand ", i, " was ", view.input(i).ToString(),
                              " and is ", graph.type(v).ToString()));
    }
    auto uses = graph.Uses(v);
    if (!std::binary_search(uses.begin(), uses.end(),
                            std::make_pair(node.id(), i))) {
      return Bad(node,
                 absl::StrCat("operand ", i, " is not among the uses of '",
                              graph.ValueName(v), "'"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckUses(const Graph& graph, const Node& node) {
  for (int i = 0; i < node.num_outputs(); ++i) {
    for (const auto& [user, position] : graph.Uses(node.output(i))) {
      if (!graph.Contains(user) ||
          position >= static_cast<int>(graph.node(user)->inputs().size()) ||
          graph.node(user)->input(position) != node.output(i)) {
        return Bad(node, absl::StrCat("the uses of output ", i, " are stale"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTypes(const Graph& graph, const Node& node) {
  std::vector<TensorType> inputs;
  for (Value v : node.inputs()) {
    inputs.push_back(v.valid() ? graph.type(v) : TensorType());
  }
  WEFT_ASSIGN_OR_RETURN(std::vector<TensorType> types,
                        InferTypes(node.schema(), node.name(), node.attrs(),
                                   inputs, node.num_outputs()));
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (types[i] != node.output_type(i)) {
      return Bad(node, absl::StrCat("output ", i, " is recorded as ",
                                    node.output_type(i).ToString(),
                                    ", inference gives ", types[i].ToString()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckControl(const Graph& graph, const Node& node) {
  int32_t previous = -1;
  for (int32_t from : node.control_inputs()) {
    if (!graph.Contains(from) || from == node.id() || from <= previous) {
      return Bad(node, absl::StrCat("bad control input [", from, "]"));
    }
    previous = from;
    if (!graph.IsControlUse(from, node.id())) {
      return Bad(node, absl::StrCat("is not among the control uses of '",
                                    graph.node(from)->name(), "'"));
    }
  }
  return absl::OkStatus();
}

// Variables by the update that changes them.
using UpdateMap = absl::flat_hash_map<int32_t, const Node*>;

// What lies behind ops that may leave bytes where they are.
Value RootOf(const Graph& graph, Value v) {
  while (true) {
    const Node& node = *graph.node(v);
    switch (node.schema().id) {
      case OpId::kIdentity:
      case OpId::kReshape:
      case OpId::kFlatten:
      case OpId::kSqueeze:
      case OpId::kUnsqueeze:
        v = node.input(0);
        break;
      default:
        return v;
    }
  }
}

absl::Status CheckUpdate(const Graph& graph, const Node& node,
                         UpdateMap* updates) {
  if (node.schema().effect != OpEffect::kUpdate) return absl::OkStatus();
  for (int i = 0; i < node.num_updated(); ++i) {
    const Node* variable = graph.node(node.input(i));
    if (!variable->Is(OpId::kVariable)) {
      return Bad(node,
                 absl::StrCat("updates operand ", i, ", '",
                              graph.ValueName(node.input(i)), "', which is a ",
                              variable->op(), ", not a weft.Variable"));
    }
    auto [it, inserted] = updates->emplace(variable->id(), &node);
    if (!inserted) {
      return Bad(node, absl::StrCat("variable '", variable->name(),
                                    "' is also updated by '",
                                    it->second->name(), "'"));
    }
  }
  // Several variables change one after the other: what all share, or a
  // gradient, may be none of them.
  for (int i = node.num_updated(); i < static_cast<int>(node.inputs().size());
       ++i) {
    if (!node.input(i).valid() || node.num_updated() < 2) continue;
    auto it = updates->find(RootOf(graph, node.input(i)).node);
    if (it == updates->end() || it->second != &node) continue;
    return Bad(node, absl::StrCat("operand ", i, " is '",
                                  graph.node(it->first)->name(),
                                  "', which it updates"));
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    auto uses = graph.Uses(node.output(i));
    if (uses.empty()) continue;
    return Bad(node, absl::StrCat("the result of an update is read by '",
                                  graph.node(uses[0].first)->name(),
                                  "'; read the variable instead"));
  }
  return absl::OkStatus();
}

absl::Status CheckOutputName(
    const Graph& graph, const Node& node,
    absl::flat_hash_map<std::string, const Node*>* names) {
  if (!node.Is(OpId::kOutput)) return absl::OkStatus();
  const std::string& name = graph.View(node).String("name");
  auto [it, inserted] = names->emplace(name, &node);
  if (inserted) return absl::OkStatus();
  return Bad(node,
             absl::StrCat("output name '", name, "' is also given to node '",
                          it->second->name(), "'"));
}

absl::Status CheckRates(const Graph& graph) {
  WEFT_ASSIGN_OR_RETURN(std::vector<Rate> rates, InferRates(graph));
  if (!HasAccumulation(graph)) return absl::OkStatus();
  for (const Node* node : graph.Nodes()) {
    bool micro = rates[node->id()] == Rate::kMicro;
    if (micro && node->schema().effect == OpEffect::kUpdate) {
      return Bad(*node,
                 "an update depends on a single micro-batch; accumulate its "
                 "operands over the step (weft.Accumulate)");
    }
    if (node->Is(OpId::kAccumulate) &&
        rates[node->input(0).node] != Rate::kMicro) {
      return Bad(*node,
                 absl::StrCat("accumulates '", graph.ValueName(node->input(0)),
                              "', which is made once a step"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyGraph(const Graph& graph) {
  UpdateMap updates;
  absl::flat_hash_map<std::string, const Node*> output_names;
  for (const Node* node : graph.Nodes()) {
    WEFT_RETURN_IF_ERROR(CheckName(graph, *node));
    WEFT_RETURN_IF_ERROR(CheckOperands(graph, *node));
    WEFT_RETURN_IF_ERROR(CheckUses(graph, *node));
    WEFT_RETURN_IF_ERROR(CheckTypes(graph, *node));
    WEFT_RETURN_IF_ERROR(CheckControl(graph, *node));
    WEFT_RETURN_IF_ERROR(CheckUpdate(graph, *node, &updates));
    WEFT_RETURN_IF_ERROR(CheckOutputName(graph, *node, &output_names));
  }
  return CheckRates(graph);
}

}  // namespace weft
