// 2-D convolution and its two gradients. Each decomposes into one batched
// product of matrices over copied windows (im2col):
//
//   Conv              [Mg, K] x [K, P]       per image and group
//   ConvGradInput     [K, Mg] x [Mg, P]      then windows are added back
//   ConvGradWeights   [Mg, N P] x [N P, K]   per group
//
// with Mg output channels and K = C/group kH kW inputs of a group, P = oH oW.
//
// `layout` is that of the image x and its gradient, `out_layout` that of the
// result y and its gradient. weft.ConvGradWeights gives the gradient of the
// bias too, where it is asked for a second result.
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
#include "core/ops/window.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;

std::vector<AttrSpec> ConvAttrs() {
  return {AttrSpec::Default("strides", Ints{1, 1}),
          AttrSpec::Default("pads", Ints{0, 0, 0, 0}),
          AttrSpec::Default("dilations", Ints{1, 1}),
          AttrSpec::Default("group", 1),
          LayoutSpec(),
          LayoutSpec("out_layout")};
}

// The attributes of a convolution for one of its gradient ops.
AttrMap ConvAttrsOf(const OpView& op) {
  AttrMap attrs = {{"strides", op.Ints("strides")},
                   {"pads", op.Ints("pads")},
                   {"dilations", op.Ints("dilations")},
                   {"group", op.Int("group")}};
  CopyLayout(op, "layout", &attrs);
  CopyLayout(op, "out_layout", &attrs);
  return attrs;
}

// [N,C,H,W] of operand `i`, which is an image of an op that was inferred.
Shape Image(const OpView& op, int i, absl::string_view attr) {
  return *ImageShape(op, i, *LayoutOf(op, attr));
}

// The geometry of an op that was inferred, so that it exists.
ConvGeometry GeometryOf(const OpView& op) {
  if (op.schema().id == OpId::kConvGradInput) {
    return *GetConvGeometry(op, Shape(op.Ints("input_shape")),
                            op.input(1).shape);
  }
  if (op.schema().id == OpId::kConvGradWeights) {
    return *GetConvGeometry(op, Image(op, 1, "layout"),
                            Shape(op.Ints("weight_shape")));
  }
  return *GetConvGeometry(op, Image(op, 0, "layout"), op.input(1).shape);
}

// ---- Inference --------------------------------------------------------------

absl::Status InferConv(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
  WEFT_RETURN_IF_ERROR(RequireSameDType(op, 0, 1));
  WEFT_ASSIGN_OR_RETURN(ImageLayout layout, LayoutOf(op));
  WEFT_ASSIGN_OR_RETURN(ImageLayout out_layout, LayoutOf(op, "out_layout"));
  WEFT_ASSIGN_OR_RETURN(Shape x, ImageShape(op, 0, layout));
  WEFT_ASSIGN_OR_RETURN(ConvGeometry g,
                        GetConvGeometry(op, x, op.input(1).shape));
  if (op.has_input(2)) {
    WEFT_RETURN_IF_ERROR(RequireSameDType(op, 0, 2));
    WEFT_RETURN_IF_ERROR(RequireShape(op, 2, {g.out_channels()}));
  }
  WEFT_ASSIGN_OR_RETURN(Shape y, StoredShape(op, out_layout, g.OutputShape()));
  *out = {{op.input(0).dtype, y}};
  return absl::OkStatus();
}

// Checks dy, operand 0.
absl::Status CheckConvGrad(const OpView& op, const Shape& x, const Shape& w) {
  WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
  WEFT_RETURN_IF_ERROR(RequireSameDType(op, 0, 1));
  WEFT_ASSIGN_OR_RETURN(ConvGeometry g, GetConvGeometry(op, x, w));
  WEFT_ASSIGN_OR_RETURN(ImageLayout out_layout, LayoutOf(op, "out_layout"));
  WEFT_ASSIGN_OR_RETURN(Shape y, StoredShape(op, out_layout, g.OutputShape()));
  return RequireShape(op, 0, y);
}

