// Ops that give the same elements another shape or order: Reshape, Flatten,
// Squeeze, Unsqueeze, Transpose, Expand, Slice, Split, Concat, Pad. All are
// copies with strides, or gathers with constant indices where a stride cannot
// say it.
#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/expr.h"
#include "core/ops/families.h"
#include "core/ops/infer.h"
#include "core/ops/slice.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;

Ints DimsOf(const Shape& shape) {
  return Ints(shape.dims().begin(), shape.dims().end());
}

Ints StridesOf(const Shape& shape) {
  absl::InlinedVector<int64_t, 4> strides = shape.Strides();
  return Ints(strides.begin(), strides.end());
}

Expr StridedCopy(const Expr& x, Ints shape, Ints strides, int64_t offset = 0) {
  return Apply("weft.StridedCopy", {x},
               {{"shape", std::move(shape)},
                {"strides", std::move(strides)},
                {"offset", offset}});
}

Expr Slice(const Expr& x, const SliceSpec& spec) {
  Ints shape, strides, dense = StridesOf(x.shape());
  int64_t offset = 0;
  for (size_t d = 0; d < dense.size(); ++d) {
    shape.push_back(spec.extent[d]);
    strides.push_back(dense[d] * spec.step[d]);
    offset += dense[d] * spec.start[d];
  }
  bool empty = std::count(shape.begin(), shape.end(), 0) > 0;
  return StridedCopy(x, std::move(shape), std::move(strides),
                     empty ? 0 : offset);
}

// The gradient and the decomposition of an op that only renames dimensions.
OpSchema MakeView(OpId id) {
  OpSchema schema(id);
  schema.inputs = {1, 1};
  schema.gradient = [](const GradientContext& g) {
    Expr dy(g.emit, g.output_grads[0]);
    return std::vector<Value>{ReshapeTo(dy, g.op.input(0).shape)};
  };
  schema.decompose = [](const OpView& op, absl::Span<const Value> inputs,
                        NodeEmitter& emit) {
    const Shape& shape = op.output(0).shape;
    return std::vector<Value>{
        StridedCopy(Expr(emit, inputs[0]), DimsOf(shape), StridesOf(shape))};
  };
  return schema;
}

// --- Reshape, Flatten, Squeeze, Unsqueeze ----------------------------------

// Replaces 0 by the operand's extent and -1 by what is left over.
absl::Status InferReshape(const OpView& op, std::vector<TensorType>* out) {
  const Shape& from = op.input(0).shape;
  Ints dims = op.Ints("shape");
  auto fail = [&](ErrorCode code, absl::string_view why) {
    return op.Error(code,
                    absl::StrCat("cannot reshape ", from.ToString(), " to ",
                                 ToString(op.Get("shape")), ": ", why));
  };
  int unknown = -1;
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
    if (dims[d] == 0) {
      if (d >= from.rank()) {
        return fail(ErrorCode::kBadAttribute,
                    absl::StrCat("0 copies dimension ", d, ", which it lacks"));
      }
      dims[d] = from.dim(d);
    } else if (dims[d] == -1) {
      if (unknown >= 0) return fail(ErrorCode::kBadAttribute, "two are -1");
      unknown = d;
      dims[d] = 1;
    } else if (dims[d] < -1) {
      return fail(ErrorCode::kBadAttribute, "an extent is negative");
    }
  }
  absl::StatusOr<Shape> known = Shape::Create(dims);
  if (!known.ok()) return fail(ErrorCode::kBadAttribute, "it is too large");
  int64_t elements = from.num_elements();
  if (unknown >= 0) {
    int64_t rest = known->num_elements();
    if (rest == 0) return fail(ErrorCode::kShapeMismatch, "-1 is ambiguous");
    if (elements % rest == 0) dims[unknown] = elements / rest;
  }
  Shape shape(dims);
  if (shape.num_elements() != elements) {
    return fail(ErrorCode::kShapeMismatch, "another number of elements");
  }
  *out = {{op.input(0).dtype, shape}};
  return absl::OkStatus();
}

