// 2-D convolution and its two gradients. Each decomposes into one batched
// product of matrices over copied windows (im2col):
//
//   Conv              [Mg, K] x [K, P]       per image and group
//   ConvGradInput     [K, Mg] x [Mg, P]      then windows are added back
//   ConvGradWeights   [Mg, N P] x [N P, K]   per group
//
// with Mg output channels and K = C/group kH kW inputs of a group, P = oH oW.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/expr.h"
#include "core/ops/families.h"
#include "core/ops/infer.h"
#include "core/ops/schema.h"
#include "core/ops/window.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;

std::vector<AttrSpec> ConvAttrs() {
  return {AttrSpec::Default("strides", Ints{1, 1}),
          AttrSpec::Default("pads", Ints{0, 0, 0, 0}),
          AttrSpec::Default("dilations", Ints{1, 1}),
          AttrSpec::Default("group", 1)};
}

// The attributes of a convolution for one of its gradient ops.
AttrMap ConvAttrsOf(const OpView& op) {
  return {{"strides", op.Ints("strides")},
          {"pads", op.Ints("pads")},
          {"dilations", op.Ints("dilations")},
          {"group", op.Int("group")}};
}

// The geometry of an op that was inferred, so that it exists.
ConvGeometry GeometryOf(const OpView& op) {
  if (op.schema().id == OpId::kConvGradInput) {
    return *GetConvGeometry(op, Shape(op.Ints("input_shape")),
                            op.input(1).shape);
  }
  if (op.schema().id == OpId::kConvGradWeights) {
    return *GetConvGeometry(op, op.input(1).shape,
                            Shape(op.Ints("weight_shape")));
  }
  return *GetConvGeometry(op, op.input(0).shape, op.input(1).shape);
}

// ---- Inference --------------------------------------------------------------

absl::Status InferConv(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
  WEFT_RETURN_IF_ERROR(RequireSameDType(op, 0, 1));
  WEFT_ASSIGN_OR_RETURN(ConvGeometry g, GetConvGeometry(op, op.input(0).shape,
                                                        op.input(1).shape));
  if (op.has_input(2)) {
    WEFT_RETURN_IF_ERROR(RequireSameDType(op, 0, 2));
    WEFT_RETURN_IF_ERROR(RequireShape(op, 2, {g.out_channels()}));
  }
  *out = {{op.input(0).dtype, g.OutputShape()}};
  return absl::OkStatus();
}

absl::Status InferConvGrad(const OpView& op, const Shape& x, const Shape& w,
                           const Shape& result, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
  WEFT_RETURN_IF_ERROR(RequireSameDType(op, 0, 1));
  WEFT_ASSIGN_OR_RETURN(ConvGeometry g, GetConvGeometry(op, x, w));
  WEFT_RETURN_IF_ERROR(RequireShape(op, 0, g.OutputShape()));
  *out = {{op.input(0).dtype, result}};
  return absl::OkStatus();
}

absl::Status InferConvGradInput(const OpView& op,
                                std::vector<TensorType>* out) {
  WEFT_ASSIGN_OR_RETURN(Shape x, ShapeAttr(op, "input_shape"));
  return InferConvGrad(op, x, op.input(1).shape, x, out);
}

absl::Status InferConvGradWeights(const OpView& op,
                                  std::vector<TensorType>* out) {
  WEFT_ASSIGN_OR_RETURN(Shape w, ShapeAttr(op, "weight_shape"));
  return InferConvGrad(op, op.input(1).shape, w, w, out);
}

// ---- Gradient ---------------------------------------------------------------

std::vector<Value> ConvGradient(const GradientContext& g) {
  Expr x(g.emit, g.inputs[0]), w(g.emit, g.inputs[1]);
  Expr dy(g.emit, g.output_grads[0]);
  auto ints = [](const Shape& s) {
    return Ints(s.dims().begin(), s.dims().end());
  };
  AttrMap to_input = ConvAttrsOf(g.op);
  to_input.Set("input_shape", ints(g.op.input(0).shape));
  AttrMap to_weights = ConvAttrsOf(g.op);
  to_weights.Set("weight_shape", ints(g.op.input(1).shape));
  std::vector<Value> grads = {
      Apply("weft.ConvGradInput", {dy, w}, std::move(to_input)),
      Apply("weft.ConvGradWeights", {dy, x}, std::move(to_weights))};
  if (g.op.has_input(2)) {
    grads.push_back(Sum(dy, {0, 2, 3}, /*keepdims=*/false));
  }
  return grads;
}

// ---- Decomposition ----------------------------------------------------------