absl::Status InferConvGradInput(const OpView& op,
                                std::vector<TensorType>* out) {
  WEFT_ASSIGN_OR_RETURN(Shape x, ShapeAttr(op, "input_shape"));
  WEFT_RETURN_IF_ERROR(CheckConvGrad(op, x, op.input(1).shape));
  WEFT_ASSIGN_OR_RETURN(ImageLayout layout, LayoutOf(op));
  WEFT_ASSIGN_OR_RETURN(Shape stored, StoredShape(op, layout, x));
  *out = {{op.input(0).dtype, stored}};
  return absl::OkStatus();
}

absl::Status InferConvGradWeights(const OpView& op,
                                  std::vector<TensorType>* out) {
  WEFT_ASSIGN_OR_RETURN(Shape w, ShapeAttr(op, "weight_shape"));
  WEFT_ASSIGN_OR_RETURN(ImageLayout layout, LayoutOf(op));
  WEFT_ASSIGN_OR_RETURN(Shape x, ImageShape(op, 1, layout));
  WEFT_RETURN_IF_ERROR(CheckConvGrad(op, x, w));
  *out = {{op.input(0).dtype, w}, {op.input(0).dtype, {w.dim(0)}}};
  return absl::OkStatus();
}

// ---- Gradient ---------------------------------------------------------------

std::vector<Value> ConvGradient(const GradientContext& g) {
  Expr x(g.emit, g.inputs[0]), w(g.emit, g.inputs[1]);
  Expr dy(g.emit, g.output_grads[0]);
  AttrMap to_input = ConvAttrsOf(g.op);
  to_input.Set("input_shape", DimsOf(Image(g.op, 0, "layout")));
  AttrMap to_weights = ConvAttrsOf(g.op);
  to_weights.Set("weight_shape", DimsOf(g.op.input(1).shape));
  const int weight_grads = g.op.has_input(2) ? 2 : 1;
  std::vector<Value> grads = {
      Apply("weft.ConvGradInput", {dy, w}, std::move(to_input))};
  std::vector<Value> weights = g.emit.Emit("weft.ConvGradWeights", {dy, x},
                                           std::move(to_weights), weight_grads);
  grads.insert(grads.end(), weights.begin(), weights.end());
  grads.resize(1 + weight_grads);  // invalid where the emitter has failed
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
  if (op.outputs().size() > 1) {
    return {emit.Emit1("weft.ConvGradWeights", inputs, op.attrs()),
            SumOfChannels(Expr(emit, inputs[0]), ImageLayout::kNchw)};
  }
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
  if (op.schema().id == OpId::kConvGradWeights && op.outputs().size() > 1) {
    flops += outputs;
  }
  return {flops, BytesMoved(op).bytes};
}

}  // namespace

void RegisterConvOps(OpRegistry* registry) {
  OpSchema conv(OpId::kConv);
  conv.inputs = {2, 3};
  conv.attrs = ConvAttrs();
  conv.signatures = ConvSignatures;
  conv.local_attrs = LocalConvAttrs;
  conv.infer = InferConv;
  conv.gradient = ConvGradient;
  conv.decompose = DecomposeInNchw(DecomposeConv);
  conv.cost = ConvCost;
  AddActivation(&conv);
  registry->Add(std::move(conv));

  OpSchema grad_input(OpId::kConvGradInput);
  grad_input.inputs = {2, 2};
  grad_input.attrs = ConvAttrs();
  grad_input.attrs.push_back(
      AttrSpec::Required("input_shape", AttrKind::kInts));
  grad_input.signatures = ConvGradInputSignatures;
  grad_input.local_attrs = LocalConvAttrs;
  grad_input.infer = InferConvGradInput;
  grad_input.decompose = DecomposeInNchw(DecomposeConvGradInput);
  grad_input.cost = ConvCost;
  registry->Add(std::move(grad_input));

  OpSchema grad_weights(OpId::kConvGradWeights);
  grad_weights.inputs = {2, 2};
  grad_weights.outputs = {1, 2};
  grad_weights.attrs = ConvAttrs();
  grad_weights.attrs.push_back(
      AttrSpec::Required("weight_shape", AttrKind::kInts));
  grad_weights.signatures = ConvGradWeightsSignatures;
  grad_weights.local_attrs = LocalConvAttrs;
  grad_weights.infer = InferConvGradWeights;
  grad_weights.decompose = DecomposeInNchw(DecomposeConvGradWeights);
  grad_weights.cost = ConvCost;
  registry->Add(std::move(grad_weights));
}

}  // namespace weft
