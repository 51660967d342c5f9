// Updates of state. Result i is the new value of operand i. In what follows p
// is the parameter, g its gradient times the multiplier, lr the learning rate
// and wd the weight decay; g' = g + wd p.
//
//   Ema       x = momentum x + (1 - momentum) value
//   Sgd       p = p - lr g'
//   Momentum  v = momentum v + g';  p = p - lr v   (nesterov: g' + momentum v)
//   Adam      t = step + 1 from the counter
//             m = beta1 m + (1 - beta1) g';  v = beta2 v + (1 - beta2) g'^2
//             m^ = m / (1 - beta1^t);  v^ = v / (1 - beta2^t)
//             p = p - lr m^ / (sqrt(v^) + epsilon)
//             decoupled (AdamW): g for g', and p = p - lr wd p as well
//   Adagrad   a = a + g'^2;  p = p - lr g' / (sqrt(a) + epsilon)
//
// These five update any number of variables (core/ops/update.h); an update of
// several decomposes into one for each. One of a single variable decomposes
// into arithmetic on the old values followed by a weft.Assign for each tensor
// of state; weft.Assign itself is a primitive.
//
// The multiplier, where there is one: an f32 scalar that gradients (of Ema the
// value) are multiplied with first, so that means, clipping and loss scales
// cost no pass over them. Where it is NaN, the update leaves all its state as
// it is, bit by bit: that is how a step whose gradients are not finite is
// skipped. (The counter of Adam counts such steps too.)
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/expr.h"
#include "core/ops/families.h"
#include "core/ops/family_signatures.h"
#include "core/ops/infer.h"
#include "core/ops/update.h"

namespace weft {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// Looks at the operands that all variables share, from position `first` on, and
// at attributes.
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

absl::Status RequireAttrsFromZero(const OpView& op) {
  for (const AttrSpec& attr : op.schema().attrs) {
    if (attr.kind != AttrKind::kFloat) continue;
    WEFT_RETURN_IF_ERROR(RequireRange(op, attr.name, 0, kUnbounded));
  }
  return absl::OkStatus();
}

// How many operands the update of n variables has, as a text.
absl::Status WrongCount(const OpView& op, const UpdateLayout& layout,
                        int shared) {
  return op.Error(
      ErrorCode::kBadArity,
      absl::StrCat("takes ", layout.slots,
                   " operands of state and one "
                   "gradient for each variable, and ",
                   shared, " more (or a multiplier after them); got ",
                   op.num_inputs()));
}

// The state of one variable and its gradient have one type; those of different
// variables have one dtype. `shared`: operands that all share, after which a
// multiplier may follow.
absl::Status InferUpdate(const OpView& op, int shared, CheckRest check,
                         std::vector<TensorType>* out) {
  const UpdateLayout layout = LayoutOfUpdate(op.schema(), op.num_inputs());
  if (layout.shared < shared || layout.shared > shared + 1) {
    return WrongCount(op, layout, shared);
  }
  WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
  for (int v = 0; v < layout.variables; ++v) {
    const int first = layout.State(v, 0);
    WEFT_RETURN_IF_ERROR(RequireSameDType(op, 0, first));
    for (int slot = 1; slot < layout.slots; ++slot) {
      WEFT_RETURN_IF_ERROR(RequireSameType(op, first, first + slot));
    }
    WEFT_RETURN_IF_ERROR(RequireSameType(op, first, layout.Gradient(v)));
    out->insert(out->end(), layout.slots, op.input(first));
  }
  WEFT_RETURN_IF_ERROR(check(op, layout.Shared(0)));
  if (layout.shared > shared && op.has_input(layout.Shared(shared))) {
    WEFT_RETURN_IF_ERROR(RequireF32Scalar(op, layout.Shared(shared)));
  }
  return RequireAttrsFromZero(op);
}

OpSchema MakeUpdate(OpId id, int slots, int shared, CheckRest check,
                    std::vector<AttrSpec> attrs, double flops_per_element) {
  OpSchema schema(id);
  schema.inputs = {slots + 1 + shared, kVariadic};
  schema.outputs = {slots, kVariadic};
  schema.effect = OpEffect::kUpdate;
  schema.state_slots = slots;
  schema.signatures = UpdateSignatures;
  schema.attrs = std::move(attrs);
  schema.infer = [shared, check](const OpView& op,
                                 std::vector<TensorType>* out) {
    return InferUpdate(op, shared, check, out);
  };
  schema.cost = [slots, flops_per_element](const OpView& op) {
    return Cost{flops_per_element * OutputElements(op) / slots,
                BytesMoved(op).bytes};
  };
  return schema;
}

OpSchema MakeAssign() {
  OpSchema schema(OpId::kAssign);
  schema.inputs = {2, 2};
  schema.effect = OpEffect::kUpdate;
  schema.state_slots = 1;
  schema.signatures = UpdateSignatures;
  schema.infer = [](const OpView& op, std::vector<TensorType>* out) {
    WEFT_RETURN_IF_ERROR(RequireSameType(op, 0, 1));
    return SameAsInput(op, out);
  };
  return schema;
}

// --- Decompositions --------------------------------------------------------

// The operands of an update of one variable, as expressions.
class Operands {
 public:
  Operands(const OpView& op, absl::Span<const Value> inputs, NodeEmitter& emit)
      : op_(op), layout_(LayoutOfUpdate(op.schema(), op.num_inputs())) {
    for (Value input : inputs) all_.emplace_back(emit, input);
  }

