#include "compiler/transforms/epilogues.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/transforms/rewrite.h"
#include "compiler/transforms/waves.h"
#include "core/base/status_macros.h"
#include "core/graph/rates.h"
#include "core/ops/activation.h"

namespace weft {
namespace {

class EpilogueFuser {
 public:
  EpilogueFuser(Graph* graph, const PassSettings& settings)
      : graph_(*graph), settings_(settings) {}

  absl::StatusOr<bool> Run() {
    if (!settings_.runs_as_kernel) return false;
    WEFT_ASSIGN_OR_RETURN(std::vector<const Node*> order,
                          std::as_const(graph_).TopologicalOrder());
    WEFT_ASSIGN_OR_RETURN(rates_, InferRates(graph_));
    waves_ = WavesOf(graph_, order);
    position_.assign(graph_.id_bound(), -1);
    std::vector<int32_t> ids;
    for (const Node* node : order) {
      position_[node->id()] = static_cast<int>(ids.size());
      ids.push_back(node->id());
    }
    bool changed = false;
    for (int32_t id : ids) {
      const Node* node = graph_.node(id);
      if (node == nullptr) continue;  // went into an earlier one
      absl::StatusOr<bool> one =
          node->Is(OpId::kRelu)                          ? Activate(*node)
          : node->Is(OpId::kLayerNormalization)          ? AddBeforeNorm(*node)
          : node->Is(OpId::kSoftmaxCrossEntropyLossGrad) ? LossWithGrad(*node)
                                                         : false;
      WEFT_RETURN_IF_ERROR(one.status());
      changed = changed || *one;
    }
    return changed;
  }

 private:
  absl::StatusOr<bool> Activate(const Node& relu);
  absl::StatusOr<bool> AddBeforeNorm(const Node& norm);
  absl::StatusOr<bool> LossWithGrad(const Node& grad);

  const Node* NormBefore(const Node& add, int* other) const;
  bool TakesActivation(const Node& node) const;
  bool GoTogether(const Node& first, const Node& then) const;
  bool OnlyReadBy(Value v, const Node& reader) const;
  bool DependsOn(Value v, const Node& node) const;

  // Null where no device runs the node that was added; it is removed again.
  absl::StatusOr<Node*> Made(absl::StatusOr<Node*> added);

