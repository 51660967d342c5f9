// Updates of state. Result i is the new value of operand i. Each decomposes
// into arithmetic on the old values followed by one weft.Assign for every
// updated operand; weft.Assign itself is a primitive. In what follows p is the
// parameter, g its gradient, lr the learning rate and wd the weight decay;
// g' = g + wd p.
//
//   Ema       x = momentum x + (1 - momentum) value
//   Sgd       p = p - lr g'
//   Momentum  v = momentum v + g';  p = p - lr v   (nesterov: g' + momentum v)
//   Adam      t = step + 1 from the counter
//             m = beta1 m + (1 - beta1) g';  v = beta2 v + (1 - beta2) g'^2
//             p = p - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) +
//             epsilon) decoupled (AdamW): g instead of g', and lr wd p off p as
//             well
//   Adagrad   a = a + g'^2;  p = p - lr g' / (sqrt(a) + epsilon)
#include <limits>
#include <utility>

#include "core/base/status_macros.h"
#include "core/ops/expr.h"
#include "core/ops/families.h"
#include "core/ops/infer.h"

namespace weft {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// Operands: `state` tensors, a gradient or value of the same type, and `rest`
// more from position `first` on, which a check looks at; a null check also
// allows state that is not float. Results: the state's types.
using CheckRest = absl::Status (*)(const OpView& op, int first);

absl::Status RequireNothing(const OpView& op, int first) {
  return absl::OkStatus();
}

absl::Status RequireLearningRate(const OpView& op, int first) {
  return RequireF32Scalar(op, first);
}

absl::Status RequireAdamOperands(const OpView& op, int first) {
  WEFT_RETURN_IF_ERROR(RequireF32Scalar(op, first));
  WEFT_RETURN_IF_ERROR(RequireCounter(op, first + 1));
  WEFT_RETURN_IF_ERROR(RequireRange(op, "beta1", 0, 1));
  WEFT_RETURN_IF_ERROR(RequireRange(op, "beta2", 0, 1));
  return RequireFlag(op, "decoupled");
}

absl::Status RequireMomentumOperands(const OpView& op, int first) {
  WEFT_RETURN_IF_ERROR(RequireF32Scalar(op, first));
  return RequireFlag(op, "nesterov");
}

OpSchema MakeUpdate(OpId id, int state, int rest, CheckRest check,
                    std::vector<AttrSpec> attrs, double flops_per_element) {
  OpSchema schema(id);
  int operands = state + 1 + rest;
  schema.inputs = {operands, operands};
  schema.outputs = {state, state};
  schema.effect = OpEffect::kUpdate;
  schema.num_updated = state;
  schema.attrs = std::move(attrs);
  schema.infer = [state, check](const OpView& op,
                                std::vector<TensorType>* out) {
    for (int i = 1; i <= state; ++i) {
      WEFT_RETURN_IF_ERROR(RequireSameType(op, 0, i));
    }
    if (check != nullptr) {
      WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
      WEFT_RETURN_IF_ERROR(check(op, state + 1));
    }
    for (const AttrSpec& attr : op.schema().attrs) {
      if (attr.kind != AttrKind::kFloat) continue;
      WEFT_RETURN_IF_ERROR(RequireRange(op, attr.name, 0, kUnbounded));
    }
    out->assign(state, op.input(0));
    return absl::OkStatus();
  };
  schema.cost = [flops_per_element](const OpView& op) {
    double elements = static_cast<double>(op.input(0).shape.num_elements());
    return Cost{flops_per_element * elements, BytesMoved(op).bytes};
  };
  return schema;
}

// --- Decompositions --------------------------------------------------------

Value Assign(const Expr& variable, const Expr& value) {
  return Apply("weft.Assign", {variable, value});
}

// The operands as expressions; the learning rate in the parameter's dtype.
struct Operands {
  Operands(absl::Span<const Value> inputs, NodeEmitter& emit) {
    for (Value input : inputs) all.emplace_back(emit, input);
  }
  const Expr& operator[](int i) const { return all[i]; }
  Expr Rate(int i) const { return Cast(all[i], all[0].dtype()); }

