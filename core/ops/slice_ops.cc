// Ops that cut tensors and put them together: Slice, Split, Concat, Pad. Slices
// are copies with strides; Concat and Pad are gathers with constant indices,
// because a stride cannot leave the tensor that it reads.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/expr.h"
#include "core/ops/families.h"
#include "core/ops/family_signatures.h"
#include "core/ops/infer.h"
#include "core/ops/slice.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;

// --- Slice ------------------------------------------------------------------

Expr Slice(const Expr& x, const SliceSpec& spec) {
  Ints shape, strides, dense = StridesOf(x.shape());
  int64_t offset = 0;
  for (size_t d = 0; d < dense.size(); ++d) {
    shape.push_back(spec.extent[d]);
    strides.push_back(dense[d] * spec.step[d]);
    offset += dense[d] * spec.start[d];
  }
  bool empty = std::count(shape.begin(), shape.end(), 0) > 0;
  return CopyStrided(x, std::move(shape), std::move(strides),
                     empty ? 0 : offset);
}

// The inverse of a step: dy scattered along `axis` to where it came from.
Expr ScatterAxis(const Expr& dy, const SliceSpec& spec, int axis,
                 const Shape& target) {
  Ints indices;
  for (int64_t i = 0; i < spec.extent[axis]; ++i) {
    indices.push_back(spec.start[axis] + i * spec.step[axis]);
  }
  Shape shape({spec.extent[axis]});
  Value index = dy.emit().Constant(Literal::Of(shape, std::move(indices)));
  return Apply("weft.GatherGrad", {dy, Expr(dy.emit(), index)},
               {{"axis", axis}, {"input_shape", DimsOf(target)}});
}

// Steps of 1 pad with zeros, all at once; other steps scatter, axis by axis.
Value SliceGradient(const Expr& dy, const SliceSpec& spec, const Shape& from) {
  int rank = from.rank();
  Expr dx = dy;
  Ints pads(2 * rank, 0);
  Ints dims = spec.extent;
  for (int d = 0; d < rank; ++d) {
    if (spec.step[d] == 1 && spec.extent[d] > 0) {
      pads[d] = spec.start[d];
      pads[rank + d] = from.dim(d) - spec.start[d] - spec.extent[d];
    } else {
      dims[d] = from.dim(d);
      dx = ScatterAxis(dx, spec, d, Shape(dims));
    }
  }
  if (std::count(pads.begin(), pads.end(), 0) ==
      static_cast<int64_t>(pads.size())) {
    return dx;
  }
  return Apply("Pad", {dx}, {{"pads", std::move(pads)}});
}

OpSchema MakeSlice() {
  OpSchema schema(OpId::kSlice);
  schema.inputs = {1, 1};
  schema.attrs = {AttrSpec::Required("starts", AttrKind::kInts),
                  AttrSpec::Required("ends", AttrKind::kInts),
                  AttrSpec::Default("axes", Ints{}),
                  AttrSpec::Default("steps", Ints{})};
  schema.signatures = SliceSignatures;
  schema.local_attrs = LocalSliceAttrs;
  schema.infer = [](const OpView& op, std::vector<TensorType>* out) {
    WEFT_ASSIGN_OR_RETURN(SliceSpec spec, SliceSpec::FromOp(op));
    *out = {{op.input(0).dtype, Shape(spec.extent)}};
    return absl::OkStatus();
  };
  schema.gradient = [](const GradientContext& g) {
    Expr dy(g.emit, g.output_grads[0]);
    return std::vector<Value>{
        SliceGradient(dy, *SliceSpec::FromOp(g.op), g.op.input(0).shape)};
  };
  schema.decompose = [](const OpView& op, absl::Span<const Value> inputs,
                        NodeEmitter& emit) {
    return std::vector<Value>{
        Slice(Expr(emit, inputs[0]), *SliceSpec::FromOp(op))};
  };
  return schema;
}

// --- Split ------------------------------------------------------------------

absl::Status InferSplit(const OpView& op, std::vector<TensorType>* out) {
  const TensorType& x = op.input(0);
  WEFT_ASSIGN_OR_RETURN(int axis, AxisAttr(op, "axis", x.shape.rank()));
  const Ints& split = op.Ints("split");
  int64_t left = x.shape.dim(axis);
  for (int64_t extent : split) {
    // Checked one by one, so that the sum cannot overflow.
    if (extent < 0 || extent > left) left = -1;
    if (left < 0) break;
    left -= extent;
    Ints dims = DimsOf(x.shape);
    dims[axis] = extent;
    out->push_back({x.dtype, Shape(dims)});
  }
  if (left != 0) {
    return op.Error(
        ErrorCode::kShapeMismatch,
        absl::StrCat("split ", ToString(op.Get("split")),
                     " does not add up to axis ", axis, " of ", x.ToString()));
  }
  return absl::OkStatus();
}

