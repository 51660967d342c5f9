// Self-attention and its gradient, position by position. See
// core/ops/attention_ops.cc for the formulas.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ops/cuts.h"
#include "core/ops/philox.h"
#include "core/reference/evaluators.h"

namespace weft {
namespace reference {
namespace {

struct Attention {
  Attention(const OpView& op, absl::Span<const Tensor> in, int counter)
      : qkv(in[0].v),
        batch(in[0].shape.dim(0)),
        tokens(in[0].shape.dim(1)),
        width(in[0].shape.dim(2) / 3),
        heads(op.Int("heads")),
        head(width / heads),
        causal(op.Int("causal") != 0),
        scale(op.Has("scale") ? op.Float("scale")
                              : 1.0 / std::sqrt(static_cast<double>(head))) {
    if (!op.has_input(counter)) return;
    cuts = *Cuts::FromOp(op, {batch, heads, tokens, tokens});
    ratio = op.Float("ratio");
    key = MakePhiloxKey(op.Int("seed"), op.Int("stream"));
    step = static_cast<uint64_t>(in[counter].v[0]);
    first = RandomFirstElement(static_cast<int64_t>(in[counter].v[1]),
                               cuts.whole_elements());
  }

  // Where row r of a head begins, in qkv (part 0, 1, 2) and in rows of `width`.
  const double* Row(int part, int64_t b, int64_t h, int64_t r) const {
    return qkv.data() + ((b * tokens + r) * 3 + part) * width + h * head;
  }
  int64_t At(int64_t b, int64_t h, int64_t r) const {
    return (b * tokens + r) * width + h * head;
  }
  double Dot(const double* x, const double* y) const {
    double sum = 0;
    for (int64_t i = 0; i < head; ++i) sum += x[i] * y[i];
    return sum;
  }
  double Score(int64_t b, int64_t h, int64_t r, int64_t c) const {
    return scale * Dot(Row(0, b, h, r), Row(1, b, h, c));
  }
  int64_t Visible(int64_t r) const { return causal ? r + 1 : tokens; }
  // What the weight of c for r is multiplied by.
  double Keep(int64_t b, int64_t h, int64_t r, int64_t c) const {
    if (ratio == 0) return 1;
    const int64_t element =
        cuts.PositionOf(((b * heads + h) * tokens + r) * tokens + c);
    double u =
        RandomUniformAt(key, step, first + static_cast<uint64_t>(element));
    return u >= ratio ? 1 / (1 - ratio) : 0;
  }

  const std::vector<double>& qkv;
  Cuts cuts;
  int64_t batch, tokens, width, heads, head;
  bool causal;
  double scale;
  double ratio = 0;
  PhiloxKey key = {};
  uint64_t step = 0, first = 0;
};

template <typename F>
void ForEachRow(const Attention& t, F f) {
  for (int64_t b = 0; b < t.batch; ++b) {
    for (int64_t h = 0; h < t.heads; ++h) {
      for (int64_t r = 0; r < t.tokens; ++r) f(b, h, r);
    }
  }
}

absl::Status EvaluateSelfAttention(const OpView& op,
                                   absl::Span<const Tensor> in,
                                   std::vector<Tensor>* out) {
  const Attention t(op, in, 1);
  size_t row = 0;
  ForEachRow(t, [&](int64_t b, int64_t h, int64_t r) {
    std::vector<double> scores;
    for (int64_t c = 0; c < t.Visible(r); ++c) {
      scores.push_back(t.Score(b, h, r, c));
    }
    double max = -std::numeric_limits<double>::infinity();
    for (double s : scores) max = std::max(max, s);
    double sum = 0;
    for (double s : scores) sum += std::exp(s - max);
    double* y = (*out)[0].v.data() + t.At(b, h, r);
    for (int64_t c = 0; c < t.Visible(r); ++c) {
      double weight = std::exp(scores[c] - max) / sum * t.Keep(b, h, r, c);
      for (int64_t i = 0; i < t.head; ++i) {
        y[i] += weight * t.Row(2, b, h, c)[i];
      }
    }
    (*out)[1].v[row++] = max + std::log(sum);
  });
  return absl::OkStatus();
}

absl::Status EvaluateSelfAttentionGrad(const OpView& op,
                                       absl::Span<const Tensor> in,
                                       std::vector<Tensor>* out) {
  const Attention t(op, in, 5);
  auto grad = [&](int part, int64_t b, int64_t h, int64_t r) {
    return (*out)[0].v.data() + (t.Row(part, b, h, r) - t.qkv.data());
  };
  size_t row = 0;
  ForEachRow(t, [&](int64_t b, int64_t h, int64_t r) {
    const double* dy = in[3].v.data() + t.At(b, h, r);
    double taken = t.Dot(dy, in[1].v.data() + t.At(b, h, r));
    if (op.has_input(4)) taken -= in[4].v[row];
    for (int64_t c = 0; c < t.Visible(r); ++c) {
      const double weight = std::exp(t.Score(b, h, r, c) - in[2].v[row]);
      const double keep = t.Keep(b, h, r, c);
      const double dweight = t.Dot(dy, t.Row(2, b, h, c)) * keep;
      const double dscore = weight * (dweight - taken) * t.scale;
      for (int64_t i = 0; i < t.head; ++i) {
        grad(0, b, h, r)[i] += dscore * t.Row(1, b, h, c)[i];
        grad(1, b, h, c)[i] += dscore * t.Row(0, b, h, r)[i];
        grad(2, b, h, c)[i] += weight * keep * dy[i];
      }
    }
    ++row;
  });
  return absl::OkStatus();
}

}  // namespace

void AddAttentionEvaluators(EvaluatorTable* table) {
  table->Add(OpId::kSelfAttention, EvaluateSelfAttention);
  table->Add(OpId::kSelfAttentionGrad, EvaluateSelfAttentionGrad);
}

}  // namespace reference
}  // namespace weft
