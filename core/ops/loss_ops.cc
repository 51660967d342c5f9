// Softmax and its loss, dropout, and the norm of gradients.
//
// The loss of scores s [N,C] against labels is
//
//   sum_i w_i (-(1 - ls) log p_i[label_i] - ls / C sum_c log p_i[c])
//
// with log p = LogSoftmax(s), sample weights w and label smoothing ls. A sample
// of weight 0 adds exactly nothing to loss and gradient, whatever its scores
// are: padded samples cannot spoil a batch. Labels and weights are data and
// have no gradient. Labels must lie in [0, C), but for samples of weight 0.
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/cuts.h"
#include "core/ops/expr.h"
#include "core/ops/families.h"
#include "core/ops/family_signatures.h"
#include "core/ops/infer.h"
#include "core/ops/schema.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;

Expr Exp(const Expr& x) { return Apply("Exp", {x}); }
Expr Log(const Expr& x) { return Apply("Log", {x}); }

Expr Max(const Expr& x, int64_t axis) {
  return Apply("ReduceMax", {x}, {{"axes", Ints{axis}}, {"keepdims", 1}});
}

OpSchema::CostFn FlopsPerElement(double flops) {
  return [flops](const OpView& op) {
    return Cost{op.output(op.outputs().size() - 1).shape.num_elements() * flops,
                BytesMoved(op).bytes};
  };
}

// ---- Softmax ----------------------------------------------------------------

absl::Status InferSoftmax(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
  WEFT_RETURN_IF_ERROR(AxisAttr(op, "axis", op.input(0).shape.rank()).status());
  return SameAsInput(op, out);
}

std::vector<Value> SoftmaxGradient(const GradientContext& g) {
  Expr y(g.emit, g.outputs[0]), dy(g.emit, g.output_grads[0]);
  return {y * (dy - Sum(y * dy, {g.op.Int("axis")}, /*keepdims=*/true))};
}

// Softmax and LogSoftmax of no elements, which have no maximum to shift by.
bool IsEmpty(const OpView& op) { return op.input(0).shape.num_elements() == 0; }

std::vector<Value> DecomposeSoftmax(const OpView& op,
                                    absl::Span<const Value> inputs,
                                    NodeEmitter& emit) {
  Expr x(emit, inputs[0]);
  if (IsEmpty(op)) return {Apply("Identity", {x})};
  int64_t axis = op.Int("axis");
  Expr e = Exp(x - Max(x, axis));  // the shift keeps exp in range
  return {e / Sum(e, {axis}, /*keepdims=*/true)};
}

// d/ds of log softmax(s), applied to `dy`.
Expr LogSoftmaxGrad(const Expr& log_prob, const Expr& dy, int64_t axis) {
  return dy - Exp(log_prob) * Sum(dy, {axis}, /*keepdims=*/true);
}

std::vector<Value> LogSoftmaxGradient(const GradientContext& g) {
  return {LogSoftmaxGrad(Expr(g.emit, g.outputs[0]),
                         Expr(g.emit, g.output_grads[0]), g.op.Int("axis"))};
}

std::vector<Value> DecomposeLogSoftmax(const OpView& op,
                                       absl::Span<const Value> inputs,
                                       NodeEmitter& emit) {
  Expr x(emit, inputs[0]);
  if (IsEmpty(op)) return {Apply("Identity", {x})};
  int64_t axis = op.Int("axis");
  Expr shifted = x - Max(x, axis);
  return {shifted - Log(Sum(Exp(shifted), {axis}, /*keepdims=*/true))};
}

// ---- Loss -------------------------------------------------------------------

