// Reductions. `axes` empty means all of them; a reduced dimension stays as 1
// where `keepdims` is 1. A scalar reduces to itself.
#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/tree_fold.h"
#include "core/ops/expr.h"
#include "core/ops/families.h"
#include "core/ops/family_signatures.h"
#include "core/ops/infer.h"
#include "core/types/reductions.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;

absl::StatusOr<std::vector<int>> ReducedAxes(const OpView& op) {
  int rank = op.input(0).shape.rank();
  WEFT_ASSIGN_OR_RETURN(std::vector<int> axes, AxesAttr(op, "axes", rank));
  if (axes.empty()) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  return axes;
}

Shape ReducedShape(const Shape& from, const std::vector<int>& axes,
                   bool keepdims) {
  Ints dims;
  for (int d = 0; d < from.rank(); ++d) {
    if (!std::binary_search(axes.begin(), axes.end(), d)) {
      dims.push_back(from.dim(d));
    } else if (keepdims) {
      dims.push_back(1);
    }
  }
  return Shape(dims);
}

// A maximum of nothing has no value.
absl::Status RequireElements(const OpView& op, const std::vector<int>& axes) {
  for (int axis : axes) {
    if (op.input(0).shape.dim(axis) > 0) continue;
    return op.Error(ErrorCode::kShapeMismatch,
                    absl::StrCat("axis ", axis, " of ", op.input(0).ToString(),
                                 " has no elements to choose from"));
  }
  return absl::OkStatus();
}

enum class Needs { kNumeric, kFloat, kElements };

// --- Gradients -------------------------------------------------------------

// What the gradients share: x, and y and dy with the reduced dimensions as 1,
// so that they broadcast against x.
struct Reduction {
  explicit Reduction(const GradientContext& g)
      : axes(*ReducedAxes(g.op)),
        shape(g.op.input(0).shape),
        kept(ReducedShape(shape, axes, /*keepdims=*/true)),
        x(g.emit, g.inputs[0]),
        y(ReshapeTo(Expr(g.emit, g.outputs[0]), kept)),
        dy(ReshapeTo(Expr(g.emit, g.output_grads[0]), kept)) {}

  // Sums over the reduced axes, which stay as 1.
  Expr SumKept(const Expr& value) const {
    return Sum(value, Ints(axes.begin(), axes.end()), /*keepdims=*/true);
  }
  double count() const {
    return static_cast<double>(shape.num_elements()) /
           static_cast<double>(std::max<int64_t>(kept.num_elements(), 1));
  }

  std::vector<int> axes;
  Shape shape;
  Shape kept;
  Expr x, y, dy;
};

using ReduceGradient = Expr (*)(const Reduction& r);

Expr SumGradient(const Reduction& r) { return ExpandTo(r.dy, r.shape); }

Expr MeanGradient(const Reduction& r) {
  return ExpandTo(r.dy / r.count(), r.shape);
}

// Elements that tie share the gradient equally.
Expr ChoiceGradient(const Reduction& r) {
  Expr chosen = Apply("Equal", {r.x, r.y});
  Expr ties = r.SumKept(Cast(chosen, r.x.dtype()));
  return Where(chosen, r.dy / ties, r.dy.Like(0));
}

// dy times the product of the other elements, without dividing by zero: that
// product is 0 where another element is 0, else that of all non-zero elements,
// divided by this one unless it is itself 0.
Expr ProdGradient(const Reduction& r) {
  Expr is_zero = Apply("Equal", {r.x, r.x.Like(0)});
  Expr safe = Where(is_zero, r.x.Like(1), r.x);
  Expr product =
      Apply("ReduceProd", {safe},
            {{"axes", Ints(r.axes.begin(), r.axes.end())}, {"keepdims", 1}});
  Expr zero = Cast(is_zero, r.x.dtype());
  Expr other_zeros = r.SumKept(zero) - zero;
  Expr none = Apply("Equal", {other_zeros, other_zeros.Like(0)});
  return Where(none, r.dy * (product / safe), r.dy.Like(0));
}

