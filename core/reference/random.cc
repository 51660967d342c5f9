#include "core/base/status_macros.h"
#include "core/ops/cuts.h"
#include "core/ops/philox.h"
#include "core/reference/evaluators.h"

namespace weft {
namespace reference {
namespace {

// Fills the result with `value(key, step, element)`.
template <typename F>
absl::Status Fill(const OpView& op, const Tensor& counter, Tensor* y, F value) {
  PhiloxKey key = MakePhiloxKey(op.Int("seed"), op.Int("stream"));
  auto step = static_cast<uint64_t>(static_cast<int64_t>(counter.v[0]));
  auto micro_batch = static_cast<int64_t>(counter.v[1]);
  WEFT_ASSIGN_OR_RETURN(const Cuts cuts, Cuts::FromOp(op, y->shape));
  uint64_t first = RandomFirstElement(micro_batch, cuts.whole_elements());
  for (size_t i = 0; i < y->v.size(); ++i) {
    const int64_t position = cuts.PositionOf(static_cast<int64_t>(i));
    y->v[i] = value(key, step, first + static_cast<uint64_t>(position));
  }
  return absl::OkStatus();
}

absl::Status RandomUniform(const OpView& op, absl::Span<const Tensor> in,
                           std::vector<Tensor>* out) {
  double low = op.Float("low");
  double high = op.Float("high");
  return Fill(op, in[0], &(*out)[0],
              [=](PhiloxKey key, uint64_t step, uint64_t element) {
                double u = RandomUniformAt(key, step, element);
                return low + u * (high - low);
              });
}

absl::Status RandomNormal(const OpView& op, absl::Span<const Tensor> in,
                          std::vector<Tensor>* out) {
  double mean = op.Float("mean");
  double scale = op.Float("scale");
  return Fill(op, in[0], &(*out)[0],
              [=](PhiloxKey key, uint64_t step, uint64_t element) {
                return mean + scale * RandomNormalAt(key, step, element);
              });
}

}  // namespace

void AddRandomEvaluators(EvaluatorTable* table) {
  table->Add(OpId::kRandomUniform, RandomUniform);
  table->Add(OpId::kRandomNormal, RandomNormal);
}

}  // namespace reference
}  // namespace weft
