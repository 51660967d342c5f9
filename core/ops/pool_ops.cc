// 2-D pooling and its gradients. Decompositions copy the windows out, as
// [N,C,kH,kW,oH,oW], and reduce over the kernel; gradients add windows back.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/expr.h"
#include "core/ops/families.h"
#include "core/ops/family_signatures.h"
#include "core/ops/image_layout.h"
#include "core/ops/infer.h"
#include "core/ops/schema.h"
#include "core/ops/signature_rules.h"
#include "core/ops/window.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;

std::vector<AttrSpec> PoolAttrs() {
  return {AttrSpec::Required("kernel_shape", AttrKind::kInts),
          AttrSpec::Default("strides", Ints{1, 1}),
          AttrSpec::Default("pads", Ints{0, 0, 0, 0}),
          AttrSpec::Default("ceil_mode", 0), LayoutSpec()};
}

std::vector<AttrSpec> AveragePoolAttrs() {
  std::vector<AttrSpec> attrs = PoolAttrs();
  attrs.push_back(AttrSpec::Default("count_include_pad", 0));
  return attrs;
}

AttrMap PoolAttrsOf(const OpView& op) {
  AttrMap attrs = {{"kernel_shape", op.Ints("kernel_shape")},
                   {"strides", op.Ints("strides")},
                   {"pads", op.Ints("pads")},
                   {"ceil_mode", op.Int("ceil_mode")}};
  CopyLayout(op, "layout", &attrs);
  return attrs;
}

// The result, as it lies, of an image x [N,C,H,W].
absl::StatusOr<Shape> InferPooledShape(const OpView& op, const Shape& x) {
  WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
  WEFT_RETURN_IF_ERROR(RequireFlag(op, "ceil_mode"));
  if (op.schema().FindAttr("count_include_pad") != nullptr) {
    WEFT_RETURN_IF_ERROR(RequireFlag(op, "count_include_pad"));
  }
  WEFT_ASSIGN_OR_RETURN(Window2d w, PoolWindow(op, x));
  WEFT_ASSIGN_OR_RETURN(ImageLayout layout, LayoutOf(op));
  return StoredShape(op, layout, {x.dim(0), x.dim(1), w.out[0], w.out[1]});
}

absl::StatusOr<Shape> InferImage(const OpView& op, int i) {
  WEFT_ASSIGN_OR_RETURN(ImageLayout layout, LayoutOf(op));
  return ImageShape(op, i, layout);
}

absl::Status InferPool(const OpView& op, std::vector<TensorType>* out) {
  WEFT_ASSIGN_OR_RETURN(Shape x, InferImage(op, 0));
  WEFT_ASSIGN_OR_RETURN(Shape y, InferPooledShape(op, x));
  *out = {{op.input(0).dtype, y}};
  return absl::OkStatus();
}

// x [N,C,H,W] -> windows [N,C,kH,kW,oH,oW], where padding is `fill`.
Expr Windows(const Expr& x, const Window2d& w, double fill) {
  if (!x.valid()) return x;
  WindowDims d = GetWindowDims(w, x.shape().dim(0), x.shape().dim(1));
  return StridedCopy(PadImage(x, w, fill), {d.batch, d.channel, d.kernel[0],
                                            d.kernel[1], d.out[0], d.out[1]});
}

// One operation for each element of every window.
Cost PoolCost(const OpView& op, const Shape& pooled) {
  double kernel = 1;
  for (int64_t k : op.Ints("kernel_shape")) kernel *= static_cast<double>(k);
  return {pooled.num_elements() * kernel, BytesMoved(op).bytes};
}

// ---- MaxPool
// ------------------------------------------------------------------

std::vector<Value> MaxPoolGradient(const GradientContext& g) {
  return {g.emit.Emit1("weft.MaxPoolGrad", {g.output_grads[0], g.inputs[0]},
                       PoolAttrsOf(g.op))};
}

constexpr double kLowest = -std::numeric_limits<double>::infinity();

std::vector<Value> DecomposeMaxPool(const OpView& op,
                                    absl::Span<const Value> inputs,
                                    NodeEmitter& emit) {
  Window2d w = *PoolWindow(op, op.input(0).shape);
  Expr windows = Windows(Expr(emit, inputs[0]), w, kLowest);
  return {
      Apply("ReduceMax", {windows}, {{"axes", Ints{2, 3}}, {"keepdims", 0}})};
}

absl::Status InferMaxPoolGrad(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireSameDType(op, 0, 1));
  WEFT_ASSIGN_OR_RETURN(Shape x, InferImage(op, 1));
  WEFT_ASSIGN_OR_RETURN(Shape y, InferPooledShape(op, x));
  WEFT_RETURN_IF_ERROR(RequireShape(op, 0, y));
  *out = {op.input(1)};
  return absl::OkStatus();
}