// --- Schemas ---------------------------------------------------------------

OpSchema MakeReduce(OpId id, Needs needs, ReduceGradient gradient) {
  OpSchema schema(id);
  schema.inputs = {1, 1};
  schema.attrs = {AttrSpec::Default("axes", Ints{}),
                  AttrSpec::Default("keepdims", 1)};
  schema.signatures = ReduceSignatures;
  schema.infer = [needs](const OpView& op, std::vector<TensorType>* out) {
    WEFT_RETURN_IF_ERROR(needs == Needs::kFloat ? RequireFloat(op, 0)
                                                : RequireNumeric(op, 0));
    WEFT_RETURN_IF_ERROR(RequireFlag(op, "keepdims"));
    WEFT_ASSIGN_OR_RETURN(std::vector<int> axes, ReducedAxes(op));
    if (needs == Needs::kElements) {
      WEFT_RETURN_IF_ERROR(RequireElements(op, axes));
    }
    *out = {{op.input(0).dtype,
             ReducedShape(op.input(0).shape, axes, op.Int("keepdims") != 0)}};
    return absl::OkStatus();
  };
  schema.cost = [](const OpView& op) {
    double elements = static_cast<double>(op.input(0).shape.num_elements());
    return Cost{elements, BytesMoved(op).bytes};
  };
  schema.gradient = [gradient](const GradientContext& g) -> std::vector<Value> {
    Reduction r(g);
    if (r.axes.empty()) return {g.output_grads[0]};  // a scalar
    return {gradient(r)};
  };
  return schema;
}

OpSchema MakeReduceMean() {
  OpSchema schema = MakeReduce(OpId::kReduceMean, Needs::kFloat, MeanGradient);
  schema.decompose = [](const OpView& op, absl::Span<const Value> inputs,
                        NodeEmitter& emit) {
    Expr sum(emit, emit.Emit1("ReduceSum", {inputs[0]},
                              {{"axes", op.Get("axes")},
                               {"keepdims", op.Get("keepdims")}}));
    std::vector<int> axes = *ReducedAxes(op);
    double count = 1;
    for (int axis : axes) {
      count *= static_cast<double>(op.input(0).shape.dim(axis));
    }
    return std::vector<Value>{sum / count};
  };
  return schema;
}

OpSchema MakeArgMax() {
  OpSchema schema(OpId::kArgMax);
  schema.inputs = {1, 1};
  schema.attrs = {AttrSpec::Default("axis", 0),
                  AttrSpec::Default("keepdims", 1)};
  schema.signatures = ArgMaxSignatures;
  schema.infer = [](const OpView& op, std::vector<TensorType>* out) {
    const Shape& from = op.input(0).shape;
    WEFT_RETURN_IF_ERROR(RequireNumeric(op, 0));
    WEFT_RETURN_IF_ERROR(RequireFlag(op, "keepdims"));
    WEFT_ASSIGN_OR_RETURN(int axis, AxisAttr(op, "axis", from.rank()));
    WEFT_RETURN_IF_ERROR(RequireElements(op, {axis}));
    *out = {{DType::kI64, ReducedShape(from, {axis}, op.Int("keepdims") != 0)}};
    return absl::OkStatus();
  };
  schema.cost = [](const OpView& op) {
    double elements = static_cast<double>(op.input(0).shape.num_elements());
    return Cost{elements, BytesMoved(op).bytes};
  };
  schema.gradient = ZeroGradient;
  return schema;
}

// --- Of several operands ---------------------------------------------------

absl::Status RequireOneType(const OpView& op) {
  const TensorType& type = op.input(0);
  for (int i = 1; i < op.num_inputs(); ++i) {
    if (op.has_input(i) && op.input(i) == type) continue;
    return op.Error(ErrorCode::kShapeMismatch,
                    absl::StrCat("operand ", i, " is not, as operand 0 is, ",
                                 type.ToString()));
  }
  return absl::OkStatus();
}

