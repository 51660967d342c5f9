// Matrix products.
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/activation.h"
#include "core/ops/expr.h"
#include "core/ops/families.h"
#include "core/ops/family_signatures.h"
#include "core/ops/infer.h"
#include "core/ops/schema.h"

namespace weft {
namespace {

using Dims = std::vector<int64_t>;

// The product of two matrices; an absent third operand is fine.
absl::Status RequireOneFloatDType(const OpView& op) {
  WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
  WEFT_RETURN_IF_ERROR(RequireSameDType(op, 0, 1));
  return op.has_input(2) ? RequireSameDType(op, 0, 2) : absl::OkStatus();
}

// ---- MatMul ---------------------------------------------------------------

// The operands of a product as matrices: numpy takes a vector on the left as a
// row and one on the right as a column, and drops that dimension of the result.
struct MatMulShapes {
  Shape a, b;   // rank >= 2
  Shape batch;  // broadcast
  int64_t m = 0, n = 0, k = 0;
  Shape out;

  Shape OutMatrix() const {  // the result before a dimension is dropped
    Dims dims(batch.dims().begin(), batch.dims().end());
    dims.push_back(m);
    dims.push_back(n);
    return Shape(dims);
  }
};

Shape BatchOf(const Shape& matrix) {
  return Shape(matrix.dims().subspan(0, matrix.rank() - 2));
}

absl::StatusOr<MatMulShapes> GetMatMulShapes(const OpView& op) {
  const Shape& a = op.input(0).shape;
  const Shape& b = op.input(1).shape;
  auto error = [&](absl::string_view why) {
    return op.Error(ErrorCode::kShapeMismatch,
                    absl::StrCat("cannot multiply ", a.ToString(), " by ",
                                 b.ToString(), ": ", why));
  };
  if (a.rank() == 0 || b.rank() == 0) return error("an operand is a scalar");
  MatMulShapes s;
  s.a = a.rank() == 1 ? Shape({1, a.dim(0)}) : a;
  s.b = b.rank() == 1 ? Shape({b.dim(0), 1}) : b;
  s.m = s.a.dim(s.a.rank() - 2);
  s.k = s.a.dim(s.a.rank() - 1);
  s.n = s.b.dim(s.b.rank() - 1);
  int64_t other_k = s.b.dim(s.b.rank() - 2);
  if (s.k != other_k) {
    return error(
        absl::StrCat("inner dimensions ", s.k, " and ", other_k, " differ"));
  }
  absl::StatusOr<Shape> batch = BroadcastShapes(BatchOf(s.a), BatchOf(s.b));
  if (!batch.ok()) return error("batch dimensions do not broadcast");
  s.batch = *batch;
  Dims out(s.batch.dims().begin(), s.batch.dims().end());
  if (a.rank() > 1) out.push_back(s.m);
  if (b.rank() > 1) out.push_back(s.n);
  s.out = Shape(out);
  return s;
}

absl::Status InferMatMul(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireOneFloatDType(op));
  WEFT_ASSIGN_OR_RETURN(MatMulShapes s, GetMatMulShapes(op));
  *out = {{op.input(0).dtype, s.out}};
  return absl::OkStatus();
}

// x with its last two dimensions swapped.
Expr SwapLastTwo(const Expr& x) {
  if (!x.valid()) return x;
  Dims perm(x.shape().rank());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 2], perm[perm.size() - 1]);
  return Apply("Transpose", {x}, {{"perm", std::move(perm)}});
}

Expr Gemm(const Expr& a, bool trans_a, const Expr& b, bool trans_b,
          double alpha = 1.0) {
  return Apply("Gemm", {a, b},
               {{"alpha", alpha},
                {"transA", trans_a ? 1 : 0},
                {"transB", trans_b ? 1 : 0}});
}

std::vector<Value> MatMulGradient(const GradientContext& g) {
  absl::StatusOr<MatMulShapes> shapes = GetMatMulShapes(g.op);
  if (!shapes.ok()) return {Value(), Value()};  // not reached: was inferred
  const MatMulShapes& s = *shapes;
  Expr a = ReshapeTo(Expr(g.emit, g.inputs[0]), s.a);
  Expr b = ReshapeTo(Expr(g.emit, g.inputs[1]), s.b);
  Expr dy = ReshapeTo(Expr(g.emit, g.output_grads[0]), s.OutMatrix());
  Expr da = a, db = b;
  if (s.b.rank() == 2) {
    // One matrix on the right: the batch of the left is more rows of it.
    int64_t rows = s.batch.num_elements() * s.m;
    dy = ReshapeTo(dy, {rows, s.n});
    da = Gemm(dy, false, b, true);
    db = Gemm(ReshapeTo(a, {rows, s.k}), true, dy, false);
  } else {
    da = SumTo(Apply("MatMul", {dy, SwapLastTwo(b)}), s.a);
    db = SumTo(Apply("MatMul", {SwapLastTwo(a), dy}), s.b);
  }
  return {ReshapeTo(da, g.op.input(0).shape),
          ReshapeTo(db, g.op.input(1).shape)};
}

