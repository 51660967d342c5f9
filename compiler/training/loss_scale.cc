#include "compiler/training/loss_scale.h"

#include <string>

#include "core/base/status_macros.h"
#include "core/ops/expr.h"
#include "core/ops/system_attrs.h"

namespace weft::training {
namespace {

absl::StatusOr<Value> AddState(Graph* graph, const std::string& name,
                               double value) {
  WEFT_ASSIGN_OR_RETURN(
      Node * node,
      graph->Add("weft.Variable", name, {},
                 VariableAttrs({DType::kF32, Shape()},
                               VariableInit::Constant(value), "optimizer",
                               /*trainable=*/false)));
  node->provenance.push_back("training: loss scale");
  return node->output(0);
}

absl::Status AddMetric(Graph* graph, const std::string& name, Value value) {
  return graph->Add("weft.Output", "output/" + name, {value}, {{"name", name}})
      .status();
}

// Gives every running statistic's update a multiplier. (An operand is added by
// making the node anew; nothing reads an update.)
absl::Status GateStatistics(Graph* graph, Value multiplier) {
  for (Node* node : graph->Nodes()) {
    if (!node->Is(OpId::kEmaUpdate)) continue;
    const Node old = *node;
    WEFT_RETURN_IF_ERROR(graph->Remove(old.id()));
    WEFT_ASSIGN_OR_RETURN(
        Node * gated,
        graph->Add("weft.EmaUpdate", old.name(),
                   {old.input(0), old.input(1), multiplier}, old.attrs()));
    gated->device = old.device;
    gated->stage = old.stage;
    gated->provenance = old.provenance;
    gated->provenance.push_back("training: loss scale");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LossScale> AddLossScale(Graph* graph, const LossScaleSpec& spec,
                                       int64_t rows) {
  using Kind = LossScaleSpec::Kind;
  LossScale out;
  out.spec = spec;
  if (spec.kind == Kind::kNone) return out;
  const double terms = static_cast<double>(rows);
  GraphEmitter emit(graph, "loss_scale", "training: loss scale");
  if (spec.kind == Kind::kFixed) {
    out.seed = emit.Scalar(spec.value / terms, DType::kF32);
    out.unscale = emit.Scalar(terms / spec.value, DType::kF32);
    WEFT_RETURN_IF_ERROR(emit.status());
    return out;
  }
  WEFT_ASSIGN_OR_RETURN(out.scale, AddState(graph, "loss_scale", spec.value));
  WEFT_ASSIGN_OR_RETURN(out.good_steps,
                        AddState(graph, "loss_scale/good_steps", 0));
  WEFT_ASSIGN_OR_RETURN(out.skipped_steps,
                        AddState(graph, "loss_scale/skipped_steps", 0));
  Expr scale(emit, out.scale);
  out.seed = scale * (1 / terms);
  out.unscale = terms / scale;
  WEFT_RETURN_IF_ERROR(emit.status());
  return out;
}

absl::StatusOr<Value> AddScaleUpdate(Graph* graph, const LossScale& scale,
                                     Value norm, Value loss, Value multiplier) {
  const LossScaleSpec& spec = scale.spec;
  GraphEmitter emit(graph, "loss_scale", "training: loss scale");
  // x - x is 0, or NaN where x is not finite.
  Expr all = Expr(emit, norm) + (Expr(emit, loss) - Expr(emit, loss));
  Expr zero = all - all;
  Expr finite = Apply("Equal", {zero, zero});
  Expr skipped = Expr(emit, scale.skipped_steps) +
                 Where(finite, zero.Like(0), zero.Like(1));
  Value scaled = Expr(emit, multiplier) + zero;
  emit.Emit("weft.LossScaleUpdate", {scale.scale, scale.good_steps, all},
            {{"growth_factor", spec.growth_factor},
             {"backoff_factor", spec.backoff_factor},
             {"growth_interval", spec.growth_interval}},
            2);
  emit.Emit1("weft.Assign", {scale.skipped_steps, skipped});
  Value one_or_nan = zero + 1.0;
  WEFT_RETURN_IF_ERROR(emit.status());
  WEFT_RETURN_IF_ERROR(GateStatistics(graph, one_or_nan));
  WEFT_RETURN_IF_ERROR(AddMetric(graph, "loss_scale", scale.scale));
  WEFT_RETURN_IF_ERROR(AddMetric(graph, "skipped_steps", skipped));
  return scaled;
}

}  // namespace weft::training