std::vector<Value> DecomposeConv(const OpView& op,
                                 absl::Span<const Value> inputs,
                                 NodeEmitter& emit) {
  ConvGeometry g = GeometryOf(op);
  int64_t k = g.in_per_group * g.kernel_elements();
  WindowDims d = GetWindowDims(g.window, g.batch, g.in_channels());
  StridedDim group = {g.groups, d.channel.stride * g.in_per_group};
  StridedDim channel = {g.in_per_group, d.channel.stride};
  Expr windows = StridedCopy(
      PadImage(Expr(emit, inputs[0]), g.window, 0.0),
      {d.batch, group, channel, d.kernel[0], d.kernel[1], d.out[0], d.out[1]});
  Expr w = ReshapeTo(Expr(emit, inputs[1]), {g.groups, g.out_per_group, k});
  Expr cols = ReshapeTo(windows, {g.batch, g.groups, k, g.out_pixels()});
  Expr y = ReshapeTo(Apply("MatMul", {w, cols}), g.OutputShape());
  if (op.has_input(2)) {
    y = y + ReshapeTo(Expr(emit, inputs[2]), {g.out_channels(), 1, 1});
  }
  return {y};
}

std::vector<Value> DecomposeConvGradInput(const OpView& op,
                                          absl::Span<const Value> inputs,
                                          NodeEmitter& emit) {
  ConvGeometry g = GeometryOf(op);
  int64_t k = g.in_per_group * g.kernel_elements();
  Expr dy = ReshapeTo(Expr(emit, inputs[0]),
                      {g.batch, g.groups, g.out_per_group, g.out_pixels()});
  // The weights, transposed within each group.
  Expr w = StridedCopy(
      Expr(emit, inputs[1]),
      {{g.groups, g.out_per_group * k}, {k, 1}, {g.out_per_group, k}});
  Expr windows =
      ReshapeTo(Apply("MatMul", {w, dy}),
                {g.batch, g.in_channels(), g.window.kernel[0],
                 g.window.kernel[1], g.window.out[0], g.window.out[1]});
  return {FoldWindows(windows, g.window)};
}

std::vector<Value> DecomposeConvGradWeights(const OpView& op,
                                            absl::Span<const Value> inputs,
                                            NodeEmitter& emit) {
  ConvGeometry g = GeometryOf(op);
  int64_t k = g.in_per_group * g.kernel_elements();
  int64_t rows = g.batch * g.out_pixels();
  int64_t p = g.out_pixels();
  Expr dy = StridedCopy(Expr(emit, inputs[0]), {{g.groups, g.out_per_group * p},
                                                {g.out_per_group, p},
                                                {g.batch, g.out_channels() * p},
                                                {p, 1}});
  WindowDims d = GetWindowDims(g.window, g.batch, g.in_channels());
  StridedDim group = {g.groups, d.channel.stride * g.in_per_group};
  StridedDim channel = {g.in_per_group, d.channel.stride};
  Expr windows = StridedCopy(
      PadImage(Expr(emit, inputs[1]), g.window, 0.0),
      {group, d.batch, d.out[0], d.out[1], channel, d.kernel[0], d.kernel[1]});
  Expr dw = Apply("MatMul", {ReshapeTo(dy, {g.groups, g.out_per_group, rows}),
                             ReshapeTo(windows, {g.groups, rows, k})});
  return {ReshapeTo(dw, Shape(op.Ints("weight_shape")))};
}

Cost ConvCost(const OpView& op) {
  ConvGeometry g = GeometryOf(op);
  double outputs = static_cast<double>(g.OutputShape().num_elements());
  double flops = 2.0 * outputs * g.in_per_group * g.kernel_elements();
  if (op.schema().id == OpId::kConv && op.has_input(2)) flops += outputs;
  return {flops, BytesMoved(op).bytes};
}

}  // namespace

void RegisterConvOps(OpRegistry* registry) {
  OpSchema conv(OpId::kConv);
  conv.inputs = {2, 3};
  conv.attrs = ConvAttrs();
  conv.infer = InferConv;
  conv.gradient = ConvGradient;
  conv.decompose = DecomposeConv;
  conv.cost = ConvCost;
  registry->Add(std::move(conv));

  OpSchema grad_input(OpId::kConvGradInput);
  grad_input.inputs = {2, 2};
  grad_input.attrs = ConvAttrs();
  grad_input.attrs.push_back(
      AttrSpec::Required("input_shape", AttrKind::kInts));
  grad_input.infer = InferConvGradInput;
  grad_input.decompose = DecomposeConvGradInput;
  grad_input.cost = ConvCost;
  registry->Add(std::move(grad_input));

  OpSchema grad_weights(OpId::kConvGradWeights);
  grad_weights.inputs = {2, 2};
  grad_weights.attrs = ConvAttrs();
  grad_weights.attrs.push_back(
      AttrSpec::Required("weight_shape", AttrKind::kInts));
  grad_weights.infer = InferConvGradWeights;
  grad_weights.decompose = DecomposeConvGradWeights;
  grad_weights.cost = ConvCost;
  registry->Add(std::move(grad_weights));
}

}  // namespace weft
