// Softmax, its loss, dropout and the norm of gradients. See
// core/ops/loss_ops.cc for the formula of the loss and what sample weight 0
// promises.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/cuts.h"
#include "core/ops/philox.h"
#include "core/reference/evaluators.h"

namespace weft {
namespace reference {
namespace {

// log softmax of the `count` numbers at x, `stride` apart.
void LogSoftmaxRow(const double* x, double* y, int64_t count, int64_t stride) {
  double max = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < count; ++i) max = std::max(max, x[i * stride]);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += std::exp(x[i * stride] - max);
  for (int64_t i = 0; i < count; ++i) {
    y[i * stride] = x[i * stride] - max - std::log(sum);
  }
}

void LogSoftmaxAlong(const Tensor& x, int axis, Tensor* y) {
  int64_t count = x.shape.dim(axis);
  int64_t stride = x.shape.Strides()[axis];
  for (int64_t i = 0; i < static_cast<int64_t>(x.v.size()); ++i) {
    if (i / stride % count != 0) continue;  // not the first of its row
    LogSoftmaxRow(&x.v[i], &y->v[i], count, stride);
  }
}

absl::Status EvaluateLogSoftmax(const OpView& op, absl::Span<const Tensor> in,
                                std::vector<Tensor>* out) {
  int axis = *NormalizeAxis(op.Int("axis"), in[0].shape.rank());
  LogSoftmaxAlong(in[0], axis, &(*out)[0]);
  return absl::OkStatus();
}

absl::Status EvaluateSoftmax(const OpView& op, absl::Span<const Tensor> in,
                             std::vector<Tensor>* out) {
  WEFT_RETURN_IF_ERROR(EvaluateLogSoftmax(op, in, out));
  for (double& v : (*out)[0].v) v = std::exp(v);
  return absl::OkStatus();
}

// The distribution that sample `i` should have, over `classes`.
absl::StatusOr<std::vector<double>> TargetOf(const OpView& op,
                                             const Tensor& labels, int64_t i,
                                             int64_t classes) {
  double label = labels.v[i];
  if (label < 0 || label >= static_cast<double>(classes)) {
    return op.Error(ErrorCode::kLabelRange,
                    absl::StrCat("label ", label, " of sample ", i,
                                 " is outside [0, ", classes, ")"));
  }
  double smoothing = op.Float("label_smoothing");
  std::vector<double> target(classes, smoothing / classes);
  target[static_cast<size_t>(label)] += 1.0 - smoothing;
  return target;
}

absl::Status EvaluateLoss(const OpView& op, absl::Span<const Tensor> in,
                          std::vector<Tensor>* out) {
  Tensor& log_prob = (*out)[1];
  LogSoftmaxAlong(in[0], 1, &log_prob);
  int64_t classes = in[0].shape.dim(1);
  for (int64_t i = 0; i < in[0].shape.dim(0); ++i) {
    double weight = in[2].v[i];
    if (weight == 0) continue;
    WEFT_ASSIGN_OR_RETURN(std::vector<double> target,
                          TargetOf(op, in[1], i, classes));
    for (int64_t c = 0; c < classes; ++c) {
      if (target[c] == 0) continue;  // 0 * -inf is not 0
      (*out)[0].v[0] -= weight * target[c] * log_prob.v[i * classes + c];
    }
  }
  return absl::OkStatus();
}

absl::Status EvaluateLossGrad(const OpView& op, absl::Span<const Tensor> in,
                              std::vector<Tensor>* out) {
  const Tensor& log_prob = in[1];
  int64_t classes = log_prob.shape.dim(1);
  for (int64_t i = 0; i < log_prob.shape.dim(0); ++i) {
    double weight = in[3].v[i];
    if (weight == 0) continue;
    WEFT_ASSIGN_OR_RETURN(std::vector<double> target,
                          TargetOf(op, in[2], i, classes));
    for (int64_t c = 0; c < classes; ++c) {
      int64_t at = i * classes + c;
      (*out)[0].v[at] =
          in[0].v[0] * weight * (std::exp(log_prob.v[at]) - target[c]);
    }
  }
  return absl::OkStatus();
}

// The two above, one after the other.
absl::Status EvaluateLossAndGrad(const OpView& op, absl::Span<const Tensor> in,
                                 std::vector<Tensor>* out) {
  std::vector<Tensor> loss = {(*out)[0], (*out)[1]};
  WEFT_RETURN_IF_ERROR(EvaluateLoss(op, in.subspan(0, 3), &loss));
  (*out)[0] = loss[0];
  std::vector<Tensor> grad = {(*out)[1]};
  WEFT_RETURN_IF_ERROR(
      EvaluateLossGrad(op, {in[3], loss[1], in[1], in[2]}, &grad));
  (*out)[1] = grad[0];
  return absl::OkStatus();
}

absl::Status EvaluateDropout(const OpView&, absl::Span<const Tensor> in,
                             std::vector<Tensor>* out) {
  (*out)[0].v = in[0].v;
  return absl::OkStatus();
}

absl::Status EvaluateDropoutTraining(const OpView& op,
                                     absl::Span<const Tensor> in,
                                     std::vector<Tensor>* out) {
  const Tensor& x = in[0];
  double ratio = op.Float("ratio");
  PhiloxKey key = MakePhiloxKey(op.Int("seed"), op.Int("stream"));
  uint64_t step = static_cast<uint64_t>(in[1].v[0]);
  WEFT_ASSIGN_OR_RETURN(const Cuts cuts, Cuts::FromOp(op, x.shape));
  uint64_t first = RandomFirstElement(static_cast<int64_t>(in[1].v[1]),
                                      cuts.whole_elements());
  for (size_t i = 0; i < x.v.size(); ++i) {
    const auto at =
        static_cast<uint64_t>(cuts.PositionOf(static_cast<int64_t>(i)));
    double keep = RandomUniformAt(key, step, first + at) >= ratio ? 1.0 : 0.0;
    (*out)[0].v[i] = x.v[i] * keep / (1.0 - ratio);
    (*out)[1].v[i] = keep;
  }
  return absl::OkStatus();
}

absl::Status EvaluateDropoutGrad(const OpView& op, absl::Span<const Tensor> in,
                                 std::vector<Tensor>* out) {
  for (size_t i = 0; i < in[0].v.size(); ++i) {
    (*out)[0].v[i] = in[0].v[i] * in[1].v[i] / (1.0 - op.Float("ratio"));
  }
  return absl::OkStatus();
}

absl::Status EvaluateGlobalNorm(const OpView&, absl::Span<const Tensor> in,
                                std::vector<Tensor>* out) {
  double sum = 0;
  for (const Tensor& g : in) {
    for (double v : g.v) sum += v * v;
  }
  (*out)[0].v[0] = std::sqrt(sum);
  return absl::OkStatus();
}

absl::Status EvaluateClipScale(const OpView& op, absl::Span<const Tensor> in,
                               std::vector<Tensor>* out) {
  double ratio = op.Float("clip_norm") / in[0].v[0];
  (*out)[0].v[0] = ratio > 1.0 ? 1.0 : ratio;  // NaN stays
  return absl::OkStatus();
}

}  // namespace

void AddLossEvaluators(EvaluatorTable* table) {
  table->Add(OpId::kSoftmax, EvaluateSoftmax);
  table->Add(OpId::kLogSoftmax, EvaluateLogSoftmax);
  table->Add(OpId::kSoftmaxCrossEntropyLoss, EvaluateLoss);
  table->Add(OpId::kSoftmaxCrossEntropyLossGrad, EvaluateLossGrad);
  table->Add(OpId::kSoftmaxCrossEntropyLossAndGrad, EvaluateLossAndGrad);
  table->Add(OpId::kDropout, EvaluateDropout);
  table->Add(OpId::kDropoutTraining, EvaluateDropoutTraining);
  table->Add(OpId::kDropoutGrad, EvaluateDropoutGrad);
  table->Add(OpId::kGlobalNorm, EvaluateGlobalNorm);
  table->Add(OpId::kClipScale, EvaluateClipScale);
}

}  // namespace reference
}  // namespace weft
