// Batch and layer normalisation, and their gradients. All float operands of one
// use have one dtype.
//
// Statistics are of the population (divided by n), as ONNX has them. Running
// statistics are state, not a function to differentiate: operands and results
// that hold them have no gradient.
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/activation.h"
#include "core/ops/expr.h"
#include "core/ops/families.h"
#include "core/ops/family_signatures.h"
#include "core/ops/image_layout.h"
#include "core/ops/infer.h"
#include "core/ops/schema.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;

// All dimensions of an image [N,C,...] but the channels: what batch
// normalisation averages over.
Ints AxesButChannels(const Shape& x) {
  Ints axes = {0};
  for (int d = 2; d < x.rank(); ++d) axes.push_back(d);
  return axes;
}

// Dimensions [from, to).
Ints AxisRange(int from, int to) {
  Ints axes;
  for (int d = from; d < to; ++d) axes.push_back(d);
  return axes;
}

double ElementsAlong(const Shape& x, const Ints& axes) {
  double n = 1;
  for (int64_t d : axes) n *= static_cast<double>(x.dim(d));
  return n;
}

Expr Mean(const Expr& x, const Ints& axes) {
  return Apply("ReduceMean", {x}, {{"axes", axes}, {"keepdims", 1}});
}

Expr InverseStd(const Expr& variance, double epsilon) {
  return 1.0 / Apply("Sqrt", {variance + epsilon});
}

absl::Status RequireSameFloat(const OpView& op) {
  WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
  for (int i = 1; i < op.num_inputs(); ++i) {
    if (op.has_input(i)) WEFT_RETURN_IF_ERROR(RequireSameDType(op, 0, i));
  }
  return absl::OkStatus();
}

absl::Status RequireEpsilon(const OpView& op) {
  return RequireRange(op, "epsilon", 0.0, 1.0);
}

// Emits one of the ops (dY, X, scale, mean, deviation) -> dX, dscale, dbias;
// nothing where dY is absent.
std::array<Expr, 3> EmitNormGrad(absl::string_view op,
                                 const std::vector<Expr>& operands,
                                 AttrMap attrs) {
  NodeEmitter& emit = operands[0].emit();
  std::array<Expr, 3> grads = {Expr(emit, {}), Expr(emit, {}), Expr(emit, {})};
  std::vector<Value> inputs(operands.begin(), operands.end());
  for (Value v : inputs) {
    if (!v.valid()) return grads;
  }
  std::vector<Value> out = emit.Emit(op, inputs, std::move(attrs), 3);
  for (size_t i = 0; i < out.size(); ++i) grads[i] = Expr(emit, out[i]);
  return grads;
}

// The gradient of y = scale * x_hat + bias, x_hat = (x - mean(x)) * inv, along
// `axes` of x; `scaled_dy` is dy * scale.
//   dx = inv * (scaled_dy - mean(scaled_dy) - x_hat * mean(scaled_dy * x_hat))
Expr NormalizedGrad(const Expr& scaled_dy, const Expr& x_hat, const Expr& inv,
                    const Ints& axes) {
  return inv * (scaled_dy - Mean(scaled_dy, axes) -
                x_hat * Mean(scaled_dy * x_hat, axes));
}

OpSchema::CostFn FlopsPerElement(int operand, double flops) {
  return [operand, flops](const OpView& op) {
    return Cost{op.input(operand).shape.num_elements() * flops,
                BytesMoved(op).bytes};
  };
}

// ---- BatchNormalization
// ---------------------------------------------------------

// Operands [first, end) hold one number a channel of image `x`.
absl::Status RequireChannels(const OpView& op, int x, int first, int end) {
  WEFT_ASSIGN_OR_RETURN(ImageLayout layout, LayoutOf(op));
  WEFT_ASSIGN_OR_RETURN(const Shape shape, ImageShape(op, x, layout));
  if (shape.rank() < 2) {
    return op.Error(ErrorCode::kShapeMismatch,
                    absl::StrCat("operand ", x, " must be [N,C,...], got ",
                                 op.input(x).ToString()));
  }
  for (int i = first; i < end; ++i) {
    if (op.input(i).shape == Shape({shape.dim(1)})) continue;
    return op.Error(ErrorCode::kShapeMismatch,
                    absl::StrCat("operand ", i, " must hold the ", shape.dim(1),
                                 " channels of ", op.input(x).ToString(),
                                 ", got ", op.input(i).ToString()));
  }
  return absl::OkStatus();
}

