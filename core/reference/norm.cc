// Batch and layer normalisation. Both normalise groups of elements, those of a
// channel or those of a row, and differ in where the groups lie.
#include <cmath>
#include <functional>

#include "core/reference/evaluators.h"

namespace weft {
namespace reference {
namespace {

// Splits row-major positions of x into statistics groups and parameters:
// element i belongs to group(i), and has scale and bias of parameter(i).
struct Grouping {
  int64_t elements = 0;
  int64_t groups = 0;
  std::function<int64_t(int64_t)> group;
  std::function<int64_t(int64_t)> parameter;

  double GroupSize() const {
    return static_cast<double>(elements) / static_cast<double>(groups);
  }
};

Grouping ByChannel(const Shape& x) {
  int64_t pixels = 1;
  for (int d = 2; d < x.rank(); ++d) pixels *= x.dim(d);
  int64_t channels = x.dim(1);
  auto channel = [pixels, channels](int64_t i) {
    return i / pixels % channels;
  };
  return {x.num_elements(), channels, channel, channel};
}

Grouping ByRow(const Shape& x, int64_t axis) {
  int64_t rows = 1, row = 1;
  for (int d = 0; d < x.rank(); ++d) {
    (d < *NormalizeAxis(axis, x.rank()) ? rows : row) *= x.dim(d);
  }
  return {x.num_elements(), rows, [row](int64_t i) { return i / row; },
          [row](int64_t i) { return i % row; }};
}

// Mean of f(i) over the elements i of each group.
template <typename F>
std::vector<double> GroupMean(const Grouping& g, F f) {
  std::vector<double> mean(g.groups, 0.0);
  for (int64_t i = 0; i < g.elements; ++i) mean[g.group(i)] += f(i);
  for (double& m : mean) m /= g.GroupSize();
  return mean;
}

struct Moments {
  std::vector<double> mean, variance;
};

Moments MomentsOf(const Grouping& g, const std::vector<double>& x) {
  Moments m;
  m.mean = GroupMean(g, [&](int64_t i) { return x[i]; });
  m.variance = GroupMean(g, [&](int64_t i) {
    double d = x[i] - m.mean[g.group(i)];
    return d * d;
  });
  return m;
}

std::vector<double> InverseStd(const std::vector<double>& variance,
                               double epsilon) {
  std::vector<double> inv;
  for (double v : variance) inv.push_back(1.0 / std::sqrt(v + epsilon));
  return inv;
}

// y = (x - mean) * inv * scale + bias; an empty bias is zero.
void Normalize(const Grouping& g, const std::vector<double>& x,
               const std::vector<double>& mean, const std::vector<double>& inv,
               const Tensor& scale, const Tensor& bias,
               std::vector<double>* y) {
  for (int64_t i = 0; i < g.elements; ++i) {
    int64_t p = g.parameter(i);
    (*y)[i] = (x[i] - mean[g.group(i)]) * inv[g.group(i)] * scale.v[p] +
              (bias.v.empty() ? 0.0 : bias.v[p]);
  }
}

// (dY, X, scale) with the forward statistics -> dX, dscale, dbias.
void NormalizeGrad(const Grouping& g, absl::Span<const Tensor> in,
                   const std::vector<double>& mean,
                   const std::vector<double>& inv, std::vector<Tensor>* out) {
  const std::vector<double>& dy = in[0].v;
  auto x_hat = [&](int64_t i) {
    return (in[1].v[i] - mean[g.group(i)]) * inv[g.group(i)];
  };
  auto scaled = [&](int64_t i) { return dy[i] * in[2].v[g.parameter(i)]; };
  std::vector<double> mean_dy = GroupMean(g, scaled);
  std::vector<double> mean_dy_x_hat =
      GroupMean(g, [&](int64_t i) { return scaled(i) * x_hat(i); });
  for (int64_t i = 0; i < g.elements; ++i) {
    int64_t group = g.group(i), p = g.parameter(i);
    (*out)[0].v[i] = inv[group] * (scaled(i) - mean_dy[group] -
                                   x_hat(i) * mean_dy_x_hat[group]);
    (*out)[1].v[p] += dy[i] * x_hat(i);
    (*out)[2].v[p] += dy[i];
  }
}

void AddTo(const std::vector<double>& more, std::vector<double>* sum) {
  for (size_t i = 0; i < more.size(); ++i) (*sum)[i] += more[i];
}

absl::Status EvaluateBatchNormTraining(const OpView& op,
                                       absl::Span<const Tensor> in,
                                       std::vector<Tensor>* out) {
  Grouping g = ByChannel(in[0].shape);
  Moments m = MomentsOf(g, in[0].v);
  Normalize(g, in[0].v, m.mean, InverseStd(m.variance, op.Float("epsilon")),
            in[1], in[2], &(*out)[0].v);
  if (op.has_input(3)) AddTo(in[3].v, &(*out)[0].v);
  (*out)[1].v = m.mean;
  (*out)[2].v = m.variance;
  return absl::OkStatus();
}

absl::Status EvaluateBatchNormalization(const OpView& op,
                                        absl::Span<const Tensor> in,
                                        std::vector<Tensor>* out) {
  Grouping g = ByChannel(in[0].shape);
  bool training = op.Int("training_mode") != 0;
  Moments m = training ? MomentsOf(g, in[0].v) : Moments{in[3].v, in[4].v};
  Normalize(g, in[0].v, m.mean, InverseStd(m.variance, op.Float("epsilon")),
            in[1], in[2], &(*out)[0].v);
  double keep = op.Float("momentum");
  for (size_t r = 1; r < out->size(); ++r) {  // the running statistics
    const std::vector<double>& now = r == 1 ? m.mean : m.variance;
    for (size_t c = 0; c < now.size(); ++c) {
      (*out)[r].v[c] = in[2 + r].v[c] * keep + now[c] * (1.0 - keep);
    }
  }
  return absl::OkStatus();
}

absl::Status EvaluateBatchNormGrad(const OpView& op,
                                   absl::Span<const Tensor> in,
                                   std::vector<Tensor>* out) {
  NormalizeGrad(ByChannel(in[1].shape), in, in[3].v,
                InverseStd(in[4].v, op.Float("epsilon")), out);
  return absl::OkStatus();
}

absl::Status EvaluateLayerNormalization(const OpView& op,
                                        absl::Span<const Tensor> in,
                                        std::vector<Tensor>* out) {
  Grouping g = ByRow(in[0].shape, op.Int("axis"));
  std::vector<double> x = in[0].v;
  if (op.has_input(3)) AddTo(in[3].v, &x);
  Moments m = MomentsOf(g, x);
  std::vector<double> inv = InverseStd(m.variance, op.Float("epsilon"));
  Normalize(g, x, m.mean, inv, in[1], op.has_input(2) ? in[2] : Tensor(),
            &(*out)[0].v);
  if (out->size() > 3) (*out)[3].v = x;
  (*out)[1].v = m.mean;
  (*out)[2].v = inv;
  return absl::OkStatus();
}

absl::Status EvaluateLayerNormGrad(const OpView& op,
                                   absl::Span<const Tensor> in,
                                   std::vector<Tensor>* out) {
  NormalizeGrad(ByRow(in[1].shape, op.Int("axis")), in, in[3].v, in[4].v, out);
  return absl::OkStatus();
}

}  // namespace

void AddNormEvaluators(EvaluatorTable* table) {
  table->Add(OpId::kBatchNormalization, EvaluateBatchNormalization);
  table->Add(OpId::kBatchNormTraining, EvaluateBatchNormTraining);
  table->Add(OpId::kBatchNormGrad, EvaluateBatchNormGrad);
  table->Add(OpId::kLayerNormalization, EvaluateLayerNormalization);
  table->Add(OpId::kLayerNormGrad, EvaluateLayerNormGrad);
}

}  // namespace reference
}  // namespace weft