  const Expr& State(int slot) const { return all_[slot]; }
  const Expr& Shared(int i) const { return all_[layout_.Shared(i)]; }
  // The learning rate, in the parameter's dtype.
  Expr Rate() const { return Cast(Shared(0), all_[0].dtype()); }

  // g: times the multiplier, where there is one.
  Expr Gradient() const {
    const Expr& gradient = all_[layout_.Gradient(0)];
    if (!has_multiplier()) return gradient;
    return gradient * Cast(multiplier(), gradient.dtype());
  }
  // g' = g + wd p.
  Expr Decayed(const Expr& gradient) const {
    double decay = op_.Float("weight_decay");
    return decay == 0 ? gradient : gradient + decay * State(0);
  }

  // Stores the new state; none where the multiplier is NaN.
  std::vector<Value> Assign(const std::vector<Expr>& state) const {
    std::vector<Value> out;
    for (size_t i = 0; i < state.size(); ++i) {
      Expr value = state[i];
      if (has_multiplier()) {
        Expr good = Apply("Equal", {multiplier(), multiplier()});
        value = Where(good, value, all_[i]);
      }
      out.push_back(Apply("weft.Assign", {all_[i], value}));
    }
    return out;
  }

 private:
  // Always the last one.
  const Expr& multiplier() const { return all_.back(); }
  bool has_multiplier() const {
    const int always = op_.schema().inputs.min - layout_.slots - 1;
    return layout_.shared > always && multiplier().valid();
  }