absl::Status InferBatchNormalization(const OpView& op,
                                     std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireSameFloat(op));
  WEFT_RETURN_IF_ERROR(RequireChannels(op, 0, 1, 5));
  WEFT_RETURN_IF_ERROR(RequireEpsilon(op));
  WEFT_RETURN_IF_ERROR(RequireFlag(op, "training_mode"));
  *out = {op.input(0)};
  if (op.Int("training_mode") != 0) {
    out->push_back(op.input(3));
    out->push_back(op.input(4));
  }
  return absl::OkStatus();
}

// The attributes of a normalisation for another op of the family.
AttrMap NormAttrs(const OpView& op) {
  AttrMap attrs = {{"epsilon", op.Float("epsilon")}};
  CopyLayout(op, "layout", &attrs);
  return attrs;
}

std::vector<Value> EmitBatchNormTraining(const OpView& op,
                                         absl::Span<const Value> inputs,
                                         NodeEmitter& emit) {
  std::vector<Value> out = emit.Emit("weft.BatchNormTraining",
                                     inputs.subspan(0, 3), NormAttrs(op), 3);
  out.resize(3);  // invalid where the emitter has failed
  return out;
}

std::vector<Value> BatchNormalizationGradient(const GradientContext& g) {
  NodeEmitter& emit = g.emit;
  const Shape& image = g.op.input(0).shape;
  Expr x(emit, g.inputs[0]), scale(emit, g.inputs[1]);
  Expr dy(emit, g.output_grads[0]);
  if (!dy.valid()) return std::vector<Value>(5);
  if (g.op.Int("training_mode") != 0) {
    std::vector<Value> batch = EmitBatchNormTraining(g.op, g.inputs, emit);
    std::array<Expr, 3> d =
        EmitNormGrad("weft.BatchNormGrad",
                     {dy, x, scale, Expr(emit, batch[1]), Expr(emit, batch[2])},
                     NormAttrs(g.op));
    return {d[0], d[1], d[2], Value(), Value()};
  }
  const ImageLayout layout = *LayoutOf(g.op);
  Expr mean = PerChannel(Expr(emit, g.inputs[3]), layout, image);
  Expr inv =
      PerChannel(InverseStd(Expr(emit, g.inputs[4]), g.op.Float("epsilon")),
                 layout, image);
  Expr x_hat = (x - mean) * inv;
  return {dy * (PerChannel(scale, layout, image) * inv),
          SumOfChannels(dy * x_hat, layout), SumOfChannels(dy, layout), Value(),
          Value()};
}

std::vector<Value> DecomposeBatchNormalization(const OpView& op,
                                               absl::Span<const Value> inputs,
                                               NodeEmitter& emit) {
  Expr mean(emit, inputs[3]), variance(emit, inputs[4]);
  if (op.Int("training_mode") != 0) {
    std::vector<Value> out = EmitBatchNormTraining(op, inputs, emit);
    double keep = op.Float("momentum");
    out[1] = mean * keep + Expr(emit, out[1]) * (1.0 - keep);
    out[2] = variance * keep + Expr(emit, out[2]) * (1.0 - keep);
    out.resize(op.outputs().size());
    return out;
  }
  const Shape& image = op.input(0).shape;
  Expr x(emit, inputs[0]), scale(emit, inputs[1]), bias(emit, inputs[2]);
  Expr gain = scale * InverseStd(variance, op.Float("epsilon"));
  return {(x - PerChannel(mean, ImageLayout::kNchw, image)) *
              PerChannel(gain, ImageLayout::kNchw, image) +
          PerChannel(bias, ImageLayout::kNchw, image)};
}

absl::Status InferBatchNormTraining(const OpView& op,
                                    std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireSameFloat(op));
  WEFT_RETURN_IF_ERROR(RequireChannels(op, 0, 1, 3));
  WEFT_RETURN_IF_ERROR(RequireEpsilon(op));
  if (op.has_input(3)) WEFT_RETURN_IF_ERROR(RequireSameType(op, 0, 3));
  *out = {op.input(0), op.input(1), op.input(1)};
  return absl::OkStatus();
}