  std::vector<Expr> all;
};

// g' = g + wd p.
Expr Decayed(const OpView& op, const Expr& gradient, const Expr& param) {
  double decay = op.Float("weight_decay");
  return decay == 0 ? gradient : gradient + decay * param;
}

std::vector<Value> DecomposeEma(const OpView& op,
                                absl::Span<const Value> inputs,
                                NodeEmitter& emit) {
  Operands in(inputs, emit);
  double momentum = op.Float("momentum");
  return {Assign(in[0], momentum * in[0] + (1 - momentum) * in[1])};
}

std::vector<Value> DecomposeSgd(const OpView& op,
                                absl::Span<const Value> inputs,
                                NodeEmitter& emit) {
  Operands in(inputs, emit);
  Expr step = in.Rate(2) * Decayed(op, in[1], in[0]);
  return {Assign(in[0], in[0] - step)};
}

std::vector<Value> DecomposeMomentum(const OpView& op,
                                     absl::Span<const Value> inputs,
                                     NodeEmitter& emit) {
  Operands in(inputs, emit);
  double momentum = op.Float("momentum");
  Expr gradient = Decayed(op, in[2], in[0]);
  Expr velocity = momentum * in[1] + gradient;
  Expr direction =
      op.Int("nesterov") != 0 ? gradient + momentum * velocity : velocity;
  return {Assign(in[0], in[0] - in.Rate(3) * direction),
          Assign(in[1], velocity)};
}

// 1 - beta^t in double, because it is a difference of nearly equal numbers.
Expr BiasCorrection(double beta, const Expr& t) {
  return 1.0 - Apply("Pow", {t.Like(beta), t});
}

std::vector<Value> DecomposeAdam(const OpView& op,
                                 absl::Span<const Value> inputs,
                                 NodeEmitter& emit) {
  Operands in(inputs, emit);
  const Expr& param = in[0];
  double beta1 = op.Float("beta1");
  double beta2 = op.Float("beta2");
  bool decoupled = op.Int("decoupled") != 0;
  Expr gradient = decoupled ? in[3] : Decayed(op, in[3], param);
  Expr m = beta1 * in[1] + (1 - beta1) * gradient;
  Expr v = beta2 * in[2] + (1 - beta2) * (gradient * gradient);

  // The counter's first item, as a scalar.
  Expr step = CopyStrided(in[5], {}, {});
  Expr t = Cast(step, DType::kF64) + 1.0;
  Expr m_hat = m / Cast(BiasCorrection(beta1, t), m.dtype());
  Expr v_hat = v / Cast(BiasCorrection(beta2, t), v.dtype());
  Expr direction = m_hat / (Apply("Sqrt", {v_hat}) + op.Float("epsilon"));
  if (decoupled) direction = Decayed(op, direction, param);
  return {Assign(param, param - in.Rate(4) * direction), Assign(in[1], m),
          Assign(in[2], v)};
}

std::vector<Value> DecomposeAdagrad(const OpView& op,
                                    absl::Span<const Value> inputs,
                                    NodeEmitter& emit) {
  Operands in(inputs, emit);
  Expr gradient = Decayed(op, in[2], in[0]);
  Expr sum = in[1] + gradient * gradient;
  Expr direction = gradient / (Apply("Sqrt", {sum}) + op.Float("epsilon"));
  return {Assign(in[0], in[0] - in.Rate(3) * direction), Assign(in[1], sum)};
}

void Add(OpRegistry* registry, OpSchema schema,
         OpSchema::DecomposeFn decompose) {
  schema.decompose = std::move(decompose);
  registry->Add(std::move(schema));
}

}  // namespace

void RegisterUpdateOps(OpRegistry* registry) {
  AttrSpec decay = AttrSpec::Default("weight_decay", 0.0);
  AttrSpec momentum = AttrSpec::Required("momentum", AttrKind::kFloat);
  Add(registry, MakeUpdate(OpId::kAssign, 1, 0, nullptr, {}, 0), nullptr);
  Add(registry,
      MakeUpdate(OpId::kEmaUpdate, 1, 0, RequireNothing, {momentum}, 3),
      DecomposeEma);
  Add(registry,
      MakeUpdate(OpId::kSgdUpdate, 1, 1, RequireLearningRate, {decay}, 4),
      DecomposeSgd);
  Add(registry,
      MakeUpdate(OpId::kMomentumUpdate, 2, 1, RequireMomentumOperands,
                 {momentum, AttrSpec::Default("nesterov", 0), decay}, 8),
      DecomposeMomentum);
  Add(registry,
      MakeUpdate(
          OpId::kAdamUpdate, 3, 2, RequireAdamOperands,
          {AttrSpec::Default("beta1", 0.9), AttrSpec::Default("beta2", 0.999),
           AttrSpec::Default("epsilon", 1e-8), decay,
           AttrSpec::Default("decoupled", 0)},
          20),
      DecomposeAdam);
  Add(registry,
      MakeUpdate(OpId::kAdagradUpdate, 2, 1, RequireLearningRate,
                 {AttrSpec::Default("epsilon", 1e-10), decay}, 12),
      DecomposeAdagrad);
}

}  // namespace weft