OpSchema MakeSplit() {
  OpSchema schema(OpId::kSplit);
  schema.inputs = {1, 1};
  schema.outputs = {1, kVariadic};
  schema.attrs = {AttrSpec::Default("axis", 0),
                  AttrSpec::Required("split", AttrKind::kInts)};
  schema.signatures = SplitSignatures;
  schema.local_attrs = LocalSplitAttrs;
  schema.infer = InferSplit;
  schema.gradient = [](const GradientContext& g) {
    std::vector<Expr> parts;
    for (size_t i = 0; i < g.output_grads.size(); ++i) {
      Expr part(g.emit, g.output_grads[i]);
      if (!part.valid()) {
        const TensorType& type = g.op.output(static_cast<int>(i));
        part = ExpandTo(Expr(g.emit, g.emit.Scalar(0, type.dtype)), type.shape);
      }
      parts.push_back(part);
    }
    return std::vector<Value>{
        Apply("Concat", parts, {{"axis", g.op.Get("axis")}})};
  };
  schema.decompose = [](const OpView& op, absl::Span<const Value> inputs,
                        NodeEmitter& emit) {
    const Shape& from = op.input(0).shape;
    int axis = *AxisAttr(op, "axis", from.rank());
    SliceSpec spec = SliceSpec::Whole(from);
    std::vector<Value> parts;
    for (int64_t extent : op.Ints("split")) {
      spec.extent[axis] = extent;
      parts.push_back(Slice(Expr(emit, inputs[0]), spec));
      spec.start[axis] += extent;
    }
    return parts;
  };
  return schema;
}

// --- Concat -----------------------------------------------------------------

// Reads `x` along `axis` at begin + 0, 1, ... count - 1, where positions
// outside are moved to the nearest one inside. Pre-condition: x is not empty
// along it.
Expr ClampedWindow(const Expr& x, int axis, int64_t begin, int64_t count) {
  int64_t last = x.shape().dim(axis) - 1;
  Ints indices;
  for (int64_t i = 0; i < count; ++i) {
    indices.push_back(std::min(std::max<int64_t>(begin + i, 0), last));
  }
  Value index =
      x.emit().Constant(Literal::Of(Shape({count}), std::move(indices)));
  return Apply("Gather", {x, Expr(x.emit(), index)}, {{"axis", axis}});
}

// A bool mask that is true at [begin, end) of `axis` and broadcasts to `rank`.
Expr Interval(NodeEmitter& emit, int rank, int axis, int64_t extent,
              int64_t begin, int64_t end) {
  Ints dims(rank, 1);
  dims[axis] = extent;
  std::vector<double> inside(extent);
  for (int64_t i = 0; i < extent; ++i) inside[i] = i >= begin && i < end;
  return Expr(emit, emit.Constant(Literal::FromDoubles(
                        {DType::kBool, Shape(dims)}, inside)));
}

absl::Status InferConcat(const OpView& op, std::vector<TensorType>* out) {
  TensorType type = op.input(0);
  WEFT_ASSIGN_OR_RETURN(int axis, AxisAttr(op, "axis", type.shape.rank()));
  Ints dims = DimsOf(type.shape);
  for (int i = 1; i < op.num_inputs(); ++i) {
    WEFT_RETURN_IF_ERROR(RequireSameDType(op, 0, i));
    Ints other = DimsOf(op.input(i).shape);
    if (other.size() == dims.size()) {
      dims[axis] += other[axis];
      other[axis] = dims[axis];
    }
    if (other != dims) {
      return op.Error(
          ErrorCode::kShapeMismatch,
          absl::StrCat("operands 0 and ", i, " differ outside of axis ", axis,
                       ": ", op.input(0).ToString(), " and ",
                       op.input(i).ToString()));
    }
  }
  *out = {{type.dtype, Shape(dims)}};
  return absl::OkStatus();
}

// Operands that a kernel of any device takes.
constexpr size_t kFewOperands = 32;

// Many become a tree of few; a device that has no kernel for few, either, gets
// windows.
Value ConcatInGroups(int axis, absl::Span<const Value> inputs,
                     NodeEmitter& emit) {
  std::vector<Value> groups;
  for (size_t i = 0; i < inputs.size(); i += kFewOperands) {
    const absl::Span<const Value> group = inputs.subspan(i, kFewOperands);
    groups.push_back(group.size() == 1
                         ? group[0]
                         : emit.Emit1("Concat", group, {{"axis", axis}}));
  }
  return emit.Emit1("Concat", groups, {{"axis", axis}});
}

// Every part is spread over the whole extent, then the one that owns a position
// is selected: exact for every dtype, -0 and NaN included.
Value DecomposeConcat(const OpView& op, absl::Span<const Value> inputs,
                      NodeEmitter& emit) {
  const Shape& to = op.output(0).shape;
  int axis = *AxisAttr(op, "axis", to.rank());
  if (inputs.size() > kFewOperands) return ConcatInGroups(axis, inputs, emit);
  int64_t begin = 0;
  Expr result(emit, {});
  for (int i = 0; i < op.num_inputs(); ++i) {
    int64_t extent = op.input(i).shape.dim(axis);
    if (extent == 0) continue;
    Expr part =
        ClampedWindow(Expr(emit, inputs[i]), axis, -begin, to.dim(axis));
    begin += extent;
    if (result.valid()) {
      Expr before =
          Interval(emit, to.rank(), axis, to.dim(axis), 0, begin - extent);
      part = Where(before, result, part);
    }
    result = part;
  }
  return result.valid() ? result : ReshapeTo(Expr(emit, inputs[0]), to);
}