std::vector<Value> BatchNormTrainingGradient(const GradientContext& g) {
  NodeEmitter& emit = g.emit;
  const Shape& image = g.op.input(0).shape;
  Expr x(emit, g.inputs[0]), mean(emit, g.outputs[1]);
  std::array<Expr, 3> d =
      EmitNormGrad("weft.BatchNormGrad",
                   {Expr(emit, g.output_grads[0]), x, Expr(emit, g.inputs[1]),
                    mean, Expr(emit, g.outputs[2])},
                   NormAttrs(g.op));
  const ImageLayout layout = *LayoutOf(g.op);
  double n = static_cast<double>(image.num_elements()) /
             static_cast<double>(g.op.input(1).shape.num_elements());
  Expr dmean = PerChannel(Expr(emit, g.output_grads[1]), layout, image);
  Expr dvar = PerChannel(Expr(emit, g.output_grads[2]), layout, image);
  Expr dx = d[0];
  if (dmean.valid()) dx = SumOfValid(dx, ExpandTo(dmean * (1.0 / n), image));
  if (dvar.valid()) {
    dx = SumOfValid(dx,
                    dvar * (2.0 / n) * (x - PerChannel(mean, layout, image)));
  }
  std::vector<Value> grads = {dx, d[1], d[2], g.output_grads[0]};
  grads.resize(g.op.num_inputs());
  return grads;
}

std::vector<Value> DecomposeBatchNormTraining(const OpView& op,
                                              absl::Span<const Value> inputs,
                                              NodeEmitter& emit) {
  if (op.has_input(3)) {
    std::vector<Value> out = EmitBatchNormTraining(op, inputs, emit);
    out[0] = Expr(emit, out[0]) + Expr(emit, inputs[3]);
    return out;
  }
  const Shape& image = op.input(0).shape;
  Ints axes = AxesButChannels(image);
  Expr x(emit, inputs[0]), scale(emit, inputs[1]), bias(emit, inputs[2]);
  Expr mean = Mean(x, axes);
  Expr centred = x - mean;
  Expr variance = Mean(centred * centred, axes);
  Expr gain = PerChannel(scale, ImageLayout::kNchw, image) *
              InverseStd(variance, op.Float("epsilon"));
  return {centred * gain + PerChannel(bias, ImageLayout::kNchw, image),
          ReshapeTo(mean, op.input(1).shape),
          ReshapeTo(variance, op.input(1).shape)};
}

absl::Status InferBatchNormGrad(const OpView& op,
                                std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireSameFloat(op));
  WEFT_RETURN_IF_ERROR(RequireSameType(op, 0, 1));
  WEFT_RETURN_IF_ERROR(RequireChannels(op, 1, 2, 5));
  WEFT_RETURN_IF_ERROR(RequireEpsilon(op));
  *out = {op.input(1), op.input(2), op.input(2)};
  return absl::OkStatus();
}

std::vector<Value> DecomposeBatchNormGrad(const OpView& op,
                                          absl::Span<const Value> inputs,
                                          NodeEmitter& emit) {
  const Shape& image = op.input(1).shape;
  Ints axes = AxesButChannels(image);
  Expr dy(emit, inputs[0]), x(emit, inputs[1]), scale(emit, inputs[2]);
  Expr mean = PerChannel(Expr(emit, inputs[3]), ImageLayout::kNchw, image);
  Expr inv = PerChannel(InverseStd(Expr(emit, inputs[4]), op.Float("epsilon")),
                        ImageLayout::kNchw, image);
  Expr x_hat = (x - mean) * inv;
  return {NormalizedGrad(dy * PerChannel(scale, ImageLayout::kNchw, image),
                         x_hat, inv, axes),
          Sum(dy * x_hat, axes, /*keepdims=*/false),
          Sum(dy, axes, /*keepdims=*/false)};
}

// ---- LayerNormalization
// ---------------------------------------------------------