Cost MatMulCost(const OpView& op) {
  absl::StatusOr<MatMulShapes> s = GetMatMulShapes(op);
  if (!s.ok()) return {};
  return {2.0 * OutputElements(op) * s->k, BytesMoved(op).bytes};
}

// ---- Gemm -----------------------------------------------------------------

struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
};

absl::StatusOr<GemmShape> GetGemmShape(const OpView& op) {
  const Shape& a = op.input(0).shape;
  const Shape& b = op.input(1).shape;
  int ta = op.Int("transA") != 0 ? 1 : 0;
  int tb = op.Int("transB") != 0 ? 1 : 0;
  auto error = [&](absl::string_view why) {
    return op.Error(
        ErrorCode::kShapeMismatch,
        absl::StrCat("cannot multiply ", a.ToString(),
                     ta ? " (transposed)" : "", " by ", b.ToString(),
                     tb ? " (transposed)" : "", ": ", why));
  };
  if (a.rank() != 2 || b.rank() != 2) return error("not two matrices");
  GemmShape s = {a.dim(ta), b.dim(1 - tb), a.dim(1 - ta)};
  if (s.k != b.dim(tb)) {
    return error(
        absl::StrCat("inner dimensions ", s.k, " and ", b.dim(tb), " differ"));
  }
  return s;
}

absl::Status InferGemm(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireOneFloatDType(op));
  WEFT_RETURN_IF_ERROR(RequireFlag(op, "transA"));
  WEFT_RETURN_IF_ERROR(RequireFlag(op, "transB"));
  WEFT_ASSIGN_OR_RETURN(GemmShape s, GetGemmShape(op));
  Shape shape = {s.m, s.n};
  if (op.has_input(2)) {
    const Shape& c = op.input(2).shape;
    absl::StatusOr<Shape> both = BroadcastShapes(c, shape);
    if (!both.ok() || *both != shape) {
      return op.Error(ErrorCode::kShapeMismatch,
                      absl::StrCat("C ", c.ToString(),
                                   " does not broadcast to the product ",
                                   shape.ToString()));
    }
  }
  *out = {{op.input(0).dtype, shape}};
  return absl::OkStatus();
}

// Scales by a constant attribute; nothing to do for 1.
Expr Scaled(const Expr& x, double factor) {
  return factor == 1.0 ? x : x * factor;
}

// Y = alpha A' B' + beta C, where X' is X or its transpose.
std::vector<Value> GemmGradient(const GradientContext& g) {
  bool ta = g.op.Int("transA") != 0;
  bool tb = g.op.Int("transB") != 0;
  double alpha = g.op.Float("alpha");
  Expr a(g.emit, g.inputs[0]), b(g.emit, g.inputs[1]);
  Expr dy(g.emit, g.output_grads[0]);
  std::vector<Value> grads = {
      ta ? Gemm(b, tb, dy, true, alpha) : Gemm(dy, false, b, !tb, alpha),
      tb ? Gemm(dy, true, a, ta, alpha) : Gemm(a, !ta, dy, false, alpha)};
  if (g.op.has_input(2)) {
    Expr dc = SumTo(dy, g.op.input(2).shape);
    grads.push_back(Scaled(dc, g.op.Float("beta")));
  }
  return grads;
}

std::vector<Value> DecomposeGemm(const OpView& op,
                                 absl::Span<const Value> inputs,
                                 NodeEmitter& emit) {
  Expr a(emit, inputs[0]), b(emit, inputs[1]);
  if (op.Int("transA") != 0) a = SwapLastTwo(a);
  if (op.Int("transB") != 0) b = SwapLastTwo(b);
  Expr y = Scaled(Apply("MatMul", {a, b}), op.Float("alpha"));
  if (op.has_input(2)) {
    y = y + Scaled(Expr(emit, inputs[2]), op.Float("beta"));
  }
  return {y};
}

Cost GemmCost(const OpView& op) {
  absl::StatusOr<GemmShape> s = GetGemmShape(op);
  if (!s.ok()) return {};
  double per_output = 2.0 * s->k + (op.has_input(2) ? 2 : 0);
  return {OutputElements(op) * per_output, BytesMoved(op).bytes};
}

}  // namespace

void RegisterLinearAlgebraOps(OpRegistry* registry) {
  OpSchema matmul(OpId::kMatMul);
  matmul.inputs = {2, 2};
  matmul.infer = InferMatMul;
  matmul.gradient = MatMulGradient;
  matmul.cost = MatMulCost;
  matmul.signatures = MatMulSignatures;
  registry->Add(std::move(matmul));

  OpSchema gemm(OpId::kGemm);
  gemm.inputs = {2, 3};
  gemm.attrs = {AttrSpec::Default("alpha", 1.0), AttrSpec::Default("beta", 1.0),
                AttrSpec::Default("transA", 0), AttrSpec::Default("transB", 0)};
  gemm.infer = InferGemm;
  gemm.gradient = GemmGradient;
  gemm.decompose = DecomposeGemm;
  gemm.cost = GemmCost;
  gemm.signatures = GemmSignatures;
  AddActivation(&gemm);
  registry->Add(std::move(gemm));
}

}  // namespace weft
