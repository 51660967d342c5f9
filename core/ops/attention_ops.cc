// Self-attention as one op, and its gradient: what a transformer's block does
// between its two linear layers, without a matrix of scores in memory.
//
// `qkv` [batch, tokens, 3 * width] holds queries, keys and values side by side,
// each with the heads one after another. For one head of size d, with s = scale
// q k' and the visible positions c (all, or c <= r where `causal`):
//
//   lse[r] = log sum over c of exp(s[r, c])      p = exp(s - lse)
//   y[r]   = sum over c of p[r, c] v[c]
//
// With a counter, weights are dropped as weft.DropoutTraining would drop those
// of p [batch, heads, tokens, tokens]: p~ = p * keep / (1 - ratio) takes the
// place of p in y. The gradient draws the same numbers again. Without one,
// `ratio` says nothing: the form that models are written in.
//
// lse has the type of qkv, but f32 for a 16-bit one: the gradient needs it.
#include <cmath>
#include <limits>
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

struct Sizes {
  int64_t batch, tokens, width, heads, head;

  Shape PerHead() const { return {batch, heads, tokens, head}; }
  Shape Rows() const { return {batch, tokens, width}; }
};

// Pre-condition: `op` was inferred.
Sizes SizesOf(const OpView& op) {
  const Shape& qkv = op.input(0).shape;
  Sizes s = {qkv.dim(0), qkv.dim(1), qkv.dim(2) / 3, op.Int("heads"), 0};
  s.head = s.width / s.heads;
  return s;
}

double ScaleOf(const OpView& op) {
  if (op.Has("scale")) return op.Float("scale");
  return 1.0 / std::sqrt(static_cast<double>(SizesOf(op).head));
}