absl::Status InferFlatten(const OpView& op, std::vector<TensorType>* out) {
  const Shape& from = op.input(0).shape;
  int64_t axis = op.Int("axis");
  if (axis < -from.rank() || axis > from.rank()) {
    return op.Error(ErrorCode::kBadAttribute,
                    absl::StrCat("axis ", axis, " is out of range for ",
                                 op.input(0).ToString()));
  }
  if (axis < 0) axis += from.rank();
  int64_t rows = 1, columns = 1;
  for (int d = 0; d < from.rank(); ++d) {
    (d < axis ? rows : columns) *= from.dim(d);
  }
  *out = {{op.input(0).dtype, {rows, columns}}};
  return absl::OkStatus();
}

// No axes: every dimension of extent 1.
absl::Status InferSqueeze(const OpView& op, std::vector<TensorType>* out) {
  const Shape& from = op.input(0).shape;
  WEFT_ASSIGN_OR_RETURN(std::vector<int> axes,
                        AxesAttr(op, "axes", from.rank()));
  bool all = axes.empty();
  Ints dims;
  for (int d = 0; d < from.rank(); ++d) {
    bool named = std::binary_search(axes.begin(), axes.end(), d);
    if (named && from.dim(d) != 1) {
      return op.Error(
          ErrorCode::kShapeMismatch,
          absl::StrCat("cannot squeeze axis ", d, " of ",
                       op.input(0).ToString(), ": its extent is not 1"));
    }
    if (!named && !(all && from.dim(d) == 1)) dims.push_back(from.dim(d));
  }
  *out = {{op.input(0).dtype, Shape(dims)}};
  return absl::OkStatus();
}

// The axes are positions in the result.
absl::Status InferUnsqueeze(const OpView& op, std::vector<TensorType>* out) {
  const Shape& from = op.input(0).shape;
  int rank = from.rank() + static_cast<int>(op.Ints("axes").size());
  WEFT_ASSIGN_OR_RETURN(std::vector<int> axes, AxesAttr(op, "axes", rank));
  Ints dims;
  int next = 0;
  for (int d = 0; d < rank; ++d) {
    bool added = std::binary_search(axes.begin(), axes.end(), d);
    dims.push_back(added ? 1 : from.dim(next++));
  }
  *out = {{op.input(0).dtype, Shape(dims)}};
  return absl::OkStatus();
}

void RegisterViews(OpRegistry* registry) {
  OpSchema reshape = MakeView(OpId::kReshape);
  reshape.attrs = {AttrSpec::Required("shape", AttrKind::kInts)};
  reshape.infer = InferReshape;
  registry->Add(std::move(reshape));

  OpSchema flatten = MakeView(OpId::kFlatten);
  flatten.attrs = {AttrSpec::Default("axis", 1)};
  flatten.infer = InferFlatten;
  registry->Add(std::move(flatten));

  OpSchema squeeze = MakeView(OpId::kSqueeze);
  squeeze.attrs = {AttrSpec::Default("axes", Ints{})};
  squeeze.infer = InferSqueeze;
  registry->Add(std::move(squeeze));

  OpSchema unsqueeze = MakeView(OpId::kUnsqueeze);
  unsqueeze.attrs = {AttrSpec::Required("axes", AttrKind::kInts)};
  unsqueeze.infer = InferUnsqueeze;
  registry->Add(std::move(unsqueeze));
}

// --- Transpose -------------------------------------------------------------

// The `perm` attribute, or the reversal that its absence means.
absl::StatusOr<Ints> Permutation(const OpView& op) {
  int rank = op.input(0).shape.rank();
  Ints reversed(rank);
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  if (!op.Has("perm")) return reversed;
  Ints perm = op.Ints("perm");
  Ints sorted = perm;
  std::sort(sorted.rbegin(), sorted.rend());
  if (sorted != reversed) {
    return op.Error(ErrorCode::kBadAttribute,
                    absl::StrCat("perm ", ToString(op.Get("perm")),
                                 " is no permutation of the axes of ",
                                 op.input(0).ToString()));
  }
  return perm;
}

