// init, save and load: programs that only touch state.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/training/training.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/status_macros.h"
#include "core/ops/system_attrs.h"

namespace weft::training {
namespace {

std::vector<const Node*> Variables(const Graph& graph) {
  std::vector<const Node*> out;
  for (const Node* node : graph.Nodes()) {
    if (node->Is(OpId::kVariable)) out.push_back(node);
  }
  return out;
}

absl::StatusOr<Node*> CopyVariable(const Node& variable, Graph* graph) {
  WEFT_ASSIGN_OR_RETURN(Node * copy, graph->Add(variable.op(), variable.name(),
                                                {}, variable.attrs()));
  copy->device = variable.device;
  return copy;
}

}  // namespace

absl::StatusOr<Graph> BuildInitGraph(const Graph& program, uint64_t seed) {
  Graph graph("init");
  WEFT_ASSIGN_OR_RETURN(Node * counter, graph.Add("weft.Counter", "counter", {},
                                                  {{"rate", "step"}}));
  for (const Node* variable : Variables(program)) {
    WEFT_ASSIGN_OR_RETURN(Node * copy, CopyVariable(*variable, &graph));
    GraphEmitter emit(&graph, absl::StrCat(variable->name(), "/init"),
                      "init: first value");
    emit.set_placement(copy->device, -1);
    Value value = EmitInitialValue(
        emit, program.View(*variable), counter->output(0),
        static_cast<int64_t>(seed), RandomStream(variable->name()));
    emit.Emit1("weft.Assign", {copy->output(0), value});
    WEFT_RETURN_IF_ERROR(emit.status());
  }
  if (graph.Uses(counter->output(0)).empty()) {
    WEFT_RETURN_IF_ERROR(graph.Remove(counter->id()));
  }
  return graph;
}

absl::StatusOr<Graph> BuildSaveGraph(const Graph& program) {
  Graph graph("save");
  for (const Node* variable : Variables(program)) {
    WEFT_ASSIGN_OR_RETURN(Node * copy, CopyVariable(*variable, &graph));
    std::string name = absl::StrCat("save/", variable->name());
    WEFT_RETURN_IF_ERROR(
        graph.Add("weft.Output", name, {copy->output(0)}, {{"name", name}})
            .status());
  }
  return graph;
}

absl::StatusOr<Graph> BuildLoadGraph(const Graph& program) {
  Graph graph("load");
  // One after the other: memory for the largest is enough.
  int32_t before = -1;
  for (const Node* variable : Variables(program)) {
    WEFT_ASSIGN_OR_RETURN(Node * copy, CopyVariable(*variable, &graph));
    std::string name = absl::StrCat("load/", variable->name());
    WEFT_ASSIGN_OR_RETURN(
        Node * source,
        graph.Add("weft.DataSource", name, {},
                  DataSourceAttrs(name, {variable->output_type(0)})));
    if (before >= 0) graph.AddControlInput(source->id(), before);
    WEFT_ASSIGN_OR_RETURN(
        Node * assign, graph.Add("weft.Assign", absl::StrCat(name, "/assign"),
                                 {copy->output(0), source->output(0)}));
    before = assign->id();
  }
  return graph;
}

}  // namespace weft::training
