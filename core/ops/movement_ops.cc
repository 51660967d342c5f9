// The primitives of data movement: Gather and its gradient (scatter-add),
// strided copies, iota, and room for what others write.
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/expr.h"
#include "core/ops/families.h"
#include "core/ops/family_signatures.h"
#include "core/ops/infer.h"
#include "core/ops/signature_rules.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;

// What Gather gives: `data` with `axis` replaced by the indices' dimensions.
Shape GatheredShape(const Shape& data, const Shape& indices, int axis) {
  Ints dims(data.dims().begin(), data.dims().begin() + axis);
  dims.insert(dims.end(), indices.dims().begin(), indices.dims().end());
  dims.insert(dims.end(), data.dims().begin() + axis + 1, data.dims().end());
  return Shape(dims);
}

absl::Status InferGather(const OpView& op, std::vector<TensorType>* out) {
  const TensorType& data = op.input(0);
  WEFT_RETURN_IF_ERROR(RequireIndices(op, 1));
  WEFT_ASSIGN_OR_RETURN(int axis, AxisAttr(op, "axis", data.shape.rank()));
  Shape shape = GatheredShape(data.shape, op.input(1).shape, axis);
  if (data.shape.dim(axis) == 0 && op.input(1).shape.num_elements() > 0) {
    return op.Error(
        ErrorCode::kShapeMismatch,
        absl::StrCat("axis ", axis, " of ", data.ToString(),
                     " is empty, indices are ", op.input(1).ToString()));
  }
  *out = {{data.dtype, shape}};
  return absl::OkStatus();
}

// Reads what it gives, whatever the size of the data.
Cost GatherCost(const OpView& op) {
  double moved = 2.0 * static_cast<double>(op.output(0).num_bytes());
  return {0, moved + static_cast<double>(op.input(1).num_bytes())};
}

OpSchema MakeGather() {
  OpSchema schema(OpId::kGather);
  schema.inputs = {2, 2};
  schema.attrs = {AttrSpec::Default("axis", 0)};
  schema.signatures = GatherSignatures;
  schema.infer = InferGather;
  schema.cost = GatherCost;
  schema.gradient = [](const GradientContext& g) -> std::vector<Value> {
    Value ddata =
        g.emit.Emit1("weft.GatherGrad", {g.output_grads[0], g.inputs[1]},
                     {{"axis", g.op.Get("axis")},
                      {"input_shape", DimsOf(g.op.input(0).shape)}});
    return {ddata, Value{}};
  };
  return schema;
}

absl::Status InferGatherGrad(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
  WEFT_RETURN_IF_ERROR(RequireIndices(op, 1));
  WEFT_ASSIGN_OR_RETURN(Shape data, ShapeAttr(op, "input_shape"));
  WEFT_ASSIGN_OR_RETURN(int axis, AxisAttr(op, "axis", data.rank()));
  WEFT_RETURN_IF_ERROR(
      RequireShape(op, 0, GatheredShape(data, op.input(1).shape, axis)));
  *out = {{op.input(0).dtype, data}};
  return absl::OkStatus();
}

OpSchema MakeGatherGrad() {
  OpSchema schema(OpId::kGatherGrad);
  schema.inputs = {2, 2};
  schema.attrs = {AttrSpec::Default("axis", 0),
                  AttrSpec::Required("input_shape", AttrKind::kInts)};
  schema.signatures = GatherGradSignatures;
  schema.local_attrs = LocalDimOf("input_shape");
  schema.infer = InferGatherGrad;
  schema.cost = [](const OpView& op) {
    double adds = static_cast<double>(op.input(0).shape.num_elements());
    return Cost{adds, BytesMoved(op).bytes};
  };
  schema.gradient = [](const GradientContext& g) -> std::vector<Value> {
    Value ddy = g.emit.Emit1("Gather", {g.output_grads[0], g.inputs[1]},
                             {{"axis", g.op.Get("axis")}});
    return {ddy, Value{}};
  };
  return schema;
}

// Positions in 128 bits: strides come from outside and must not overflow.
absl::Status InferStridedCopy(const OpView& op, std::vector<TensorType>* out) {
  WEFT_ASSIGN_OR_RETURN(Shape shape, ShapeAttr(op, "shape"));
  const Ints& strides = op.Ints("strides");
  if (static_cast<int>(strides.size()) != shape.rank()) {
    return op.Error(
        ErrorCode::kBadAttribute,
        absl::StrCat("shape ", shape.ToString(), " and strides ",
                     ToString(op.Get("strides")), " differ in length"));
  }
  __int128 first = op.Int("offset"), last = first;
  for (int d = 0; d < shape.rank(); ++d) {
    __int128 reach = static_cast<__int128>(shape.dim(d) - 1) * strides[d];
    (reach < 0 ? first : last) += reach;
  }
  bool empty = shape.num_elements() == 0;
  if (!empty && (first < 0 || last >= op.input(0).shape.num_elements())) {
    return op.Error(ErrorCode::kShapeMismatch,
                    absl::StrCat("shape ", shape.ToString(), ", strides ",
                                 ToString(op.Get("strides")), " and offset ",
                                 op.Int("offset"), " reach outside of ",
                                 op.input(0).ToString()));
  }
  *out = {{op.input(0).dtype, shape}};
  return absl::OkStatus();
}