OpSchema MakeConcat() {
  OpSchema schema(OpId::kConcat);
  schema.inputs = {1, kVariadic};
  schema.attrs = {AttrSpec::Required("axis", AttrKind::kInt)};
  schema.signatures = ConcatSignatures;
  schema.infer = [](const OpView& op, std::vector<TensorType>* out) {
    for (int i = 0; i < op.num_inputs(); ++i) {
      if (op.has_input(i)) continue;
      return op.Error(ErrorCode::kBadArity,
                      absl::StrCat("operand ", i, " is absent"));
    }
    return InferConcat(op, out);
  };
  schema.gradient = [](const GradientContext& g) {
    int axis = *AxisAttr(g.op, "axis", g.op.output(0).shape.rank());
    Ints split;
    for (int i = 0; i < g.op.num_inputs(); ++i) {
      split.push_back(g.op.input(i).shape.dim(axis));
    }
    int count = g.op.num_inputs();
    return g.emit.Emit("Split", {g.output_grads[0]},
                       {{"axis", axis}, {"split", std::move(split)}}, count);
  };
  schema.decompose = [](const OpView& op, absl::Span<const Value> inputs,
                        NodeEmitter& emit) {
    return std::vector<Value>{DecomposeConcat(op, inputs, emit)};
  };
  return schema;
}

// --- Pad -------------------------------------------------------------------

// Negative pads crop, as in ONNX.
absl::Status InferPad(const OpView& op, std::vector<TensorType>* out) {
  const Shape& from = op.input(0).shape;
  const Ints& pads = op.Ints("pads");
  int rank = from.rank();
  if (static_cast<int>(pads.size()) != 2 * rank) {
    return op.Error(ErrorCode::kBadAttribute,
                    absl::StrCat("pads ", ToString(op.Get("pads")),
                                 " must have two items for each axis of ",
                                 op.input(0).ToString()));
  }
  Ints dims = DimsOf(from);
  for (int d = 0; d < rank; ++d) {
    bool overflow = __builtin_add_overflow(dims[d], pads[d], &dims[d]) ||
                    __builtin_add_overflow(dims[d], pads[rank + d], &dims[d]);
    // Each side may at most crop all: what is left comes from the operand.
    bool beyond = pads[d] < -from.dim(d) || pads[rank + d] < -from.dim(d);
    if (overflow || beyond || dims[d] < 0) {
      return op.Error(
          ErrorCode::kShapeMismatch,
          absl::StrCat("pads ", ToString(op.Get("pads")), " do not fit axis ",
                       d, " of ", op.input(0).ToString()));
    }
  }
  *out = {{op.input(0).dtype, Shape(dims)}};
  return absl::OkStatus();
}

Value DecomposePad(const OpView& op, const Expr& x) {
  const Shape& from = op.input(0).shape;
  const Shape& to = op.output(0).shape;
  Expr fill = x.Like(op.Float("value"));
  if (from.num_elements() == 0) return ExpandTo(fill, to);
  const Ints& pads = op.Ints("pads");
  Expr y = x;
  for (int d = 0; d < from.rank(); ++d) {
    if (pads[d] == 0 && pads[from.rank() + d] == 0) continue;
    Expr inside = Interval(x.emit(), from.rank(), d, to.dim(d), pads[d],
                           pads[d] + from.dim(d));
    y = Where(inside, ClampedWindow(y, d, -pads[d], to.dim(d)), fill);
  }
  return y;
}

OpSchema MakePad() {
  OpSchema schema(OpId::kPad);
  schema.inputs = {1, 1};
  schema.attrs = {AttrSpec::Required("pads", AttrKind::kInts),
                  AttrSpec::Default("value", 0.0)};
  schema.signatures = PadSignatures;
  schema.infer = InferPad;
  schema.gradient = [](const GradientContext& g) {
    Ints undo = g.op.Ints("pads");
    for (int64_t& pad : undo) pad = -pad;
    Expr dy(g.emit, g.output_grads[0]);
    return std::vector<Value>{Apply("Pad", {dy}, {{"pads", std::move(undo)}})};
  };
  schema.decompose = [](const OpView& op, absl::Span<const Value> inputs,
                        NodeEmitter& emit) {
    return std::vector<Value>{DecomposePad(op, Expr(emit, inputs[0]))};
  };
  return schema;
}

}  // namespace

void RegisterSliceOps(OpRegistry* registry) {
  registry->Add(MakeSlice());
  registry->Add(MakeSplit());
  registry->Add(MakeConcat());
  registry->Add(MakePad());
}

}  // namespace weft