OpSchema MakeTranspose() {
  OpSchema schema(OpId::kTranspose);
  schema.inputs = {1, 1};
  schema.attrs = {AttrSpec::Optional("perm", AttrKind::kInts)};
  schema.infer = [](const OpView& op, std::vector<TensorType>* out) {
    WEFT_ASSIGN_OR_RETURN(Ints perm, Permutation(op));
    Ints dims;
    for (int64_t axis : perm) dims.push_back(op.input(0).shape.dim(axis));
    *out = {{op.input(0).dtype, Shape(dims)}};
    return absl::OkStatus();
  };
  schema.gradient = [](const GradientContext& g) {
    Ints perm = *Permutation(g.op);
    Ints inverse(perm.size());
    for (size_t d = 0; d < perm.size(); ++d) {
      inverse[perm[d]] = static_cast<int64_t>(d);
    }
    Expr dy(g.emit, g.output_grads[0]);
    return std::vector<Value>{
        Apply("Transpose", {dy}, {{"perm", std::move(inverse)}})};
  };
  schema.decompose = [](const OpView& op, absl::Span<const Value> inputs,
                        NodeEmitter& emit) {
    Ints perm = *Permutation(op);
    Ints dense = StridesOf(op.input(0).shape), strides;
    for (int64_t axis : perm) strides.push_back(dense[axis]);
    return std::vector<Value>{StridedCopy(
        Expr(emit, inputs[0]), DimsOf(op.output(0).shape), std::move(strides))};
  };
  return schema;
}

// --- Expand ----------------------------------------------------------------

// As in ONNX, the result is the broadcast of both shapes: an extent of 1 in the
// attribute keeps the operand's.
OpSchema MakeExpand() {
  OpSchema schema(OpId::kExpand);
  schema.inputs = {1, 1};
  schema.attrs = {AttrSpec::Required("shape", AttrKind::kInts)};
  schema.infer = [](const OpView& op, std::vector<TensorType>* out) {
    WEFT_ASSIGN_OR_RETURN(Shape wanted, ShapeAttr(op, "shape"));
    absl::StatusOr<Shape> shape = BroadcastShapes(op.input(0).shape, wanted);
    if (!shape.ok()) {
      return op.Error(ErrorCode::kShapeMismatch, shape.status().message());
    }
    *out = {{op.input(0).dtype, *shape}};
    return absl::OkStatus();
  };
  schema.gradient = [](const GradientContext& g) {
    Expr dy(g.emit, g.output_grads[0]);
    return std::vector<Value>{SumTo(dy, g.op.input(0).shape)};
  };
  schema.decompose = [](const OpView& op, absl::Span<const Value> inputs,
                        NodeEmitter& emit) {
    const Shape& from = op.input(0).shape;
    const Shape& to = op.output(0).shape;
    Ints dense = StridesOf(from);
    Ints strides(to.rank(), 0);
    int extra = to.rank() - from.rank();
    for (int d = 0; d < from.rank(); ++d) {
      if (from.dim(d) != 1) strides[extra + d] = dense[d];
    }
    return std::vector<Value>{
        StridedCopy(Expr(emit, inputs[0]), DimsOf(to), std::move(strides))};
  };
  return schema;
}

// --- Slice, Split, Concat --------------------------------------------------

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

// Every part is spread over the whole extent, then the one that owns a position
// is selected: exact for every dtype, -0 and NaN included.
Value DecomposeConcat(const OpView& op, absl::Span<const Value> inputs,
                      NodeEmitter& emit) {
  const Shape& to = op.output(0).shape;
  int axis = *AxisAttr(op, "axis", to.rank());
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

void RegisterShapeOps(OpRegistry* registry) {
  RegisterViews(registry);
  registry->Add(MakeTranspose());
  registry->Add(MakeExpand());
  registry->Add(MakeSlice());
  registry->Add(MakeSplit());
  registry->Add(MakeConcat());
  registry->Add(MakePad());
}

}  // namespace weft