// Checks labels [N] and sample weights [N], operands `labels` and the next,
// against scores (or log probabilities) [N,C].
absl::Status RequireSamples(const OpView& op, int scores, int labels) {
  WEFT_RETURN_IF_ERROR(RequireFloat(op, scores));
  WEFT_RETURN_IF_ERROR(RequireRank(op, scores, 2));
  WEFT_RETURN_IF_ERROR(RequireIndices(op, labels));
  WEFT_RETURN_IF_ERROR(RequireSameDType(op, scores, labels + 1));
  if (op.input(scores).shape.dim(1) == 0) {
    return op.Error(ErrorCode::kShapeMismatch,
                    absl::StrCat("operand ", scores, " has no classes: ",
                                 op.input(scores).ToString()));
  }
  for (int i = labels; i < labels + 2; ++i) {
    if (op.input(i).shape == Shape({op.input(scores).shape.dim(0)})) continue;
    return op.Error(ErrorCode::kShapeMismatch,
                    absl::StrCat("operand ", i, " must hold the ",
                                 op.input(scores).shape.dim(0), " samples of ",
                                 op.input(scores).ToString(), ", got ",
                                 op.input(i).ToString()));
  }
  const Attr& smoothing = op.Get("label_smoothing");
  if (smoothing.f() >= 0.0 && smoothing.f() <= 1.0) return absl::OkStatus();
  return op.Error(ErrorCode::kBadAttribute,
                  absl::StrCat("attribute 'label_smoothing' must be in [0, 1], "
                               "got ",
                               ToString(smoothing)));
}

absl::Status InferLoss(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireSamples(op, 0, 1));
  *out = {{op.input(0).dtype, Shape()}, op.input(0)};
  return absl::OkStatus();
}

// What a sample's labels and weight look like beside its scores [N,C].
struct Samples {
  Expr is_label;   // bool [N,C]
  Expr weight;     // [N,1]
  Expr no_weight;  // bool [N,1]
};

Samples EmitSamples(const Expr& labels, const Expr& weights,
                    const Shape& scores) {
  int64_t n = scores.dim(0), classes = scores.dim(1);
  Expr label = ReshapeTo(labels, {n, 1});
  Expr weight = ReshapeTo(weights, {n, 1});
  NodeEmitter& emit = labels.emit();
  Expr class_index(emit, emit.Emit1("weft.Iota", {},
                                    {{"shape", Ints{1, classes}},
                                     {"dtype", labels.dtype()},
                                     {"axis", 1}}));
  return {Apply("Equal", {class_index, label}), weight,
          Apply("Equal", {weight, weight.Like(0.0)})};
}

std::vector<Value> LossGradient(const GradientContext& g) {
  NodeEmitter& emit = g.emit;
  Expr log_prob(emit, g.outputs[1]), dloss(emit, g.output_grads[0]);
  Expr from_loss =
      Apply("weft.SoftmaxCrossEntropyLossGrad",
            {dloss, log_prob, Expr(emit, g.inputs[1]), Expr(emit, g.inputs[2])},
            {{"label_smoothing", g.op.Float("label_smoothing")}});
  Expr from_log_prob =
      LogSoftmaxGrad(log_prob, Expr(emit, g.output_grads[1]), 1);
  return {SumOfValid(from_loss, from_log_prob), Value(), Value()};
}

std::vector<Value> DecomposeLoss(const OpView& op,
                                 absl::Span<const Value> inputs,
                                 NodeEmitter& emit) {
  const Shape& scores = op.input(0).shape;
  double smoothing = op.Float("label_smoothing");
  Expr log_prob = Apply("LogSoftmax", {Expr(emit, inputs[0])}, {{"axis", 1}});
  Samples s = EmitSamples(Expr(emit, inputs[1]), Expr(emit, inputs[2]), scores);
  Expr zero = log_prob.Like(0.0);
  Expr gain = Sum(Where(s.is_label, log_prob, zero), {1}, /*keepdims=*/true);
  // A term with factor 0 is left out: 0 * -inf is not 0.
  if (smoothing > 0.0) {
    Expr uniform = Sum(log_prob, {1}, /*keepdims=*/true) *
                   (smoothing / static_cast<double>(scores.dim(1)));
    gain = smoothing < 1.0 ? gain * (1.0 - smoothing) + uniform : uniform;
  }
  Expr loss = Where(s.no_weight, zero, -(s.weight * gain));
  return {ReshapeTo(Sum(loss, {0, 1}, /*keepdims=*/false), Shape()), log_prob};
}

absl::Status InferLossGrad(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireSamples(op, 1, 2));
  WEFT_RETURN_IF_ERROR(RequireSameDType(op, 0, 1));
  WEFT_RETURN_IF_ERROR(RequireShape(op, 0, Shape()));
  *out = {op.input(1)};
  return absl::OkStatus();
}