absl::Status InferReduceToAll(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(
      RequireOneOf(op, "reduction", {"sum", "prod", "max", "min"}));
  WEFT_RETURN_IF_ERROR(RequireFlag(op, "squares"));
  const bool squares = op.Int("squares") != 0;
  WEFT_RETURN_IF_ERROR(squares ? RequireFloat(op, 0) : RequireNumeric(op, 0));
  WEFT_RETURN_IF_ERROR(RequireOneType(op));
  out->assign(op.num_inputs(), op.input(0));
  if (squares) out->push_back({DType::kF64, Shape()});
  return absl::OkStatus();
}

Expr ReduceAsTree(absl::string_view op, absl::Span<const Value> inputs,
                  NodeEmitter& emit) {
  TreeFold<Expr> fold([op](const Expr& a, const Expr& b) {
    return Apply(op, {a, b});
  });
  for (Value v : inputs) fold.Take(Expr(emit, v));
  return fold.Total();
}

OpSchema MakeReduceToAll() {
  OpSchema schema(OpId::kReduceToAll);
  schema.inputs = {1, kVariadic};
  schema.outputs = {1, kVariadic};
  schema.attrs = {AttrSpec::Default("reduction", "sum"),
                  AttrSpec::Default("squares", 0)};
  schema.infer = InferReduceToAll;
  schema.cost = [](const OpView& op) {
    const auto elements = static_cast<double>(op.input(0).shape.num_elements());
    const double squares = op.Int("squares") != 0 ? 2 : 0;
    return Cost{elements * (op.num_inputs() - 1 + squares),
                BytesMoved(op).bytes};
  };
  schema.decompose = [](const OpView& op, absl::Span<const Value> inputs,
                        NodeEmitter& emit) {
    const absl::string_view by = FindReduction(op.String("reduction"))->of_two;
    const Expr all = ReduceAsTree(by, inputs, emit);
    std::vector<Value> results(inputs.size(), all.value());
    if (op.Int("squares") != 0) {
      results.push_back(emit.Emit1("weft.SumOfSquares", {all.value()}));
    }
    return results;
  };
  return schema;
}

OpSchema MakeCopyToAll() {
  OpSchema schema(OpId::kCopyToAll);
  schema.inputs = {2, kVariadic};
  schema.outputs = {1, kVariadic};
  schema.infer = [](const OpView& op, std::vector<TensorType>* out) {
    WEFT_RETURN_IF_ERROR(RequireOneType(op));
    out->assign(op.num_inputs() - 1, op.input(0));
    return absl::OkStatus();
  };
  schema.cost = [](const OpView& op) {
    return Cost{0,
                static_cast<double>(op.input(0).num_bytes()) * op.num_inputs()};
  };
  schema.decompose = [](const OpView&, absl::Span<const Value> inputs,
                        NodeEmitter& emit) {
    const Value x = emit.Emit1("Identity", {inputs.back()});
    return std::vector<Value>(inputs.size() - 1, x);
  };
  return schema;
}

// --- Squares ----------------------------------------------------------------

// As many ranks as one job could have.
constexpr int64_t kMostParts = 1 << 16;