  const OpView& op_;
  UpdateLayout layout_;
  std::vector<Expr> all_;
};

std::vector<Value> DecomposeEma(const OpView& op,
                                absl::Span<const Value> inputs,
                                NodeEmitter& emit) {
  Operands in(op, inputs, emit);
  double momentum = op.Float("momentum");
  return in.Assign({momentum * in.State(0) + (1 - momentum) * in.Gradient()});
}

std::vector<Value> DecomposeSgd(const OpView& op,
                                absl::Span<const Value> inputs,
                                NodeEmitter& emit) {
  Operands in(op, inputs, emit);
  Expr step = in.Rate() * in.Decayed(in.Gradient());
  return in.Assign({in.State(0) - step});
}

std::vector<Value> DecomposeMomentum(const OpView& op,
                                     absl::Span<const Value> inputs,
                                     NodeEmitter& emit) {
  Operands in(op, inputs, emit);
  double momentum = op.Float("momentum");
  Expr gradient = in.Decayed(in.Gradient());
  Expr velocity = momentum * in.State(1) + gradient;
  Expr direction =
      op.Int("nesterov") != 0 ? gradient + momentum * velocity : velocity;
  return in.Assign({in.State(0) - in.Rate() * direction, velocity});
}

// 1 - beta^t in double, because it is a difference of nearly equal numbers.
Expr BiasCorrection(double beta, const Expr& t) {
  return 1.0 - Apply("Pow", {t.Like(beta), t});
}

std::vector<Value> DecomposeAdam(const OpView& op,
                                 absl::Span<const Value> inputs,
                                 NodeEmitter& emit) {
  Operands in(op, inputs, emit);
  double beta1 = op.Float("beta1");
  double beta2 = op.Float("beta2");
  bool decoupled = op.Int("decoupled") != 0;
  Expr gradient = in.Gradient();
  if (!decoupled) gradient = in.Decayed(gradient);
  Expr m = beta1 * in.State(1) + (1 - beta1) * gradient;
  Expr v = beta2 * in.State(2) + (1 - beta2) * (gradient * gradient);

  // The counter's first item, as a scalar.
  Expr step = CopyStrided(in.Shared(1), {}, {});
  Expr t = Cast(step, DType::kF64) + 1.0;
  Expr m_hat = m / Cast(BiasCorrection(beta1, t), m.dtype());
  Expr v_hat = v / Cast(BiasCorrection(beta2, t), v.dtype());
  Expr direction = m_hat / (Apply("Sqrt", {v_hat}) + op.Float("epsilon"));
  if (decoupled) direction = in.Decayed(direction);
  return in.Assign({in.State(0) - in.Rate() * direction, m, v});
}

std::vector<Value> DecomposeAdagrad(const OpView& op,
                                    absl::Span<const Value> inputs,
                                    NodeEmitter& emit) {
  Operands in(op, inputs, emit);
  Expr gradient = in.Decayed(in.Gradient());
  Expr sum = in.State(1) + gradient * gradient;
  Expr direction = gradient / (Apply("Sqrt", {sum}) + op.Float("epsilon"));
  return in.Assign({in.State(0) - in.Rate() * direction, sum});
}

// An update of several variables as one of each.
std::vector<Value> DecomposeGroup(const OpView& op, const UpdateLayout& layout,
                                  absl::Span<const Value> inputs,
                                  NodeEmitter& emit) {
  std::vector<Value> out;
  for (int v = 0; v < layout.variables; ++v) {
    std::vector<Value> operands(inputs.begin() + layout.State(v, 0),
                                inputs.begin() + layout.State(v + 1, 0));
    operands.push_back(inputs[layout.Gradient(v)]);
    operands.insert(operands.end(), inputs.begin() + layout.Shared(0),
                    inputs.end());
    std::vector<Value> results =
        emit.Emit(op.schema().name, operands, op.attrs(), layout.slots);
    out.insert(out.end(), results.begin(), results.end());
  }
  return out;
}

void Add(OpRegistry* registry, OpSchema schema,
         OpSchema::DecomposeFn decompose) {
  schema.decompose = [decompose = std::move(decompose)](
                         const OpView& op, absl::Span<const Value> inputs,
                         NodeEmitter& emit) {
    const UpdateLayout layout = LayoutOfUpdate(op.schema(), op.num_inputs());
    if (layout.variables == 1) return decompose(op, inputs, emit);
    return DecomposeGroup(op, layout, inputs, emit);
  };
  registry->Add(std::move(schema));
}

// --- Loss scale ------------------------------------------------------------

absl::Status InferLossScale(const OpView& op, std::vector<TensorType>* out) {
  for (int i = 0; i < 3; ++i) WEFT_RETURN_IF_ERROR(RequireF32Scalar(op, i));
  WEFT_RETURN_IF_ERROR(RequireRange(op, "growth_factor", 1, kUnbounded));
  WEFT_RETURN_IF_ERROR(RequireRange(op, "backoff_factor", 0, 1));
  WEFT_RETURN_IF_ERROR(RequireRange(op, "growth_interval", 1, kUnbounded));
  *out = {op.input(0), op.input(1)};
  return absl::OkStatus();
}

// x - x is 0 where x is finite, else NaN, which equals nothing.
Expr IsFinite(const Expr& x) {
  Expr zero = x - x;
  return Apply("Equal", {zero, zero});
}

std::vector<Value> DecomposeLossScale(const OpView& op,
                                      absl::Span<const Value> inputs,
                                      NodeEmitter& emit) {
  Expr scale(emit, inputs[0]), good_steps(emit, inputs[1]);
  Expr finite = IsFinite(Expr(emit, inputs[2]));
  Expr count = good_steps + 1.0;
  double interval = static_cast<double>(op.Int("growth_interval"));
  Expr due = Apply("GreaterOrEqual", {count, count.Like(interval)});
  Expr grown = op.Float("growth_factor") * scale;
  grown = Where(IsFinite(grown), grown, scale);
  Expr fallen = op.Float("backoff_factor") * scale;
  fallen = Apply("Max", {fallen, fallen.Like(1)});
  Expr zero = count.Like(0);
  Expr next = Where(finite, Where(due, grown, scale), fallen);
  Expr steps = Where(finite, Where(due, zero, count), zero);
  return {Apply("weft.Assign", {scale, next}),
          Apply("weft.Assign", {good_steps, steps})};
}

OpSchema MakeLossScale() {
  OpSchema schema(OpId::kLossScaleUpdate);
  schema.inputs = {3, 3};
  schema.outputs = {2, 2};
  schema.effect = OpEffect::kUpdate;
  schema.state_slots = 2;
  schema.attrs = {AttrSpec::Default("growth_factor", 2.0),
                  AttrSpec::Default("backoff_factor", 0.5),
                  AttrSpec::Default("growth_interval", 2000)};
  schema.infer = InferLossScale;
  schema.decompose = DecomposeLossScale;
  return schema;
}

}  // namespace

void RegisterUpdateOps(OpRegistry* registry) {
  AttrSpec decay = AttrSpec::Default("weight_decay", 0.0);
  AttrSpec momentum = AttrSpec::Required("momentum", AttrKind::kFloat);
  registry->Add(MakeAssign());
  registry->Add(MakeLossScale());
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