// Each window passes its gradient to its first maximum: a mask, by comparing
// the kernel positions with that of the maximum. (Where all of a window is
// -inf, padding may be the first, and takes it.)
std::vector<Value> DecomposeMaxPoolGrad(const OpView& op,
                                        absl::Span<const Value> inputs,
                                        NodeEmitter& emit) {
  const Shape& x = op.input(1).shape;
  Window2d w = *PoolWindow(op, x);
  int64_t n = x.dim(0), c = x.dim(1), kernel = w.kernel[0] * w.kernel[1];
  Expr windows = ReshapeTo(Windows(Expr(emit, inputs[1]), w, kLowest),
                           {n, c, kernel, w.out[0], w.out[1]});
  Expr first = Apply("ArgMax", {windows}, {{"axis", 2}, {"keepdims", 1}});
  Expr position(emit, emit.Emit1("weft.Iota", {},
                                 {{"shape", Ints{kernel, 1, 1}},
                                  {"dtype", DType::kI64},
                                  {"axis", 0}}));
  Expr dy = ReshapeTo(Expr(emit, inputs[0]), {n, c, 1, w.out[0], w.out[1]});
  Expr grads = Where(Apply("Equal", {position, first}), dy, dy.Like(0.0));
  return {FoldWindows(
      ReshapeTo(grads, {n, c, w.kernel[0], w.kernel[1], w.out[0], w.out[1]}),
      w)};
}

// ---- AveragePool
// ----------------------------------------------------------------

// How many elements window o averages along dimension d. Padding counts with
// count_include_pad; what ceil_mode overhangs never does.
int64_t CountAlong(const Window2d& w, int d, int64_t o, bool include_pad) {
  int64_t begin = o * w.stride[d] - w.pad_begin[d];
  int64_t end = begin + w.kernel[d];
  if (include_pad) return std::min(end, w.in[d] + w.pad_end[d]) - begin;
  return std::min(end, w.in[d]) - std::max<int64_t>(begin, 0);
}

// The divisors of all windows, [oH,oW].
Value WindowCounts(const OpView& op, const Window2d& w, NodeEmitter& emit) {
  bool include_pad = op.Int("count_include_pad") != 0;
  std::vector<double> counts;
  counts.reserve(w.out[0] * w.out[1]);
  for (int64_t i = 0; i < w.out[0]; ++i) {
    double rows = static_cast<double>(CountAlong(w, 0, i, include_pad));
    for (int64_t j = 0; j < w.out[1]; ++j) {
      counts.push_back(rows * CountAlong(w, 1, j, include_pad));
    }
  }
  return emit.Constant(
      Literal::FromDoubles({op.input(0).dtype, {w.out[0], w.out[1]}}, counts));
}

std::vector<Value> AveragePoolGradient(const GradientContext& g) {
  AttrMap attrs = PoolAttrsOf(g.op);
  attrs.Set("count_include_pad", g.op.Int("count_include_pad"));
  attrs.Set("input_shape", DimsOf(*InferImage(g.op, 0)));
  return {g.emit.Emit1("weft.AveragePoolGrad", {g.output_grads[0]},
                       std::move(attrs))};
}

std::vector<Value> DecomposeAveragePool(const OpView& op,
                                        absl::Span<const Value> inputs,
                                        NodeEmitter& emit) {
  Window2d w = *PoolWindow(op, op.input(0).shape);
  Expr windows = Windows(Expr(emit, inputs[0]), w, 0.0);
  return {Sum(windows, {2, 3}, /*keepdims=*/false) /
          Expr(emit, WindowCounts(op, w, emit))};
}

absl::Status InferAveragePoolGrad(const OpView& op,
                                  std::vector<TensorType>* out) {
  WEFT_ASSIGN_OR_RETURN(Shape x, ShapeAttr(op, "input_shape"));
  WEFT_ASSIGN_OR_RETURN(Shape y, InferPooledShape(op, x));
  WEFT_RETURN_IF_ERROR(RequireShape(op, 0, y));
  WEFT_ASSIGN_OR_RETURN(ImageLayout layout, LayoutOf(op));
  WEFT_ASSIGN_OR_RETURN(Shape stored, StoredShape(op, layout, x));
  *out = {{op.input(0).dtype, stored}};
  return absl::OkStatus();
}

std::vector<Value> DecomposeAveragePoolGrad(const OpView& op,
                                            absl::Span<const Value> inputs,
                                            NodeEmitter& emit) {
  Shape x(op.Ints("input_shape"));
  Window2d w = *PoolWindow(op, x);
  Expr share = Expr(emit, inputs[0]) / Expr(emit, WindowCounts(op, w, emit));
  int64_t pixels = w.out[0] * w.out[1];
  Expr windows = StridedCopy(share, {{x.dim(0), x.dim(1) * pixels},
                                     {x.dim(1), pixels},
                                     {w.kernel[0], 0},
                                     {w.kernel[1], 0},
                                     {w.out[0], w.out[1]},
                                     {w.out[1], 1}});
  return {FoldWindows(windows, w)};
}

