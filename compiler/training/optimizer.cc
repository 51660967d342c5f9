#include "compiler/training/optimizer.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/pattern.h"
#include "core/base/status_macros.h"
#include "core/ops/system_attrs.h"

namespace weft::training {
namespace {

using Kind = OptimizerSpec::Kind;

// Operands of one weft.GlobalNorm; norms of norms cover more.
constexpr size_t kNormOperands = 32;

Value EmitNorm(std::vector<Value> values, NodeEmitter* emit) {
  while (true) {
    std::vector<Value> norms;
    for (size_t i = 0; i < values.size(); i += kNormOperands) {
      size_t n = std::min(kNormOperands, values.size() - i);
      norms.push_back(emit->Emit1("weft.GlobalNorm",
                                  absl::MakeConstSpan(values).subspan(i, n)));
    }
    if (norms.size() == 1) return norms[0];
    values = std::move(norms);
  }
}

AttrMap ScheduleAttrs(const ScheduleSpec& s) {
  return {{"schedule", s.kind},
          {"base", s.base},
          {"warmup_steps", s.warmup_steps},
          {"total_steps", s.total_steps},
          {"step_size", s.step_size},
          {"gamma", s.gamma},
          {"final", s.final}};
}

// What the updates of all parameters read.
struct Shared {
  Value learning_rate;
  Value counter;
  Value multiplier;  // of gradients
};

// One parameter's update: its state variables, then the update op.
class Updater {
 public:
  Updater(Graph* graph, const OptimizerSpec& spec, const Shared& shared)
      : graph_(graph), spec_(spec), shared_(shared) {}

  absl::Status Update(Value parameter, Value gradient, double weight_decay) {
    const Node& node = *graph_->node(parameter);
    std::string name = node.name();
    AttrMap attrs = {{"weight_decay", weight_decay}};
    std::vector<Value> operands = {parameter};
    absl::string_view op = "weft.SgdUpdate";
    std::vector<std::string> slots;
    bool adam = spec_.kind == Kind::kAdam || spec_.kind == Kind::kAdamW;
    if (adam) {
      op = "weft.AdamUpdate";
      slots = {"m", "v"};
      attrs.Set("beta1", spec_.beta1);
      attrs.Set("beta2", spec_.beta2);
      attrs.Set("epsilon", spec_.epsilon);
      attrs.Set("decoupled", spec_.kind == Kind::kAdamW ? 1 : 0);
    } else if (spec_.kind == Kind::kAdagrad) {
      op = "weft.AdagradUpdate";
      slots = {"accumulator"};
      attrs.Set("epsilon", spec_.epsilon);
    } else if (spec_.momentum != 0) {
      op = "weft.MomentumUpdate";
      slots = {"velocity"};
      attrs.Set("momentum", spec_.momentum);
      attrs.Set("nesterov", spec_.nesterov ? 1 : 0);
    }
    for (const std::string& slot : slots) {
      WEFT_ASSIGN_OR_RETURN(Value state, AddState(parameter, slot));
      operands.push_back(state);
    }
    operands.push_back(gradient);
    operands.push_back(shared_.learning_rate);
    if (adam) operands.push_back(shared_.counter);
    operands.push_back(shared_.multiplier);
    int results = 1 + static_cast<int>(slots.size());
    WEFT_ASSIGN_OR_RETURN(
        Node * update, graph_->Add(op, absl::StrCat(name, "/update"), operands,
                                   std::move(attrs), results));
    update->device = graph_->node(parameter)->device;
    update->stage = graph_->node(parameter)->stage;
    update->provenance.push_back("training: optimizer");
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Value> AddState(Value parameter, const std::string& slot) {
    const Node& p = *graph_->node(parameter);
    std::string device = p.device;
    int stage = p.stage;
    WEFT_ASSIGN_OR_RETURN(
        Node * state,
        graph_->Add("weft.Variable", absl::StrCat(p.name(), "/", slot), {},
                    VariableAttrs(p.output_type(0), VariableInit::Zeros(),
                                  "optimizer", /*trainable=*/false)));
    state->device = device;
    state->stage = stage;
    state->provenance.push_back("training: optimizer state");
    return state->output(0);
  }

  Graph* graph_;
  const OptimizerSpec& spec_;
  const Shared& shared_;
};

}  // namespace

absl::StatusOr<UpdateMetrics> AddUpdates(Graph* graph,
                                         const OptimizerSpec& spec,
                                         absl::Span<const Value> parameters,
                                         absl::Span<const Value> gradients,
                                         Value inverse, Value loss,
                                         const LossScale& scale) {
  absl::StatusOr<Pattern> exclude = Pattern::Compile(spec.decay_exclude);
  if (!exclude.ok()) return Annotate(exclude.status(), "decay_exclude");
  WEFT_ASSIGN_OR_RETURN(
      Node * counter,
      graph->Add("weft.Counter", "step/counter", {}, {{"rate", "step"}}));
  GraphEmitter emit(graph, "step", "training: schedule and clipping");
  UpdateMetrics metrics;
  metrics.learning_rate = emit.Emit1("weft.LearningRate", {counter->output(0)},
                                     ScheduleAttrs(spec.schedule));
  Value multiplier = inverse;
  if (spec.clip_norm > 0 || scale.dynamic()) {
    std::vector<Value> present;
    for (Value g : gradients) {
      if (g.valid()) present.push_back(g);
    }
    // The norm of the sums, made the norm of the means: updates scale their
    // gradients once, by all factors.
    metrics.grad_norm = emit.Emit1("Mul", {EmitNorm(present, &emit), inverse});
  }
  if (spec.clip_norm > 0) {
    Value clip = emit.Emit1("weft.ClipScale", {metrics.grad_norm},
                            {{"clip_norm", spec.clip_norm}});
    multiplier = emit.Emit1("Mul", {inverse, clip});
  }
  WEFT_RETURN_IF_ERROR(emit.status());
  if (scale.dynamic()) {
    WEFT_ASSIGN_OR_RETURN(
        multiplier,
        AddScaleUpdate(graph, scale, metrics.grad_norm, loss, multiplier));
  }

  const Shared shared = {metrics.learning_rate, counter->output(0), multiplier};
  Updater updater(graph, spec, shared);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!gradients[i].valid()) continue;
    const std::string& name = graph->node(parameters[i])->name();
    bool decays = spec.decay_exclude.empty() || !exclude->MatchesPart(name);
    WEFT_RETURN_IF_ERROR(updater.Update(parameters[i], gradients[i],
                                        decays ? spec.weight_decay : 0.0));
  }
  return metrics;
}

}  // namespace weft::training
