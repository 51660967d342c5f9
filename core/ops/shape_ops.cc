// Ops that give all elements another shape or order: Reshape, Flatten, Squeeze,
// Unsqueeze, Transpose, Expand. Each is one copy with strides.
#include <algorithm>
#include <numeric>
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

// The gradient and the decomposition of an op that only renames dimensions.
OpSchema MakeView(OpId id) {
  OpSchema schema(id);
  schema.inputs = {1, 1};
  schema.signatures = ReshapeSignatures;
  // Other dimensions of the same bytes.
  schema.cost = [](const OpView&) { return Cost{}; };
  schema.gradient = [](const GradientContext& g) {
    Expr dy(g.emit, g.output_grads[0]);
    return std::vector<Value>{ReshapeTo(dy, g.op.input(0).shape)};
  };
  schema.decompose = [](const OpView& op, absl::Span<const Value> inputs,
                        NodeEmitter& emit) {
    const Shape& shape = op.output(0).shape;
    return std::vector<Value>{
        CopyStrided(Expr(emit, inputs[0]), DimsOf(shape), StridesOf(shape))};
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
  reshape.local_attrs = LocalResultShape("shape");
  registry->Add(std::move(reshape));

  OpSchema flatten = MakeView(OpId::kFlatten);
  flatten.attrs = {AttrSpec::Default("axis", 1)};
  flatten.infer = InferFlatten;
  registry->Add(std::move(flatten));

  OpSchema squeeze = MakeView(OpId::kSqueeze);
  squeeze.attrs = {AttrSpec::Default("axes", Ints{})};
  squeeze.infer = InferSqueeze;
  squeeze.local_attrs = LocalSqueezeAttrs;
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
  schema.signatures = TransposeSignatures;
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
    return std::vector<Value>{CopyStrided(
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
  schema.signatures = ExpandSignatures;
  schema.local_attrs = LocalExpandAttrs;
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
        CopyStrided(Expr(emit, inputs[0]), DimsOf(to), std::move(strides))};
  };
  return schema;
}

}  // namespace

void RegisterShapeOps(OpRegistry* registry) {
  RegisterViews(registry);
  registry->Add(MakeTranspose());
  registry->Add(MakeExpand());
}

}  // namespace weft