// ---- GlobalAveragePool
// ----------------------------------------------------------

// The spatial dimensions of an image [N,C,...] or, in blocks of channels, of
// [N,C/16,H,W,16].
Ints SpatialAxes(const Shape& x, ImageLayout layout) {
  if (layout == ImageLayout::kNchw16c) return {2, 3};
  Ints axes;
  for (int d = 2; d < x.rank(); ++d) axes.push_back(d);
  return axes;
}

absl::Status InferGlobalAveragePool(const OpView& op,
                                    std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
  const Shape& x = op.input(0).shape;
  if (x.rank() < 3) {
    return op.Error(ErrorCode::kShapeMismatch,
                    absl::StrCat("input ", x.ToString(),
                                 " is not [N,C,...] with at least one spatial "
                                 "dimension"));
  }
  WEFT_ASSIGN_OR_RETURN(ImageLayout layout, LayoutOf(op));
  WEFT_RETURN_IF_ERROR(ImageShape(op, 0, layout).status());
  Ints dims = DimsOf(x);
  for (int64_t d : SpatialAxes(x, layout)) dims[d] = 1;
  *out = {{op.input(0).dtype, Shape(dims)}};
  return absl::OkStatus();
}

std::vector<Value> GlobalAveragePoolGradient(const GradientContext& g) {
  const Shape& x = g.op.input(0).shape;
  double pixels = 1;
  for (int64_t d : SpatialAxes(x, *LayoutOf(g.op))) {
    pixels *= static_cast<double>(x.dim(d));
  }
  return {ExpandTo(Expr(g.emit, g.output_grads[0]) * (1.0 / pixels), x)};
}

std::vector<Value> DecomposeGlobalAveragePool(const OpView& op,
                                              absl::Span<const Value> inputs,
                                              NodeEmitter& emit) {
  return {Apply("ReduceMean", {Expr(emit, inputs[0])},
                {{"axes", SpatialAxes(op.input(0).shape, ImageLayout::kNchw)},
                 {"keepdims", 1}})};
}

// ---- Registration
// -----------------------------------------------------------------

void AddMaxPool(OpRegistry* registry) {
  OpSchema pool(OpId::kMaxPool);
  pool.inputs = {1, 1};
  pool.attrs = PoolAttrs();
  pool.signatures = PoolSignatures;
  pool.infer = InferPool;
  pool.gradient = MaxPoolGradient;
  pool.decompose = DecomposeInNchw(DecomposeMaxPool);
  pool.cost = [](const OpView& op) { return PoolCost(op, op.output(0).shape); };
  registry->Add(std::move(pool));

  OpSchema grad(OpId::kMaxPoolGrad);
  grad.inputs = {2, 2};
  grad.attrs = PoolAttrs();
  grad.signatures = PoolSignatures;
  grad.infer = InferMaxPoolGrad;
  grad.decompose = DecomposeInNchw(DecomposeMaxPoolGrad);
  grad.cost = [](const OpView& op) { return PoolCost(op, op.input(0).shape); };
  registry->Add(std::move(grad));
}

void AddAveragePool(OpRegistry* registry) {
  OpSchema pool(OpId::kAveragePool);
  pool.inputs = {1, 1};
  pool.attrs = AveragePoolAttrs();
  pool.signatures = PoolSignatures;
  pool.infer = InferPool;
  pool.gradient = AveragePoolGradient;
  pool.decompose = DecomposeInNchw(DecomposeAveragePool);
  pool.cost = [](const OpView& op) { return PoolCost(op, op.output(0).shape); };
  registry->Add(std::move(pool));

  OpSchema grad(OpId::kAveragePoolGrad);
  grad.inputs = {1, 1};
  grad.attrs = AveragePoolAttrs();
  grad.attrs.push_back(AttrSpec::Required("input_shape", AttrKind::kInts));
  grad.signatures = PoolSignatures;
  grad.local_attrs = LocalDimOf("input_shape");
  grad.infer = InferAveragePoolGrad;
  grad.decompose = DecomposeInNchw(DecomposeAveragePoolGrad);
  grad.cost = [](const OpView& op) { return PoolCost(op, op.input(0).shape); };
  registry->Add(std::move(grad));
}

}  // namespace

void RegisterPoolOps(OpRegistry* registry) {
  AddMaxPool(registry);
  AddAveragePool(registry);

  OpSchema global(OpId::kGlobalAveragePool);
  global.inputs = {1, 1};
  global.attrs = {LayoutSpec()};
  global.signatures = PoolSignatures;
  global.infer = InferGlobalAveragePool;
  global.gradient = GlobalAveragePoolGradient;
  global.decompose = DecomposeInNchw(DecomposeGlobalAveragePool);
  global.cost = [](const OpView& op) {
    return Cost{static_cast<double>(op.input(0).shape.num_elements()),
                BytesMoved(op).bytes};
  };
  registry->Add(std::move(global));
}

}  // namespace weft
