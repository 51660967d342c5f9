#include "compiler/transforms/set_mode.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/transforms/rewrite.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

// FNV-1a: part of the meaning of a job's seed, so it never changes.
uint64_t HashName(absl::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : name) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

int64_t StreamOf(const Node& node) {
  return static_cast<int64_t>(HashName(node.name()));
}

class ModeSetter {
 public:
  ModeSetter(Graph* graph, Mode mode, uint64_t seed)
      : graph_(graph), mode_(mode), seed_(seed) {}

  absl::StatusOr<bool> Run() {
    bool changed = false;
    for (Node* node : graph_->Nodes()) {
      if (node->Is(OpId::kDropout)) {
        WEFT_RETURN_IF_ERROR(Dropout(*node));
        changed = true;
      } else if (DropsWeights(*node) && mode_ == Mode::kTrain) {
        WEFT_RETURN_IF_ERROR(SelfAttention(*node));
        changed = true;
      } else if (HasRunningStatistics(*node) && mode_ == Mode::kTrain) {
        WEFT_RETURN_IF_ERROR(BatchNormalization(*node));
        changed = true;
      }
    }
    return changed;
  }

 private:
  absl::Status Dropout(const Node& node);
  absl::Status SelfAttention(const Node& node);
  absl::Status BatchNormalization(const Node& node);
  bool DropsWeights(const Node& node) const;
  bool HasRunningStatistics(const Node& node) const;
  absl::Status AddEma(const Node& norm, Value variable, Value batch,
                      absl::string_view what, double momentum);
  absl::StatusOr<Value> Counter();
  // A node with the place and control inputs of `old`.
  absl::StatusOr<Node*> AddLike(const Node& old, absl::string_view op,
                                absl::string_view name,
                                absl::Span<const Value> inputs, AttrMap attrs,
                                int num_outputs);

  Graph* graph_;
  Mode mode_;
  uint64_t seed_;
};

absl::StatusOr<Node*> ModeSetter::AddLike(const Node& old, absl::string_view op,
                                          absl::string_view name,
                                          absl::Span<const Value> inputs,
                                          AttrMap attrs, int num_outputs) {
  WEFT_ASSIGN_OR_RETURN(
      Node * node,
      graph_->Add(op, name, inputs, std::move(attrs), num_outputs));
  node->device = old.device;
  node->stage = old.stage;
  node->provenance = old.provenance;
  node->provenance.push_back(
      absl::StrCat("set_mode: training form of ", old.name()));
  for (int32_t from : old.control_inputs()) {
    graph_->AddControlInput(node->id(), from);
  }
  return node;
}

absl::StatusOr<Value> ModeSetter::Counter() {
  for (const Node* node : graph_->Nodes()) {
    if (node->Is(OpId::kCounter) &&
        graph_->View(*node).String("rate") == "micro") {
      return node->output(0);
    }
  }
  WEFT_ASSIGN_OR_RETURN(Node * node, graph_->Add("weft.Counter", "counter", {},
                                                 {{"rate", "micro"}}));
  node->provenance.push_back("set_mode: counts micro-batches for Dropout");
  return node->output(0);
}

absl::Status ModeSetter::Dropout(const Node& node) {
  double ratio = graph_->View(node).Float("ratio");
  if (mode_ == Mode::kEval || ratio == 0) {
    return ReplaceNode(graph_, node.id(), {node.input(0)});
  }
  WEFT_ASSIGN_OR_RETURN(Value counter, Counter());
  AttrMap attrs = {{"ratio", ratio},
                   {"seed", static_cast<int64_t>(seed_)},
                   {"stream", StreamOf(node)}};
  WEFT_ASSIGN_OR_RETURN(Node * training,
                        AddLike(node, "weft.DropoutTraining",
                                absl::StrCat(node.name(), "/training"),
                                {node.input(0), counter}, std::move(attrs), 2));
  return ReplaceNode(graph_, node.id(), {training->output(0)});
}

bool ModeSetter::DropsWeights(const Node& node) const {
  if (!node.Is(OpId::kSelfAttention)) return false;
  OpView view = graph_->View(node);
  return !view.has_input(1) && view.Float("ratio") != 0;
}

absl::Status ModeSetter::SelfAttention(const Node& node) {
  WEFT_ASSIGN_OR_RETURN(Value counter, Counter());
  AttrMap attrs = node.attrs();
  attrs.Set("seed", static_cast<int64_t>(seed_));
  attrs.Set("stream", StreamOf(node));
  WEFT_ASSIGN_OR_RETURN(Node * training,
                        AddLike(node, "weft.SelfAttention",
                                absl::StrCat(node.name(), "/training"),
                                {node.input(0), counter}, std::move(attrs), 2));
  return ReplaceNode(graph_, node.id(),
                     {training->output(0), training->output(1)});
}

bool ModeSetter::HasRunningStatistics(const Node& node) const {
  return node.Is(OpId::kBatchNormalization) &&
         graph_->View(node).Int("training_mode") == 0 &&
         graph_->node(node.input(3))->Is(OpId::kVariable) &&
         graph_->node(node.input(4))->Is(OpId::kVariable);
}

absl::Status ModeSetter::BatchNormalization(const Node& node) {
  OpView view = graph_->View(node);
  double momentum = view.Float("momentum");
  WEFT_ASSIGN_OR_RETURN(Node * training,
                        AddLike(node, "weft.BatchNormTraining",
                                absl::StrCat(node.name(), "/training"),
                                {node.input(0), node.input(1), node.input(2)},
                                {{"epsilon", view.Float("epsilon")}}, 3));
  WEFT_RETURN_IF_ERROR(AddEma(node, node.input(3), training->output(1),
                              "running_mean", momentum));
  WEFT_RETURN_IF_ERROR(AddEma(node, node.input(4), training->output(2),
                              "running_var", momentum));
  return ReplaceNode(graph_, node.id(), {training->output(0)});
}

absl::Status ModeSetter::AddEma(const Node& norm, Value variable, Value batch,
                                absl::string_view what, double momentum) {
  return AddLike(norm, "weft.EmaUpdate", absl::StrCat(norm.name(), "/", what),
                 {variable, batch}, {{"momentum", momentum}}, 1)
      .status();
}

class SetModePass : public Pass {
 public:
  absl::string_view Name() const override { return "set_mode"; }
  absl::StatusOr<bool> Run(Graph& graph, PassContext& context) override {
    Mode mode = context.settings.training ? Mode::kTrain : Mode::kEval;
    return ModeSetter(&graph, mode, context.settings.seed).Run();
  }
};

}  // namespace

absl::Status SetMode(Graph* graph, Mode mode, uint64_t seed) {
  return ModeSetter(graph, mode, seed).Run().status();
}

std::unique_ptr<Pass> CreateSetModePass() {
  return std::make_unique<SetModePass>();
}

}  // namespace weft