// dscores = dloss w (p - target), target = (1 - ls) [c is the label] + ls / C.
std::vector<Value> DecomposeLossGrad(const OpView& op,
                                     absl::Span<const Value> inputs,
                                     NodeEmitter& emit) {
  const Shape& scores = op.input(1).shape;
  double smoothing = op.Float("label_smoothing");
  double rest = smoothing / static_cast<double>(scores.dim(1));
  Expr dloss(emit, inputs[0]), log_prob(emit, inputs[1]);
  Samples s = EmitSamples(Expr(emit, inputs[2]), Expr(emit, inputs[3]), scores);
  Expr target =
      Where(s.is_label, dloss.Like(1.0 - smoothing + rest), dloss.Like(rest));
  Expr grad = dloss * s.weight * (Exp(log_prob) - target);
  return {Where(s.no_weight, dloss.Like(0.0), grad)};
}

absl::Status InferLossAndGrad(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireSamples(op, 0, 1));
  WEFT_RETURN_IF_ERROR(RequireSameDType(op, 0, 3));
  WEFT_RETURN_IF_ERROR(RequireShape(op, 3, Shape()));
  *out = {op.input(3), op.input(0)};
  return absl::OkStatus();
}

std::vector<Value> DecomposeLossAndGrad(const OpView& op,
                                        absl::Span<const Value> inputs,
                                        NodeEmitter& emit) {
  const AttrMap attrs = {{"label_smoothing", op.Float("label_smoothing")}};
  std::vector<Value> loss =
      emit.Emit("weft.SoftmaxCrossEntropyLoss", inputs.subspan(0, 3), attrs, 2);
  loss.resize(2);  // invalid where the emitter has failed
  Expr log_prob(emit, loss[1]);
  return {loss[0], Apply("weft.SoftmaxCrossEntropyLossGrad",
                         {Expr(emit, inputs[3]), log_prob,
                          Expr(emit, inputs[1]), Expr(emit, inputs[2])},
                         attrs)};
}

// ---- Dropout ----------------------------------------------------------------

absl::Status RequireRatio(const OpView& op) {
  return RequireRange(op, "ratio", 0.0, 1.0);
}

absl::Status InferDropout(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
  WEFT_RETURN_IF_ERROR(RequireRatio(op));
  return SameAsInput(op, out);
}

std::vector<Value> DropoutGradient(const GradientContext& g) {
  return {g.output_grads[0]};
}

std::vector<Value> DecomposeDropout(const OpView&,
                                    absl::Span<const Value> inputs,
                                    NodeEmitter& emit) {
  return {emit.Emit1("Identity", {inputs[0]})};
}

absl::Status InferDropoutTraining(const OpView& op,
                                  std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
  WEFT_RETURN_IF_ERROR(RequireCounter(op, 1));
  WEFT_RETURN_IF_ERROR(RequireRatio(op));
  WEFT_RETURN_IF_ERROR(Cuts::FromOp(op, op.input(0).shape).status());
  *out = {op.input(0), {DType::kBool, op.input(0).shape}};
  return absl::OkStatus();
}

// x * mask / (1 - ratio).
Expr MaskAndScale(const Expr& x, const Expr& mask, double ratio) {
  if (!x.valid()) return x;
  return x * (Cast(mask, x.dtype()) * (1.0 / (1.0 - ratio)));
}

std::vector<Value> DropoutTrainingGradient(const GradientContext& g) {
  Expr dy(g.emit, g.output_grads[0]), mask(g.emit, g.outputs[1]);
  return {
      Apply("weft.DropoutGrad", {dy, mask}, {{"ratio", g.op.Float("ratio")}}),
      Value()};
}

absl::Status InferDropoutGrad(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
  WEFT_RETURN_IF_ERROR(RequireDType(op, 1, DType::kBool));
  WEFT_RETURN_IF_ERROR(RequireShape(op, 1, op.input(0).shape));
  WEFT_RETURN_IF_ERROR(RequireRatio(op));
  return SameAsInput(op, out);
}

