#include <cmath>
#include <limits>

#include "core/base/status_macros.h"
#include "core/base/tree_fold.h"
#include "core/ops/infer.h"
#include "core/ops/scalar.h"
#include "core/reference/evaluators.h"
#include "core/reference/integers.h"
#include "core/types/literal.h"
#include "core/types/reductions.h"

namespace weft {
namespace reference {
namespace {

// Strides into the result for each axis of the operand: 0 along reduced ones.
absl::StatusOr<std::vector<int64_t>> ResultStrides(const OpView& op,
                                                   const Shape& from) {
  WEFT_ASSIGN_OR_RETURN(std::vector<int> axes,
                        AxesAttr(op, "axes", from.rank()));
  std::vector<bool> reduced(from.rank(), axes.empty());
  for (int axis : axes) reduced[axis] = true;
  std::vector<int64_t> strides(from.rank(), 0);
  int64_t stride = 1;
  for (int d = from.rank() - 1; d >= 0; --d) {
    if (reduced[d]) continue;
    strides[d] = stride;
    stride *= from.dim(d);
  }
  return strides;
}

// Folds every element into its result with `combine(accumulator, x)`, in
// row-major order.
template <typename T, typename F>
absl::Status Fold(const OpView& op, const Tensor& x, F combine,
                  std::vector<T>* accumulators) {
  WEFT_ASSIGN_OR_RETURN(std::vector<int64_t> strides,
                        ResultStrides(op, x.shape));
  for (Index it(x.shape); !it.done(); it.Next()) {
    T& accumulator = (*accumulators)[it.Dot(strides)];
    accumulator = combine(accumulator, x.v[it.position()]);
  }
  return absl::OkStatus();
}

// A fold of doubles by an elementwise op.
Evaluator FoldWith(OpId combine, double start) {
  return [=](const OpView& op, absl::Span<const Tensor> in,
             std::vector<Tensor>* out) {
    std::vector<double>& y = (*out)[0].v;
    y.assign(y.size(), start);
    auto step = [=](double a, double x) { return ScalarValue(combine, a, x); };
    return Fold(op, in[0], step, &y);
  };
}

// Sums and products: integers wrap around, exactly, in 64 bits.
Evaluator FoldArithmetic(OpId combine, uint64_t start) {
  return [=](const OpView& op, absl::Span<const Tensor> in,
             std::vector<Tensor>* out) -> absl::Status {
    DType dtype = op.input(0).dtype;
    if (!IsInteger(dtype)) {
      return FoldWith(combine, static_cast<double>(start))(op, in, out);
    }
    std::vector<double>& y = (*out)[0].v;
    std::vector<uint64_t> bits(y.size(), start);
    auto step = [=](uint64_t a, double x) {
      auto b = static_cast<uint64_t>(static_cast<int64_t>(x));
      return combine == OpId::kAdd ? a + b : a * b;
    };
    WEFT_RETURN_IF_ERROR(Fold(op, in[0], step, &bits));
    for (size_t i = 0; i < y.size(); ++i) y[i] = WrapInteger(dtype, bits[i]);
    return absl::OkStatus();
  };
}

// The identity of Max and Min, for integers as well: no element is beyond it.
constexpr double kInfinity = std::numeric_limits<double>::infinity();

absl::Status Mean(const OpView& op, absl::Span<const Tensor> in,
                  std::vector<Tensor>* out) {
  Tensor& y = (*out)[0];
  WEFT_RETURN_IF_ERROR(FoldWith(OpId::kAdd, 0)(op, in, out));
  double count =
      static_cast<double>(in[0].v.size()) / static_cast<double>(y.v.size());
  for (double& v : y.v) v /= count;
  return absl::OkStatus();
}

// The first of equal maxima; a NaN counts as larger than any number.
absl::Status ArgMax(const OpView& op, absl::Span<const Tensor> in,
                    std::vector<Tensor>* out) {
  const Tensor& x = in[0];
  WEFT_ASSIGN_OR_RETURN(int axis, AxisAttr(op, "axis", x.shape.rank()));
  int64_t extent = x.shape.dim(axis), inner = 1;
  for (int d = axis + 1; d < x.shape.rank(); ++d) inner *= x.shape.dim(d);
  Tensor& y = (*out)[0];
  for (int64_t i = 0; i < static_cast<int64_t>(y.v.size()); ++i) {
    const double* row = &x.v[i / inner * extent * inner + i % inner];
    int64_t best = 0;
    for (int64_t k = 1; k < extent && !std::isnan(row[best * inner]); ++k) {
      double candidate = row[k * inner];
      if (candidate > row[best * inner] || std::isnan(candidate)) best = k;
    }
    y.v[i] = static_cast<double>(best);
  }
  return absl::OkStatus();
}

// Of the operands as a balanced tree, element by element. The squares are of
// what comes out, rounded.
absl::Status ReduceToAll(const OpView& op, absl::Span<const Tensor> in,
                         std::vector<Tensor>* out) {
  const OpId combine =
      OpRegistry::Global()
          .FindOrNull(FindReduction(op.String("reduction"))->of_two)
          ->id;
  const DType dtype = op.input(0).dtype;
  const auto both = [&](double a, double b) {
    return IsInteger(dtype) ? IntegerValue(combine, dtype, a, b)
                            : ScalarValue(combine, a, b);
  };
  for (size_t i = 0; i < in[0].v.size(); ++i) {
    TreeFold<double> fold(both);
    for (const Tensor& x : in) fold.Take(x.v[i]);
    const double all = fold.Total();
    for (size_t k = 0; k < in.size(); ++k) (*out)[k].v[i] = all;
  }
  if (op.Int("squares") == 0) return absl::OkStatus();
  const Literal first = Literal::FromDoubles(op.input(0), (*out)[0].v);
  for (double all : first.ToDoubles()) out->back().v[0] += all * all;
  return absl::OkStatus();
}

absl::Status CopyToAll(const OpView&, absl::Span<const Tensor> in,
                       std::vector<Tensor>* out) {
  for (Tensor& y : *out) y.v = in.back().v;
  return absl::OkStatus();
}

absl::Status SumOfSquares(const OpView& op, absl::Span<const Tensor> in,
                          std::vector<Tensor>* out) {
  std::vector<double>& sums = (*out)[0].v;
  for (size_t i = 0; i < in.size(); ++i) {
    const std::vector<double>& x = in[i].v;
    const size_t block = sums.size() == 1 ? x.size() : op.Ints("blocks")[i];
    std::vector<double> parts(sums.size());
    for (size_t k = 0; k < x.size(); ++k) parts[k / block] += x[k] * x[k];
    for (size_t part = 0; part < sums.size(); ++part) sums[part] += parts[part];
  }
  return absl::OkStatus();
}

}  // namespace

void AddReduceEvaluators(EvaluatorTable* table) {
  table->Add(OpId::kReduceSum, FoldArithmetic(OpId::kAdd, 0));
  table->Add(OpId::kReduceProd, FoldArithmetic(OpId::kMul, 1));
  table->Add(OpId::kReduceMax, FoldWith(OpId::kMax, -kInfinity));
  table->Add(OpId::kReduceMin, FoldWith(OpId::kMin, kInfinity));
  table->Add(OpId::kReduceMean, Mean);
  table->Add(OpId::kArgMax, ArgMax);
  table->Add(OpId::kReduceToAll, ReduceToAll);
  table->Add(OpId::kCopyToAll, CopyToAll);
  table->Add(OpId::kSumOfSquares, SumOfSquares);
}

}  // namespace reference
}  // namespace weft