// Normalises dimensions [axis, rank) of operand `x`; operand `scale` and those
// after it up to `end` have exactly these dimensions. The statistics' type goes
// to `stat`.
absl::Status InferLayer(const OpView& op, int x, int scale, int end,
                        TensorType* stat) {
  const Shape& shape = op.input(x).shape;
  WEFT_RETURN_IF_ERROR(RequireSameFloat(op));
  WEFT_ASSIGN_OR_RETURN(int axis, AxisAttr(op, "axis", shape.rank()));
  Shape normalized(shape.dims().subspan(axis));
  for (int i = scale; i < end; ++i) {
    if (!op.has_input(i) || op.input(i).shape == normalized) continue;
    return op.Error(
        ErrorCode::kShapeMismatch,
        absl::StrCat("operand ", i, " must have the normalised dimensions ",
                     normalized.ToString(), " of ", op.input(x).ToString(),
                     ", got ", op.input(i).ToString()));
  }
  Ints dims(shape.dims().begin(), shape.dims().end());
  for (int d = axis; d < shape.rank(); ++d) dims[d] = 1;
  *stat = {op.input(x).dtype, Shape(dims)};
  return absl::OkStatus();
}

// Pre-condition: `op` was inferred.
int LayerAxis(const OpView& op, int x) {
  return *NormalizeAxis(op.Int("axis"), op.input(x).shape.rank());
}

absl::Status InferLayerNormalization(const OpView& op,
                                     std::vector<TensorType>* out) {
  TensorType stat;
  WEFT_RETURN_IF_ERROR(InferLayer(op, 0, 1, 3, &stat));
  WEFT_RETURN_IF_ERROR(RequireEpsilon(op));
  *out = {op.input(0), stat, stat};
  if (op.has_input(3)) {
    WEFT_RETURN_IF_ERROR(RequireSameType(op, 0, 3));
    out->push_back(op.input(0));
  }
  return absl::OkStatus();
}

std::vector<Value> LayerNormalizationGradient(const GradientContext& g) {
  NodeEmitter& emit = g.emit;
  const Shape& shape = g.op.input(0).shape;
  Expr x(emit, g.inputs[0]);
  if (g.op.has_input(3)) {
    x = g.outputs.size() > 3 ? Expr(emit, g.outputs[3])
                             : x + Expr(emit, g.inputs[3]);
  }
  Expr mean(emit, g.outputs[1]), inv(emit, g.outputs[2]);
  std::array<Expr, 3> d = EmitNormGrad(
      "weft.LayerNormGrad",
      {Expr(emit, g.output_grads[0]), x, Expr(emit, g.inputs[1]), mean, inv},
      {{"axis", g.op.Int("axis")}});
  double n = ElementsAlong(shape, AxisRange(LayerAxis(g.op, 0), shape.rank()));
  Expr dmean(emit, g.output_grads[1]), dinv(emit, g.output_grads[2]);
  Expr dx = d[0];
  if (dmean.valid()) dx = SumOfValid(dx, ExpandTo(dmean * (1.0 / n), shape));
  if (dinv.valid()) {  // d inv / d x = -inv^3 (x - mean) / n
    Expr slope = dinv * (inv * inv * inv) * (-1.0 / n);
    dx = SumOfValid(dx, slope * (x - mean));
  }
  if (g.outputs.size() > 3) {
    dx = SumOfValid(dx, Expr(emit, g.output_grads[3]));
  }
  std::vector<Value> grads = {dx, d[1], d[2], dx};
  grads.resize(g.op.num_inputs());
  return grads;
}

std::vector<Value> DecomposeLayerNormalization(const OpView& op,
                                               absl::Span<const Value> inputs,
                                               NodeEmitter& emit) {
  Ints axes = AxisRange(LayerAxis(op, 0), op.input(0).shape.rank());
  Expr x(emit, inputs[0]), scale(emit, inputs[1]);
  if (op.has_input(3)) x = x + Expr(emit, inputs[3]);
  Expr mean = Mean(x, axes);
  Expr centred = x - mean;
  Expr inv = InverseStd(Mean(centred * centred, axes), op.Float("epsilon"));
  Expr y = centred * inv * scale;
  if (op.has_input(2)) y = y + Expr(emit, inputs[2]);
  std::vector<Value> results = {y, mean, inv, x};
  results.resize(op.outputs().size());
  return results;
}