std::vector<Value> DecomposeDropoutGrad(const OpView& op,
                                        absl::Span<const Value> inputs,
                                        NodeEmitter& emit) {
  return {MaskAndScale(Expr(emit, inputs[0]), Expr(emit, inputs[1]),
                       op.Float("ratio"))};
}

std::vector<Value> DecomposeDropoutTraining(const OpView& op,
                                            absl::Span<const Value> inputs,
                                            NodeEmitter& emit) {
  absl::Span<const int64_t> dims = op.input(0).shape.dims();
  double ratio = op.Float("ratio");
  AttrMap attrs = {{"shape", Ints(dims.begin(), dims.end())},
                   {"dtype", DType::kF32},
                   {"seed", op.Int("seed")},
                   {"stream", op.Int("stream")}};
  Cuts::CopyTo(op, &attrs);
  Expr u =
      Apply("weft.RandomUniform", {Expr(emit, inputs[1])}, std::move(attrs));
  // u is a multiple of 2^-24, so the next such number above `ratio` decides the
  // same, and f32 holds it exactly where it may not hold `ratio`.
  double threshold = std::ldexp(std::ceil(std::ldexp(ratio, 24)), -24);
  Expr mask = Apply("GreaterOrEqual", {u, u.Like(threshold)});
  return {MaskAndScale(Expr(emit, inputs[0]), mask, ratio), mask};
}

// ---- Norm of gradients
// --------------------------------------------------------

constexpr int kMaxNormOperands = 32;

// The root of a sum of squares, so that the norm of norms is the norm of all:
// callers with more operands build a tree.
absl::Status InferGlobalNorm(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
  for (int i = 1; i < op.num_inputs(); ++i) {
    WEFT_RETURN_IF_ERROR(RequireSameDType(op, 0, i));
  }
  *out = {{DType::kF32, Shape()}};
  return absl::OkStatus();
}

// Sums in f32 where the operands are not f64: a device need not have f64.
std::vector<Value> DecomposeGlobalNorm(const OpView& op,
                                       absl::Span<const Value> inputs,
                                       NodeEmitter& emit) {
  DType dtype = op.input(0).dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  Expr total(emit, {});
  for (int i = 0; i < op.num_inputs(); ++i) {
    Expr g = Cast(Expr(emit, inputs[i]), dtype);
    Ints axes;
    for (int d = 0; d < op.input(i).shape.rank(); ++d) axes.push_back(d);
    total = SumOfValid(total, Sum(g * g, axes, /*keepdims=*/false));
  }
  return {Cast(Apply("Sqrt", {total}), DType::kF32)};
}

Cost GlobalNormCost(const OpView& op) {
  Cost cost = BytesMoved(op);
  for (int i = 0; i < op.num_inputs(); ++i) {
    cost.flops += 2.0 * op.input(i).shape.num_elements();
  }
  return cost;
}

absl::Status InferClipScale(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireF32Scalar(op, 0));
  double clip = op.Float("clip_norm");
  if (!(clip > 0.0) || std::isinf(clip)) {
    return op.Error(ErrorCode::kBadAttribute,
                    absl::StrCat("attribute 'clip_norm' must be above 0, got ",
                                 ToString(op.Get("clip_norm"))));
  }
  return SameAsInput(op, out);
}

// min(1, clip / norm): a norm of 0 gives 1, one of NaN gives NaN.
std::vector<Value> DecomposeClipScale(const OpView& op,
                                      absl::Span<const Value> inputs,
                                      NodeEmitter& emit) {
  Expr norm(emit, inputs[0]);
  return {Apply("Min", {norm.Like(1.0), op.Float("clip_norm") / norm})};
}

// ---- Registration
// -------------------------------------------------------------

void AddSoftmax(OpRegistry* registry) {
  OpSchema softmax(OpId::kSoftmax);
  softmax.inputs = {1, 1};
  softmax.attrs = {AttrSpec::Default("axis", -1)};
  softmax.infer = InferSoftmax;
  softmax.signatures = SoftmaxSignatures;
  softmax.gradient = SoftmaxGradient;
  softmax.decompose = DecomposeSoftmax;
  softmax.cost = FlopsPerElement(5);
  registry->Add(std::move(softmax));

  OpSchema log_softmax(OpId::kLogSoftmax);
  log_softmax.inputs = {1, 1};
  log_softmax.attrs = {AttrSpec::Default("axis", -1)};
  log_softmax.infer = InferSoftmax;
  log_softmax.signatures = SoftmaxSignatures;
  log_softmax.gradient = LogSoftmaxGradient;
  log_softmax.decompose = DecomposeLogSoftmax;
  log_softmax.cost = FlopsPerElement(5);
  registry->Add(std::move(log_softmax));
}

