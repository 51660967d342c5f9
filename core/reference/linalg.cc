// MatMul and Gemm: dot products in order of k.
#include "core/reference/evaluators.h"

namespace weft {
namespace reference {
namespace {

Shape BatchOf(const Shape& matrix) {
  return Shape(matrix.dims().subspan(0, matrix.rank() - 2));
}

absl::Status EvaluateMatMul(const OpView&, absl::Span<const Tensor> in,
                            std::vector<Tensor>* out) {
  const Shape& sa = in[0].shape;
  const Shape& sb = in[1].shape;
  Shape a = sa.rank() == 1 ? Shape({1, sa.dim(0)}) : sa;
  Shape b = sb.rank() == 1 ? Shape({sb.dim(0), 1}) : sb;
  int64_t m = a.dim(a.rank() - 2);
  int64_t k = a.dim(a.rank() - 1);
  int64_t n = b.dim(b.rank() - 1);
  Shape batch = *BroadcastShapes(BatchOf(a), BatchOf(b));
  std::vector<int64_t> stride_a = BroadcastStrides(BatchOf(a), batch);
  std::vector<int64_t> stride_b = BroadcastStrides(BatchOf(b), batch);
  for (Index it(batch); !it.done(); it.Next()) {
    const double* pa = in[0].v.data() + it.Dot(stride_a) * m * k;
    const double* pb = in[1].v.data() + it.Dot(stride_b) * k * n;
    double* y = (*out)[0].v.data() + it.position() * m * n;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t l = 0; l < k; ++l) {
          y[i * n + j] += pa[i * k + l] * pb[l * n + j];
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::Status EvaluateGemm(const OpView& op, absl::Span<const Tensor> in,
                          std::vector<Tensor>* out) {
  bool ta = op.Int("transA") != 0;
  bool tb = op.Int("transB") != 0;
  const Shape& y = (*out)[0].shape;
  int64_t m = y.dim(0), n = y.dim(1), k = in[0].shape.dim(ta ? 0 : 1);
  std::vector<int64_t> stride_c(2, 0);
  if (op.has_input(2)) stride_c = BroadcastStrides(in[2].shape, y);
  for (Index it(y); !it.done(); it.Next()) {
    int64_t i = it.at()[0], j = it.at()[1];
    double dot = 0;
    for (int64_t l = 0; l < k; ++l) {
      dot += in[0].v[ta ? l * m + i : i * k + l] *
             in[1].v[tb ? j * k + l : l * n + j];
    }
    double& result = (*out)[0].v[it.position()];
    result = op.Float("alpha") * dot;
    if (op.has_input(2)) {
      result += op.Float("beta") * in[2].v[it.Dot(stride_c)];
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddLinearAlgebraEvaluators(EvaluatorTable* table) {
  table->Add(OpId::kMatMul, EvaluateMatMul);
  table->Add(OpId::kGemm, EvaluateGemm);
}

}  // namespace reference
}  // namespace weft