DType LseType(DType dtype) {
  return dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

// Checks operand 0 and the attributes that both ops have.
absl::Status CheckAttention(const OpView& op, int counter) {
  WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
  WEFT_RETURN_IF_ERROR(RequireRank(op, 0, 3));
  WEFT_RETURN_IF_ERROR(RequireFlag(op, "causal"));
  WEFT_RETURN_IF_ERROR(RequireRange(op, "ratio", 0.0, 1.0));
  if (op.Has("scale") && !std::isfinite(op.Float("scale"))) {
    return op.Error(ErrorCode::kBadAttribute,
                    absl::StrCat("attribute 'scale' must be finite, got ",
                                 op.Float("scale")));
  }
  int64_t heads = op.Int("heads");
  if (heads < 1) {
    return op.Error(
        ErrorCode::kBadAttribute,
        absl::StrCat("attribute 'heads' must be at least 1, got ", heads));
  }
  int64_t columns = op.input(0).shape.dim(2);
  if (columns == 0 || columns % 3 != 0 || columns / 3 % heads != 0) {
    return op.Error(
        ErrorCode::kShapeMismatch,
        absl::StrCat("operand 0 must be [batch, tokens, 3 * width] with a "
                     "width that ",
                     heads, " heads share, got ", op.input(0).ToString()));
  }
  const int64_t tokens = op.input(0).shape.dim(1);
  const Shape weights = {op.input(0).shape.dim(0), heads, tokens, tokens};
  WEFT_RETURN_IF_ERROR(Cuts::FromOp(op, weights).status());
  return op.has_input(counter) ? RequireCounter(op, counter) : absl::OkStatus();
}

absl::Status InferSelfAttention(const OpView& op,
                                std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(CheckAttention(op, 1));
  Sizes s = SizesOf(op);
  DType dtype = op.input(0).dtype;
  *out = {{dtype, s.Rows()}, {LseType(dtype), {s.batch, s.heads, s.tokens}}};
  return absl::OkStatus();
}

absl::Status InferSelfAttentionGrad(const OpView& op,
                                    std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(CheckAttention(op, 5));
  Sizes s = SizesOf(op);
  for (int i : {1, 3}) {
    WEFT_RETURN_IF_ERROR(RequireSameDType(op, 0, i));
    WEFT_RETURN_IF_ERROR(RequireShape(op, i, s.Rows()));
  }
  for (int i : {2, 4}) {
    if (!op.has_input(i)) continue;
    WEFT_RETURN_IF_ERROR(RequireDType(op, i, LseType(op.input(0).dtype)));
    WEFT_RETURN_IF_ERROR(RequireShape(op, i, {s.batch, s.heads, s.tokens}));
  }
  return SameAsInput(op, out);
}

std::vector<Value> SelfAttentionGradient(const GradientContext& g) {
  std::vector<Value> grads(g.inputs.size());
  Expr dy(g.emit, g.output_grads[0]);
  Value dlse = g.output_grads[1];
  if (!dy.valid() && !dlse.valid()) return grads;
  if (!dy.valid()) {
    dy = ExpandTo(Expr(g.emit, g.emit.Scalar(0, g.op.input(0).dtype)),
                  SizesOf(g.op).Rows());
  }
  std::vector<Value> operands = {g.inputs[0], g.outputs[0], g.outputs[1], dy};
  const bool counter = g.op.has_input(1);
  if (dlse.valid() || counter) operands.push_back(dlse);
  if (counter) operands.push_back(g.inputs[1]);
  grads[0] = g.emit.Emit1("weft.SelfAttentionGrad", operands, g.op.attrs());
  return grads;
}

// ---- Decompositions
// ------------------------------------------------------------

// Queries, keys or values (`part` 0, 1, 2 of `parts`) of every head, as
// [batch, heads, tokens, head], or with the last two exchanged.
Expr Heads(const Expr& x, const Sizes& s, int parts, int part, bool exchange) {
  const int64_t row = parts * s.width;
  Ints shape = {s.batch, s.heads, s.tokens, s.head};
  Ints strides = {s.tokens * row, s.head, row, 1};
  if (exchange) {
    std::swap(shape[2], shape[3]);
    std::swap(strides[2], strides[3]);
  }
  if (s.tokens == 0 || s.batch == 0) {
    return ReshapeTo(x, Shape(shape));
  }
  return CopyStrided(x, std::move(shape), std::move(strides), part * s.width);
}

// [batch, heads, tokens, head] as rows [batch, tokens, width].
Expr Join(const Expr& x, const Sizes& s) {
  Expr y = Apply("Transpose", {x}, {{"perm", Ints{0, 2, 1, 3}}});
  return ReshapeTo(y, s.Rows());
}

Expr SwapLastTwo(const Expr& x) {
  return Apply("Transpose", {x}, {{"perm", Ints{0, 1, 3, 2}}});
}

// scale q k', -inf where a row does not see a column.
Expr Scores(const OpView& op, const Expr& qkv) {
  NodeEmitter& emit = qkv.emit();
  const Sizes s = SizesOf(op);
  Expr q = Heads(qkv, s, 3, 0, false) * ScaleOf(op);
  Expr scores = Apply("MatMul", {q, Heads(qkv, s, 3, 1, true)});
  if (op.Int("causal") == 0) return scores;
  auto iota = [&](const Ints& shape, int axis) {
    return Expr(
        emit,
        emit.Emit1("weft.Iota", {},
                   {{"shape", shape}, {"dtype", DType::kI32}, {"axis", axis}}));
  };
  Expr row = iota({s.tokens, 1}, 0), column = iota({1, s.tokens}, 1);
  return Where(Apply("LessOrEqual", {column, row}), scores,
               scores.Like(-std::numeric_limits<double>::infinity()));
}

Expr AlongRow(absl::string_view reduce, const Expr& x) {
  return Apply(reduce, {x}, {{"axes", Ints{3}}, {"keepdims", 1}});
}

// One number for each row, of a result's or of qkv's type.
Expr PerRow(const Expr& x, const Sizes& s, DType dtype) {
  return Cast(ReshapeTo(x, {s.batch, s.heads, s.tokens, 1}), dtype);
}

// The weights as they are used, and what multiplies their gradient; invalid
// where nothing is dropped.
struct Dropped {
  Expr weights, factor;
};
Dropped Drop(const OpView& op, const Expr& weights, Value counter) {
  NodeEmitter& emit = weights.emit();
  const double ratio = op.Float("ratio");
  if (!counter.valid() || ratio == 0) return {weights, Expr(emit, {})};
  AttrMap attrs = {
      {"ratio", ratio}, {"seed", op.Int("seed")}, {"stream", op.Int("stream")}};
  Cuts::CopyTo(op, &attrs);
  std::vector<Value> out = emit.Emit("weft.DropoutTraining", {weights, counter},
                                     std::move(attrs), 2);
  if (out.size() < 2) return {Expr(emit, {}), Expr(emit, {})};
  Expr factor =
      Cast(Expr(emit, out[1]), weights.dtype()) * (1.0 / (1.0 - ratio));
  return {Expr(emit, out[0]), factor};
}

std::vector<Value> DecomposeSelfAttention(const OpView& op,
                                          absl::Span<const Value> inputs,
                                          NodeEmitter& emit) {
  const Sizes s = SizesOf(op);
  Expr qkv(emit, inputs[0]);
  const Shape lse_shape = {s.batch, s.heads, s.tokens};
  const DType lse_type = LseType(op.input(0).dtype);
  if (s.tokens == 0) {  // rows have no maximum
    return {ReshapeTo(qkv, s.Rows()),
            Cast(ReshapeTo(qkv, lse_shape), lse_type)};
  }
  Expr scores = Scores(op, qkv);
  if (!scores.valid()) return {Value(), Value()};
  Expr max = AlongRow("ReduceMax", scores);
  Expr sum = AlongRow("ReduceSum", Apply("Exp", {scores - max}));
  Expr lse = max + Apply("Log", {sum});
  Expr weights = Apply("Exp", {scores - max}) / sum;
  Value counter = op.has_input(1) ? inputs[1] : Value();
  Expr y = Apply("MatMul", {Drop(op, weights, counter).weights,
                            Heads(qkv, s, 3, 2, false)});
  return {Join(y, s), Cast(ReshapeTo(lse, lse_shape), lse_type)};
}

std::vector<Value> DecomposeSelfAttentionGrad(const OpView& op,
                                              absl::Span<const Value> inputs,
                                              NodeEmitter& emit) {
  const Sizes s = SizesOf(op);
  const DType dtype = op.input(0).dtype;
  Expr qkv(emit, inputs[0]);
  Expr y = Heads(Expr(emit, inputs[1]), s, 1, 0, false);
  Expr lse = PerRow(Expr(emit, inputs[2]), s, dtype);
  Expr dy = Heads(Expr(emit, inputs[3]), s, 1, 0, false);
  Expr scores = Scores(op, qkv);
  if (!scores.valid() || !dy.valid()) return {Value()};
  Expr weights = Apply("Exp", {scores - lse});
  Expr taken = AlongRow("ReduceSum", dy * y);
  if (op.has_input(4)) {
    taken = taken - PerRow(Expr(emit, inputs[4]), s, dtype);
  }
  Value counter = op.has_input(5) ? inputs[5] : Value();
  Dropped dropped = Drop(op, weights, counter);
  Expr dweights = Apply("MatMul", {dy, Heads(qkv, s, 3, 2, true)});
  if (dropped.factor.valid()) dweights = dweights * dropped.factor;
  Expr dscores = weights * (dweights - taken) * ScaleOf(op);
  Expr dq = Apply("MatMul", {dscores, Heads(qkv, s, 3, 1, false)});
  Expr dk = Apply("MatMul", {SwapLastTwo(dscores), Heads(qkv, s, 3, 0, false)});
  Expr dv = Apply("MatMul", {SwapLastTwo(dropped.weights), dy});
  return {
      Apply("Concat", {Join(dq, s), Join(dk, s), Join(dv, s)}, {{"axis", 2}})};
}

// ---- Registration
// --------------------------------------------------------------

// `products` of a row by a column for each pair of positions.
OpSchema::CostFn AttentionCost(int products, int flops_per_pair) {
  return [products, flops_per_pair](const OpView& op) {
    const Sizes s = SizesOf(op);
    const double tokens = static_cast<double>(s.tokens);
    const double pairs = static_cast<double>(s.batch * s.heads) * tokens *
                         (op.Int("causal") != 0 ? (tokens + 1) / 2 : tokens);
    return Cost{
        pairs * (2.0 * products * static_cast<double>(s.head) + flops_per_pair),
        BytesMoved(op).bytes};
  };
}

std::vector<AttrSpec> AttentionAttrs() {
  return {AttrSpec::Required("heads", AttrKind::kInt),
          AttrSpec::Default("causal", 0),
          AttrSpec::Optional("scale", AttrKind::kFloat),
          AttrSpec::Default("ratio", 0.0),
          AttrSpec::Default("seed", 0),
          AttrSpec::Default("stream", 0),
          Cuts::Spec()};
}

}  // namespace

void RegisterAttentionOps(OpRegistry* registry) {
  OpSchema forward(OpId::kSelfAttention);
  forward.inputs = {1, 2};
  forward.outputs = {2, 2};
  forward.attrs = AttentionAttrs();
  forward.infer = InferSelfAttention;
  forward.signatures = AttentionSignatures;
  forward.local_attrs = LocalAttentionAttrs;
  forward.gradient = SelfAttentionGradient;
  forward.decompose = DecomposeSelfAttention;
  forward.cost = AttentionCost(2, 5);
  registry->Add(std::move(forward));

  OpSchema grad(OpId::kSelfAttentionGrad);
  grad.inputs = {4, 6};
  grad.attrs = AttentionAttrs();
  grad.infer = InferSelfAttentionGrad;
  grad.signatures = AttentionSignatures;
  grad.local_attrs = LocalAttentionAttrs;
  grad.decompose = DecomposeSelfAttentionGrad;
  grad.cost = AttentionCost(5, 6);
  registry->Add(std::move(grad));
}

}  // namespace weft
