// Products of matrices: rows, columns, the batch, and the dimension that is
// summed over, which gives partial sums.
#include "core/ops/activation.h"
#include "core/ops/family_signatures.h"
#include "core/ops/signature_rules.h"

namespace weft {

std::vector<OpSignature> MatMulSignatures(const OpView& op) {
  const Shape& a = op.input(0).shape;
  const Shape& b = op.input(1).shape;
  const int out = op.output(0).shape.rank();
  SignatureList list(op);
  // A vector's one dimension is summed over, and the result has none for it.
  const int columns = b.rank() > 1 ? 1 : 0, rows = a.rank() > 1 ? 1 : 0;
  const int batch = out - rows - columns;
  for (int d = 0; d < batch; ++d) {
    const auto own = [&](const Shape& x) {
      const int dim = d - (batch - (x.rank() - 2));
      const bool full =
          dim >= 0 && x.rank() > 1 && x.dim(dim) == op.output(0).shape.dim(d);
      return full ? dim : kWhole;
    };
    list.Split({own(a), own(b)}, {d});
  }
  if (rows) list.Split({a.rank() - 2, kWhole}, {batch});
  if (columns) list.Split({kWhole, b.rank() - 1}, {out - 1});
  list.Split({a.rank() - 1, columns ? b.rank() - 2 : 0}, {kSummed});
  list.Partial(ReduceOp::kSum, {0});
  list.Partial(ReduceOp::kSum, {1});
  return list.Take();
}

// C is added once: where the result is a partial sum, C is one too.
std::vector<OpSignature> GemmSignatures(const OpView& op) {
  const int ta = op.Int("transA") != 0 ? 1 : 0;
  const int tb = op.Int("transB") != 0 ? 1 : 0;
  const auto c = [&op](int dim) {
    return op.has_input(2)
               ? BroadcastDim(op.input(2).shape, op.output(0).shape, dim)
               : kWhole;
  };
  SignatureList list(op);
  list.Split({ta, kWhole, c(0)}, {0});
  list.Split({kWhole, 1 - tb, c(1)}, {1});
  if (HasActivation(op)) return list.Take();  // of the sum, not of its parts
  list.Split({1 - ta, tb, kSummed}, {kSummed});
  list.Partial(ReduceOp::kSum, {0, 2});
  list.Partial(ReduceOp::kSum, {1, 2});
  return list.Take();
}

}  // namespace weft