absl::Status InferLayerNormGrad(const OpView& op,
                                std::vector<TensorType>* out) {
  TensorType stat;
  WEFT_RETURN_IF_ERROR(InferLayer(op, 1, 2, 3, &stat));
  WEFT_RETURN_IF_ERROR(RequireSameType(op, 0, 1));
  WEFT_RETURN_IF_ERROR(RequireShape(op, 3, stat.shape));
  WEFT_RETURN_IF_ERROR(RequireShape(op, 4, stat.shape));
  *out = {op.input(1), op.input(2), op.input(2)};
  return absl::OkStatus();
}

std::vector<Value> DecomposeLayerNormGrad(const OpView& op,
                                          absl::Span<const Value> inputs,
                                          NodeEmitter& emit) {
  int axis = LayerAxis(op, 1);
  Ints axes = AxisRange(axis, op.input(1).shape.rank());
  Ints rows = AxisRange(0, axis);
  Expr dy(emit, inputs[0]), x(emit, inputs[1]), scale(emit, inputs[2]);
  Expr mean(emit, inputs[3]), inv(emit, inputs[4]);
  Expr x_hat = (x - mean) * inv;
  return {NormalizedGrad(dy * scale, x_hat, inv, axes),
          Sum(dy * x_hat, rows, /*keepdims=*/false),
          Sum(dy, rows, /*keepdims=*/false)};
}

// ---- Registration
// -----------------------------------------------------------------

void AddBatchNorm(OpRegistry* registry) {
  OpSchema model(OpId::kBatchNormalization);
  model.inputs = {5, 5};
  model.outputs = {1, 3};
  model.attrs = {AttrSpec::Default("epsilon", 1e-5),
                 AttrSpec::Default("momentum", 0.9),
                 AttrSpec::Default("training_mode", 0), LayoutSpec()};
  model.signatures = BatchNormalizationSignatures;
  model.infer = InferBatchNormalization;
  model.gradient = BatchNormalizationGradient;
  model.decompose = DecomposeInNchw(DecomposeBatchNormalization);
  model.cost = FlopsPerElement(0, 4);
  registry->Add(std::move(model));

  OpSchema training(OpId::kBatchNormTraining);
  training.inputs = {3, 4};
  training.outputs = {3, 3};
  training.attrs = {AttrSpec::Default("epsilon", 1e-5), LayoutSpec()};
  training.signatures = BatchNormTrainingSignatures;
  training.infer = InferBatchNormTraining;
  training.gradient = BatchNormTrainingGradient;
  training.decompose = DecomposeInNchw(DecomposeBatchNormTraining);
  training.cost = FlopsPerElement(0, 6);
  AddActivation(&training);
  registry->Add(std::move(training));

  OpSchema grad(OpId::kBatchNormGrad);
  grad.inputs = {5, 5};
  grad.outputs = {3, 3};
  grad.attrs = {AttrSpec::Default("epsilon", 1e-5), LayoutSpec()};
  grad.signatures = BatchNormGradSignatures;
  grad.infer = InferBatchNormGrad;
  grad.decompose = DecomposeInNchw(DecomposeBatchNormGrad);
  grad.cost = FlopsPerElement(1, 10);
  registry->Add(std::move(grad));
}

void AddLayerNorm(OpRegistry* registry) {
  OpSchema layer(OpId::kLayerNormalization);
  layer.inputs = {2, 4};
  layer.outputs = {3, 4};
  layer.attrs = {AttrSpec::Default("axis", -1),
                 AttrSpec::Default("epsilon", 1e-5)};
  layer.signatures = LayerNormSignatures;
  layer.infer = InferLayerNormalization;
  layer.gradient = LayerNormalizationGradient;
  layer.decompose = DecomposeLayerNormalization;
  layer.cost = FlopsPerElement(0, 7);
  registry->Add(std::move(layer));

  OpSchema grad(OpId::kLayerNormGrad);
  grad.inputs = {5, 5};
  grad.outputs = {3, 3};
  grad.attrs = {AttrSpec::Default("axis", -1)};
  grad.signatures = LayerNormGradSignatures;
  grad.infer = InferLayerNormGrad;
  grad.decompose = DecomposeLayerNormGrad;
  grad.cost = FlopsPerElement(1, 12);
  registry->Add(std::move(grad));
}

}  // namespace

void RegisterNormOps(OpRegistry* registry) {
  AddBatchNorm(registry);
  AddLayerNorm(registry);
}

}  // namespace weft