  Graph& graph_;
  const PassSettings& settings_;
  std::vector<Rate> rates_;  // by node id
  std::vector<int32_t> waves_;
  std::vector<int> position_;  // by node id, in topological order
};

// ---- What may be one --------------------------------------------------------

// Whether both are part of the graph as it was, and of one place, rate and
// wave. Nodes that wait for `then` can wait for both.
bool EpilogueFuser::GoTogether(const Node& first, const Node& then) const {
  const size_t known = position_.size();
  if (static_cast<size_t>(first.id()) >= known ||
      static_cast<size_t>(then.id()) >= known) {
    return false;
  }
  // Of 16 bits, what two kernels round twice one would round once.
  const DType dtype = first.output_type(0).dtype;
  if (dtype != DType::kF32 && dtype != DType::kF64) return false;
  return IsPure(first) && SamePlacement(first, then) &&
         rates_[first.id()] == rates_[then.id()] &&
         waves_[first.id()] == waves_[then.id()] &&
         !HasControlEdges(graph_, first) && then.control_inputs().empty();
}

bool EpilogueFuser::OnlyReadBy(Value v, const Node& reader) const {
  const auto uses = graph_.Uses(v);
  return uses.size() == 1 && uses[0].first == reader.id();
}

// Whether `v` needs what `node` gives.
bool EpilogueFuser::DependsOn(Value v, const Node& node) const {
  std::vector<int32_t> pending = {v.node};
  std::vector<bool> seen(graph_.id_bound(), false);
  while (!pending.empty()) {
    const int32_t id = pending.back();
    pending.pop_back();
    if (id == node.id()) return true;
    if (seen[id]) continue;
    seen[id] = true;
    for (Value input : graph_.node(id)->inputs()) {
      if (input.valid()) pending.push_back(input.node);
    }
    for (int32_t from : graph_.node(id)->control_inputs()) {
      pending.push_back(from);
    }
  }
  return false;
}

absl::StatusOr<Node*> EpilogueFuser::Made(absl::StatusOr<Node*> added) {
  WEFT_RETURN_IF_ERROR(added.status());
  if (settings_.runs_as_kernel(graph_, **added)) return *added;
  WEFT_RETURN_IF_ERROR(graph_.Remove((*added)->id()));
  return nullptr;
}

// ---- Relu -------------------------------------------------------------------

bool EpilogueFuser::TakesActivation(const Node& node) const {
  return (node.Is(OpId::kGemm) || node.Is(OpId::kConv) ||
          node.Is(OpId::kBatchNormTraining)) &&
         !HasActivation(graph_.View(node));
}

// The normalisation that an Add with residual could be part of, and which
// operand the residual is; the later one where both are normalisations.
const Node* EpilogueFuser::NormBefore(const Node& add, int* other) const {
  const Node* found = nullptr;
  for (int i = 0; i < 2; ++i) {
    const Node* norm = graph_.node(add.input(i));
    const Value residual = add.input(1 - i);
    if (!norm->Is(OpId::kBatchNormTraining) || norm->inputs().size() > 3 ||
        !TakesActivation(*norm) || add.input(i).index != 0 ||
        !GoTogether(*norm, add) || !OnlyReadBy(add.input(i), add) ||
        graph_.type(residual) != graph_.type(add.input(i)) ||
        DependsOn(residual, *norm)) {
      continue;
    }
    if (found != nullptr && position_[norm->id()] < position_[found->id()]) {
      continue;
    }
    found = norm;
    *other = 1 - i;
  }
  return found;
}

absl::StatusOr<bool> EpilogueFuser::Activate(const Node& relu) {
  const Node* before = graph_.node(relu.input(0));
  if (relu.input(0).index != 0 || !GoTogether(*before, relu) ||
      !graph_.ControlUses(relu.id()).empty() ||
      !OnlyReadBy(relu.input(0), relu)) {
    return false;
  }
  const Node* add = nullptr;
  int residual = 0;
  if (before->Is(OpId::kAdd)) {
    add = before;
    before = NormBefore(*add, &residual);
  }
  if (before == nullptr || !TakesActivation(*before)) return false;
  std::vector<Value> operands(before->inputs().begin(), before->inputs().end());
  std::string why = absl::StrCat("epilogues: ", before->name());
  if (add != nullptr) {
    operands.resize(3);
    operands.push_back(add->input(residual));
    absl::StrAppend(&why, ", ", add->name());
  }
  absl::StrAppend(&why, ", ", relu.name());
  AttrMap attrs = before->attrs();
  attrs.Set(kActivation, "relu");
  const int results = before->num_outputs();
  WEFT_ASSIGN_OR_RETURN(
      Node * made,
      Made(AddInPlaceOf(&graph_, *before, "relu", before->op(), operands,
                        std::move(attrs), std::move(why), results)));
  if (made == nullptr) return false;
  std::vector<Value> replacements;
  for (int i = 0; i < results; ++i) replacements.push_back(made->output(i));
  const int32_t old[] = {before->id(), add == nullptr ? -1 : add->id()};
  WEFT_RETURN_IF_ERROR(ReplaceNode(&graph_, relu.id(), {replacements[0]}));
  if (old[1] >= 0) WEFT_RETURN_IF_ERROR(graph_.Remove(old[1]));
  WEFT_RETURN_IF_ERROR(ReplaceNode(&graph_, old[0], replacements));
  return true;
}

// ---- A sum before a normalisation -------------------------------------------

absl::StatusOr<bool> EpilogueFuser::AddBeforeNorm(const Node& norm) {
  const Node* add = graph_.node(norm.input(0));
  if (!add->Is(OpId::kAdd) || norm.inputs().size() > 3 ||
      norm.num_outputs() != 3 || !GoTogether(*add, norm) ||
      !graph_.ControlUses(norm.id()).empty() ||
      graph_.type(add->input(0)) != graph_.type(norm.input(0)) ||
      graph_.type(add->input(1)) != graph_.type(norm.input(0))) {
    return false;
  }
  // Who reads the sum will wait for the normalisation, and so for these.
  for (size_t i = 1; i < norm.inputs().size(); ++i) {
    if (norm.input(i).valid() && DependsOn(norm.input(i), *add)) return false;
  }
  std::vector<Value> operands(norm.inputs().begin(), norm.inputs().end());
  operands.resize(3);
  operands[0] = add->input(0);
  operands.push_back(add->input(1));
  WEFT_ASSIGN_OR_RETURN(
      Node * made,
      Made(AddInPlaceOf(
          &graph_, norm, "of_sum", norm.op(), operands, norm.attrs(),
          absl::StrCat("epilogues: ", add->name(), ", ", norm.name()), 4)));
  if (made == nullptr) return false;
  const int32_t old = add->id();
  WEFT_RETURN_IF_ERROR(ReplaceNode(
      &graph_, norm.id(), {made->output(0), made->output(1), made->output(2)}));
  WEFT_RETURN_IF_ERROR(ReplaceNode(&graph_, old, {made->output(3)}));
  return true;
}

// ---- The loss and its gradient ----------------------------------------------

absl::StatusOr<bool> EpilogueFuser::LossWithGrad(const Node& grad) {
  const Node* loss = graph_.node(grad.input(1));
  const Value dloss = grad.input(0);
  const char smoothing[] = "label_smoothing";
  if (!loss->Is(OpId::kSoftmaxCrossEntropyLoss) || grad.input(1).index != 1 ||
      !GoTogether(*loss, grad) || !OnlyReadBy(grad.input(1), grad) ||
      grad.input(2) != loss->input(1) || grad.input(3) != loss->input(2) ||
      graph_.View(grad).Float(smoothing) !=
          graph_.View(*loss).Float(smoothing) ||
      DependsOn(dloss, *loss)) {
    return false;
  }
  WEFT_ASSIGN_OR_RETURN(
      Node * made,
      Made(AddInPlaceOf(
          &graph_, *loss, "with_grad", "weft.SoftmaxCrossEntropyLossAndGrad",
          {loss->input(0), loss->input(1), loss->input(2), dloss},
          loss->attrs(),
          absl::StrCat("epilogues: ", loss->name(), ", ", grad.name()), 2)));
  if (made == nullptr) return false;
  const int32_t old = loss->id();
  WEFT_RETURN_IF_ERROR(ReplaceNode(&graph_, grad.id(), {made->output(1)}));
  WEFT_RETURN_IF_ERROR(ReplaceNode(&graph_, old, {made->output(0), Value()}));
  return true;
}

class EpiloguesPass : public Pass {
 public:
  absl::string_view Name() const override { return "epilogues"; }
  absl::StatusOr<bool> Run(Graph& graph, PassContext& context) override {
    return FuseEpilogues(&graph, context.settings);
  }
};

}  // namespace

absl::StatusOr<bool> FuseEpilogues(Graph* graph, const PassSettings& settings) {
  return EpilogueFuser(graph, settings).Run();
}

std::unique_ptr<Pass> CreateEpiloguesPass() {
  return std::make_unique<EpiloguesPass>();
}

}  // namespace weft
