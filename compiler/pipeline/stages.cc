#include "compiler/pipeline/stages.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/graph/rates.h"

namespace weft {
namespace {

double FlopsOf(const Graph& graph, const Node& node) {
  return node.schema().cost ? node.schema().cost(graph.View(node)).flops : 0;
}

// Items that cost something, in order.
class Cutter {
 public:
  Cutter(std::vector<double> costs, int stages)
      : costs_(std::move(costs)), stages_(stages) {}

  // The stage of each item. Pre-condition: as many items as stages.
  std::vector<int> Run() const {
    double low = 0, high = 0;
    for (double cost : costs_) {
      low = std::max(low, cost);
      high += cost;
    }
    // Costs are counts: this is more than exact.
    for (int i = 0; i < 100 && low < high; ++i) {
      const double middle = low + (high - low) / 2;
      if (middle <= low || middle >= high) break;
      (Fill(middle).back() < stages_ ? high : low) = middle;
    }
    std::vector<int> out = Fill(low);
    return out.back() < stages_ ? out : Fill(high);
  }

 private:
  // Each stage takes what fits, and leaves one item for each that follows. May
  // need more stages than there are.
  std::vector<int> Fill(double most) const {
    std::vector<int> out;
    double filled = 0;
    int stage = 0;
    for (size_t i = 0; i < costs_.size(); ++i) {
      const auto left = static_cast<int>(costs_.size() - i);
      const bool last_chance = left <= stages_ - 1 - stage;
      if (i > 0 && (filled + costs_[i] > most || last_chance)) {
        ++stage;
        filled = 0;
      }
      filled += costs_[i];
      out.push_back(stage);
    }
    return out;
  }

  const std::vector<double> costs_;
  const int stages_;
};

// Of what is not in the model's flow: the first stage that reads it.
int FirstReadingStage(const Graph& graph, const Node& node) {
  int first = -1;
  auto follow = [&](int32_t reader) {
    const int stage = graph.node(reader)->stage;
    if (stage >= 0 && (first < 0 || stage < first)) first = stage;
  };
  for (int i = 0; i < node.num_outputs(); ++i) {
    for (auto [reader, position] : graph.Uses(node.output(i))) follow(reader);
  }
  for (int32_t after : graph.ControlUses(node.id())) follow(after);
  return first;
}

}  // namespace

absl::Status CutIntoStages(int stages, Graph* model) {
  WEFT_ASSIGN_OR_RETURN(std::vector<const Node*> order,
                        model->TopologicalOrder());
  WEFT_ASSIGN_OR_RETURN(std::vector<Rate> rates, InferRates(*model));
  const auto flows = [&](const Node& node) {
    return rates[node.id()] == Rate::kMicro && !node.inputs().empty();
  };
  std::vector<double> costs;
  for (const Node* node : order) {
    const double cost = FlopsOf(*model, *node);
    if (flows(*node) && cost > 0) costs.push_back(cost);
  }
  if (static_cast<int>(costs.size()) < stages) {
    return MakeError(ErrorCode::kBadJob,
                     absl::StrCat("pipeline.stages is ", stages,
                                  ", but model '", model->name(), "' has ",
                                  costs.size(), " nodes with work to share"));
  }
  const std::vector<int> cut = Cutter(std::move(costs), stages).Run();
  size_t next = 0;
  int stage = 0;
  for (const Node* node : order) {
    if (!flows(*node)) continue;
    if (FlopsOf(*model, *node) > 0) stage = cut[next++];
    model->node(node->id())->stage = stage;
  }
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (flows(**it) || (*it)->Is(OpId::kConstant)) continue;
    model->node((*it)->id())->stage =
        std::max(0, FirstReadingStage(*model, **it));
  }
  return absl::OkStatus();
}

absl::Status CheckStagesFlow(const Graph& model) {
  WEFT_ASSIGN_OR_RETURN(std::vector<Rate> rates, InferRates(model));
  for (const Node* node : model.Nodes()) {
    if (node->Is(OpId::kOutput)) continue;
    for (Value v : node->inputs()) {
      if (!v.valid() || rates[v.node] != Rate::kMicro) continue;
      const Node& from = *model.node(v);
      if (from.stage <= node->stage || from.inputs().empty()) continue;
      return MakeError(ErrorCode::kBadJob,
                       absl::StrCat("the pipeline cannot flow: '", node->name(),
                                    "' of stage ", node->stage, " reads '",
                                    from.name(), "' of stage ", from.stage));
    }
  }
  return absl::OkStatus();
}

void MirrorStages(int32_t first_gradient, Graph* graph) {
  int last = -1;
  for (const Node* node : graph->Nodes()) {
    if (node->id() < first_gradient) last = std::max(last, node->stage);
  }
  for (Node* node : graph->Nodes()) {
    if (node->id() < first_gradient || node->stage < 0) continue;
    node->stage = 2 * last + 1 - node->stage;
  }
}

}  // namespace weft