// dx[k] is the sum of dy over all positions that read k: a scatter-add of the
// flattened tensors.
Value StridedCopyGradient(const GradientContext& g) {
  const Shape& from = g.op.input(0).shape;
  const Shape& to = g.op.output(0).shape;
  const Ints& strides = g.op.Ints("strides");
  Ints positions(to.num_elements(), g.op.Int("offset"));
  absl::InlinedVector<int64_t, 4> dense = to.Strides();
  for (size_t i = 0; i < positions.size(); ++i) {
    for (int d = 0; d < to.rank(); ++d) {
      int64_t at = static_cast<int64_t>(i) / dense[d] % to.dim(d);
      positions[i] += at * strides[d];
    }
  }
  Shape flat({to.num_elements()});
  Value index = g.emit.Constant(Literal::Of(flat, std::move(positions)));
  Expr dy = ReshapeTo(Expr(g.emit, g.output_grads[0]), flat);
  Expr dx = Apply("weft.GatherGrad", {dy, Expr(g.emit, index)},
                  {{"axis", 0}, {"input_shape", Ints{from.num_elements()}}});
  return ReshapeTo(dx, from);
}

OpSchema MakeStridedCopy() {
  OpSchema schema(OpId::kStridedCopy);
  schema.inputs = {1, 1};
  schema.attrs = {AttrSpec::Required("shape", AttrKind::kInts),
                  AttrSpec::Required("strides", AttrKind::kInts),
                  AttrSpec::Default("offset", 0)};
  schema.signatures = StridedCopySignatures;
  schema.local_attrs = LocalStridedCopyAttrs;
  schema.infer = InferStridedCopy;
  schema.cost = [](const OpView& op) {
    return Cost{0, 2.0 * static_cast<double>(op.output(0).num_bytes())};
  };
  schema.gradient = [](const GradientContext& g) {
    return std::vector<Value>{StridedCopyGradient(g)};
  };
  return schema;
}

OpSchema MakeIota() {
  OpSchema schema(OpId::kIota);
  schema.attrs = {AttrSpec::Required("shape", AttrKind::kInts),
                  AttrSpec::Required("dtype", AttrKind::kDType),
                  AttrSpec::Default("axis", 0)};
  schema.signatures = IotaSignatures;
  schema.local_attrs = LocalResultShape("shape");
  schema.infer = [](const OpView& op, std::vector<TensorType>* out) {
    WEFT_ASSIGN_OR_RETURN(Shape shape, ShapeAttr(op, "shape"));
    WEFT_RETURN_IF_ERROR(AxisAttr(op, "axis", shape.rank()).status());
    DType dtype = op.Type("dtype");
    if (!IsFloat(dtype) && !IsInteger(dtype)) {
      return op.Error(ErrorCode::kBadAttribute,
                      absl::StrCat("attribute 'dtype' must be numeric, got ",
                                   DTypeName(dtype)));
    }
    *out = {{dtype, shape}};
    return absl::OkStatus();
  };
  schema.gradient = ZeroGradient;
  return schema;
}

OpSchema MakeEmpty() {
  OpSchema schema(OpId::kEmpty);
  schema.inputs = {1, 1};
  // Two of the same shape are not one: each has bytes of its own.
  schema.effect = OpEffect::kRandom;
  schema.attrs = {AttrSpec::Required("shape", AttrKind::kInts)};
  schema.infer = [](const OpView& op, std::vector<TensorType>* out) {
    WEFT_ASSIGN_OR_RETURN(Shape shape, ShapeAttr(op, "shape"));
    *out = {{op.input(0).dtype, shape}};
    return absl::OkStatus();
  };
  schema.cost = [](const OpView&) { return Cost{}; };
  schema.decompose = [](const OpView& op, absl::Span<const Value>,
                        NodeEmitter& emit) {
    const Value zero = emit.Scalar(0, op.input(0).dtype);
    return std::vector<Value>{
        emit.Emit1("Expand", {zero}, {{"shape", op.Get("shape")}})};
  };
  return schema;
}

}  // namespace

void RegisterMovementOps(OpRegistry* registry) {
  registry->Add(MakeGather());
  registry->Add(MakeGatherGrad());
  registry->Add(MakeStridedCopy());
  registry->Add(MakeIota());
  registry->Add(MakeEmpty());
}

}  // namespace weft