absl::Status InferSumOfSquares(const OpView& op, std::vector<TensorType>* out) {
  const int64_t parts = op.Int("parts");
  const Ints& blocks = op.Ints("blocks");
  if (parts < 1 || parts > kMostParts) {
    return op.Error(ErrorCode::kBadAttribute,
                    absl::StrCat("attribute 'parts' must be from 1 to ",
                                 kMostParts, ", got ", parts));
  }
  const size_t wanted = parts == 1 ? 0 : op.num_inputs();
  if (blocks.size() != wanted) {
    return op.Error(ErrorCode::kBadAttribute,
                    absl::StrCat("attribute 'blocks' has ", blocks.size(),
                                 " numbers, ", parts, " parts of ",
                                 op.num_inputs(), " operands need ", wanted));
  }
  for (int i = 0; i < op.num_inputs(); ++i) {
    WEFT_RETURN_IF_ERROR(RequireFloat(op, i));
    if (parts == 1) continue;
    const int64_t elements = op.input(i).shape.num_elements();
    if (blocks[i] <= elements && blocks[i] >= (elements + parts - 1) / parts) {
      continue;
    }
    return op.Error(
        ErrorCode::kBadAttribute,
        absl::StrCat("attribute 'blocks' has ", blocks[i], " for operand ", i,
                     ", ", op.input(i).ToString(), ", of ", parts, " parts"));
  }
  *out = {{DType::kF64, parts == 1 ? Shape() : Shape({parts})}};
  return absl::OkStatus();
}

// [1]: of elements [begin, end) of a row.
Expr SquaresOfRow(const Expr& row, int64_t begin, int64_t end) {
  const Expr part =
      Apply("Slice", {row},
            {{"starts", Ints{begin}}, {"ends", Ints{end}}, {"axes", Ints{0}}});
  return Apply("ReduceSum", {part * part}, {{"keepdims", 1}});
}

std::vector<Value> DecomposeSumOfSquares(const OpView& op,
                                         absl::Span<const Value> inputs,
                                         NodeEmitter& emit) {
  const int64_t parts = op.Int("parts");
  Expr total(emit, {});
  for (int i = 0; i < op.num_inputs(); ++i) {
    const Expr x = Cast(Expr(emit, inputs[i]), DType::kF64);
    if (parts == 1) {
      total = SumOfValid(total, Apply("ReduceSum", {x * x}, {{"keepdims", 0}}));
      continue;
    }
    const int64_t elements = op.input(i).shape.num_elements();
    const int64_t block = op.Ints("blocks")[i];
    const Expr row = ReshapeTo(x, Shape({elements}));
    std::vector<Expr> sums;
    for (int64_t part = 0; part < parts; ++part) {
      sums.push_back(SquaresOfRow(row, std::min(elements, part * block),
                                  std::min(elements, (part + 1) * block)));
    }
    total = SumOfValid(total, Apply("Concat", sums, {{"axis", 0}}));
  }
  return {total.value()};
}

OpSchema MakeSumOfSquares() {
  OpSchema schema(OpId::kSumOfSquares);
  schema.inputs = {1, kVariadic};
  schema.attrs = {AttrSpec::Default("parts", 1),
                  AttrSpec::Default("blocks", Ints{})};
  schema.signatures = SumOfSquaresSignatures;
  schema.infer = InferSumOfSquares;
  schema.cost = [](const OpView& op) {
    Cost cost = BytesMoved(op);
    for (int i = 0; i < op.num_inputs(); ++i) {
      cost.flops += 2.0 * op.input(i).shape.num_elements();
    }
    return cost;
  };
  schema.decompose = DecomposeSumOfSquares;
  return schema;
}

}  // namespace

void RegisterReduceOps(OpRegistry* registry) {
  registry->Add(MakeReduce(OpId::kReduceSum, Needs::kNumeric, SumGradient));
  registry->Add(MakeReduceMean());
  registry->Add(MakeReduce(OpId::kReduceMax, Needs::kElements, ChoiceGradient));
  registry->Add(MakeReduce(OpId::kReduceMin, Needs::kElements, ChoiceGradient));
  registry->Add(MakeReduce(OpId::kReduceProd, Needs::kNumeric, ProdGradient));
  registry->Add(MakeArgMax());
  registry->Add(MakeReduceToAll());
  registry->Add(MakeCopyToAll());
  registry->Add(MakeSumOfSquares());
}

}  // namespace weft