void AddLoss(OpRegistry* registry) {
  OpSchema loss(OpId::kSoftmaxCrossEntropyLoss);
  loss.inputs = {3, 3};
  loss.outputs = {2, 2};
  loss.attrs = {AttrSpec::Default("label_smoothing", 0.0)};
  loss.infer = InferLoss;
  loss.signatures = LossSignatures;
  loss.gradient = LossGradient;
  loss.decompose = DecomposeLoss;
  loss.cost = FlopsPerElement(8);
  registry->Add(std::move(loss));

  OpSchema grad(OpId::kSoftmaxCrossEntropyLossGrad);
  grad.inputs = {4, 4};
  grad.attrs = {AttrSpec::Default("label_smoothing", 0.0)};
  grad.infer = InferLossGrad;
  grad.signatures = LossGradSignatures;
  grad.decompose = DecomposeLossGrad;
  grad.cost = FlopsPerElement(4);
  registry->Add(std::move(grad));

  OpSchema both(OpId::kSoftmaxCrossEntropyLossAndGrad);
  both.inputs = {4, 4};
  both.outputs = {2, 2};
  both.attrs = {AttrSpec::Default("label_smoothing", 0.0)};
  both.infer = InferLossAndGrad;
  both.signatures = LossAndGradSignatures;
  both.decompose = DecomposeLossAndGrad;
  both.cost = FlopsPerElement(12);
  registry->Add(std::move(both));
}

void AddDropout(OpRegistry* registry) {
  OpSchema model(OpId::kDropout);
  model.inputs = {1, 1};
  model.attrs = {AttrSpec::Default("ratio", 0.5)};
  model.infer = InferDropout;
  model.signatures = DropoutSignatures;
  model.gradient = DropoutGradient;
  model.decompose = DecomposeDropout;
  registry->Add(std::move(model));

  OpSchema training(OpId::kDropoutTraining);
  training.inputs = {2, 2};
  training.outputs = {2, 2};
  training.attrs = {AttrSpec::Default("ratio", 0.5),
                    AttrSpec::Default("seed", 0),
                    AttrSpec::Default("stream", 0), Cuts::Spec()};
  training.local_attrs = LocalRandomAttrs;
  training.infer = InferDropoutTraining;
  training.signatures = DropoutSignatures;
  training.gradient = DropoutTrainingGradient;
  training.decompose = DecomposeDropoutTraining;
  training.cost = FlopsPerElement(10);
  training.effect = OpEffect::kRandom;
  registry->Add(std::move(training));

  OpSchema grad(OpId::kDropoutGrad);
  grad.inputs = {2, 2};
  grad.attrs = {AttrSpec::Default("ratio", 0.5)};
  grad.infer = InferDropoutGrad;
  grad.signatures = DropoutSignatures;
  grad.decompose = DecomposeDropoutGrad;
  grad.cost = FlopsPerElement(2);
  registry->Add(std::move(grad));
}

}  // namespace

void RegisterLossOps(OpRegistry* registry) {
  AddSoftmax(registry);
  AddLoss(registry);
  AddDropout(registry);

  OpSchema norm(OpId::kGlobalNorm);
  norm.inputs = {1, kMaxNormOperands};
  norm.infer = InferGlobalNorm;
  norm.decompose = DecomposeGlobalNorm;
  norm.cost = GlobalNormCost;
  registry->Add(std::move(norm));

  OpSchema clip(OpId::kClipScale);
  clip.inputs = {1, 1};
  clip.attrs = {AttrSpec::Required("clip_norm", AttrKind::kFloat)};
  clip.infer = InferClipScale;
  clip.decompose = DecomposeClipScale;
  registry->Add(std::move(clip));
}

}  // namespace weft
