#include "compiler/autodiff/autodiff.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/transforms/rewrite.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

class Differentiator {
 public:
  Differentiator(Graph* graph, absl::Span<const Value> wrt,
                 const absl::flat_hash_set<Value>& recompute)
      : graph_(graph), wrt_(wrt), recompute_(recompute) {}

  absl::StatusOr<std::vector<Value>> Run(Value loss);

 private:
  void FindDependents(const std::vector<const Node*>& order);
  absl::Status Visit(const Node& node);
  absl::Status Contribute(const Node& node, std::vector<Value> gradients);
  absl::Status ReadAgain(int32_t first, int32_t after);
  absl::StatusOr<Value> Again(Value v, int32_t after);
  GraphEmitter EmitterFor(const Node& node) const;
  bool IsDependent(Value v) const {
    return v.valid() && dependent_.contains(v);
  }

  Graph* graph_;
  absl::Span<const Value> wrt_;
  // Values that depend on one of wrt_ through floating point values.
  absl::flat_hash_set<Value> dependent_;
  absl::flat_hash_map<Value, Value> gradient_;
  const absl::flat_hash_set<Value>& recompute_;
  absl::flat_hash_map<Value, Value> again_;
};

void Differentiator::FindDependents(const std::vector<const Node*>& order) {
  dependent_.insert(wrt_.begin(), wrt_.end());
  for (const Node* node : order) {
    bool any = std::any_of(node->inputs().begin(), node->inputs().end(),
                           [this](Value v) { return IsDependent(v); });
    if (!any) continue;
    for (int i = 0; i < node->num_outputs(); ++i) {
      if (IsFloat(node->output_type(i).dtype)) {
        dependent_.insert(node->output(i));
      }
    }
  }
}

GraphEmitter Differentiator::EmitterFor(const Node& node) const {
  GraphEmitter emit(graph_, absl::StrCat(node.name(), "/grad"),
                    absl::StrCat("autodiff: gradient of ", node.name()));
  emit.set_placement(node.device, node.stage);
  return emit;
}

absl::StatusOr<std::vector<Value>> Differentiator::Run(Value loss) {
  const TensorType& type = graph_->type(loss);
  if (!IsFloat(type.dtype) || type.shape.rank() != 0) {
    return MakeError(IsFloat(type.dtype) ? ErrorCode::kShapeMismatch
                                         : ErrorCode::kDTypeMismatch,
                     absl::StrCat("the loss, '", graph_->ValueName(loss),
                                  "', is ", type.ToString(),
                                  "; only a floating point scalar has a "
                                  "gradient"));
  }
  WEFT_ASSIGN_OR_RETURN(std::vector<const Node*> order,
                        graph_->TopologicalOrder());
  FindDependents(order);
  if (IsDependent(loss)) {
    GraphEmitter emit = EmitterFor(*graph_->node(loss));
    gradient_[loss] = emit.Scalar(1, type.dtype);
    WEFT_RETURN_IF_ERROR(emit.status());
  }
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    WEFT_RETURN_IF_ERROR(Visit(**it));
  }
  std::vector<Value> gradients;
  for (Value v : wrt_) {
    auto it = gradient_.find(v);
    gradients.push_back(it == gradient_.end() ? Value() : it->second);
  }
  return gradients;
}

// Nodes of a gradient, from `first` on, read the values of recompute_ as they
// are made again after node `after`.
absl::Status Differentiator::ReadAgain(int32_t first, int32_t after) {
  const int32_t bound = graph_->id_bound();
  for (int32_t id = first; id < bound && !recompute_.empty(); ++id) {
    const int operands = static_cast<int>(graph_->node(id)->inputs().size());
    for (int i = 0; i < operands; ++i) {
      WEFT_ASSIGN_OR_RETURN(Value v, Again(graph_->node(id)->input(i), after));
      WEFT_RETURN_IF_ERROR(graph_->SetInput(id, i, v));
    }
  }
  return absl::OkStatus();
}

// `v` where it is kept.
absl::StatusOr<Value> Differentiator::Again(Value v, int32_t after) {
  if (!recompute_.contains(v)) return v;
  if (auto it = again_.find(v); it != again_.end()) return it->second;
  const Node& node = *graph_->node(v);
  std::vector<Value> inputs;
  for (Value input : node.inputs()) {
    WEFT_ASSIGN_OR_RETURN(Value made, Again(input, after));
    inputs.push_back(made);
  }
  WEFT_ASSIGN_OR_RETURN(
      Node * again,
      AddInPlaceOf(graph_, node, "again", node.op(), inputs, node.attrs(),
                   absl::StrCat("recompute: ", node.name(),
                                ", made again for its gradient"),
                   node.num_outputs()));
  graph_->AddControlInput(again->id(), after);
  again_[v] = again->output(v.index);
  return again_[v];
}

absl::Status Differentiator::Visit(const Node& node) {
  bool flows = std::any_of(node.inputs().begin(), node.inputs().end(),
                           [this](Value v) { return IsDependent(v); });
  if (!flows) return absl::OkStatus();
  std::vector<Value> outputs, output_grads;
  int32_t after = -1;  // what the gradient waits for
  for (int i = 0; i < node.num_outputs(); ++i) {
    outputs.push_back(node.output(i));
    auto it = gradient_.find(node.output(i));
    output_grads.push_back(it == gradient_.end() ? Value() : it->second);
    if (output_grads.back().valid()) after = output_grads.back().node;
  }
  if (after < 0) return absl::OkStatus();
  if (!node.schema().gradient) {
    return MakeError(
        ErrorCode::kNoGradient,
        absl::StrCat("node '", node.name(), "' (", node.op(),
                     ") lies between the loss and what is trained, and its "
                     "operator has no gradient"));
  }
  const int32_t first = graph_->id_bound();
  GraphEmitter emit = EmitterFor(node);
  OpView view = graph_->View(node);
  std::vector<Value> gradients = node.schema().gradient(
      GradientContext{view, node.inputs(), outputs, output_grads, emit});
  WEFT_RETURN_IF_ERROR(
      Annotate(emit.status(), absl::StrCat("gradient of '", node.name(), "'")));
  WEFT_RETURN_IF_ERROR(ReadAgain(first, after));
  return Contribute(node, std::move(gradients));
}

absl::Status Differentiator::Contribute(const Node& node,
                                        std::vector<Value> gradients) {
  GraphEmitter emit = EmitterFor(node);
  for (size_t i = 0; i < gradients.size() && i < node.inputs().size(); ++i) {
    Value operand = node.inputs()[i];
    if (!gradients[i].valid() || !IsDependent(operand)) continue;
    if (graph_->type(gradients[i]) != graph_->type(operand)) {
      return MakeError(
          ErrorCode::kInternal,
          absl::StrCat("the gradient of '", node.name(), "' (", node.op(),
                       ") for operand ", i, " is ",
                       graph_->type(gradients[i]).ToString(), ", not ",
                       graph_->type(operand).ToString()));
    }
    Value& sum = gradient_[operand];
    sum = sum.valid() ? emit.Emit1("Add", {sum, gradients[i]}) : gradients[i];
  }
  return emit.status();
}

}  // namespace

absl::StatusOr<std::vector<Value>> AddGradients(
    Graph* graph, Value loss, absl::Span<const Value> wrt,
    const absl::flat_hash_set<Value>& recompute) {
  return Differentiator(graph, wrt, recompute).Run(loss);
}

}  // namespace weft
