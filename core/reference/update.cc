// Updates of state, element by element: the formulas of core/ops/update_ops.cc
// with all intermediates in double.
#include <cmath>

#include "core/reference/evaluators.h"

namespace weft {
namespace reference {
namespace {

absl::Status Assign(const OpView& op, absl::Span<const Tensor> in,
                    std::vector<Tensor>* out) {
  (*out)[0].v = in[1].v;
  return absl::OkStatus();
}

absl::Status Ema(const OpView& op, absl::Span<const Tensor> in,
                 std::vector<Tensor>* out) {
  double momentum = op.Float("momentum");
  for (size_t i = 0; i < in[0].v.size(); ++i) {
    (*out)[0].v[i] = momentum * in[0].v[i] + (1 - momentum) * in[1].v[i];
  }
  return absl::OkStatus();
}

absl::Status Sgd(const OpView& op, absl::Span<const Tensor> in,
                 std::vector<Tensor>* out) {
  double decay = op.Float("weight_decay"), rate = in[2].v[0];
  for (size_t i = 0; i < in[0].v.size(); ++i) {
    double p = in[0].v[i];
    (*out)[0].v[i] = p - rate * (in[1].v[i] + decay * p);
  }
  return absl::OkStatus();
}

absl::Status Momentum(const OpView& op, absl::Span<const Tensor> in,
                      std::vector<Tensor>* out) {
  double decay = op.Float("weight_decay"), rate = in[3].v[0];
  double momentum = op.Float("momentum");
  bool nesterov = op.Int("nesterov") != 0;
  for (size_t i = 0; i < in[0].v.size(); ++i) {
    double p = in[0].v[i];
    double g = in[2].v[i] + decay * p;
    double v = momentum * in[1].v[i] + g;
    (*out)[0].v[i] = p - rate * (nesterov ? g + momentum * v : v);
    (*out)[1].v[i] = v;
  }
  return absl::OkStatus();
}

absl::Status Adam(const OpView& op, absl::Span<const Tensor> in,
                  std::vector<Tensor>* out) {
  double beta1 = op.Float("beta1"), beta2 = op.Float("beta2");
  double decay = op.Float("weight_decay"), epsilon = op.Float("epsilon");
  bool decoupled = op.Int("decoupled") != 0;
  double rate = in[4].v[0];
  double t = in[5].v[0] + 1;
  double correction1 = 1 - std::pow(beta1, t);
  double correction2 = 1 - std::pow(beta2, t);
  for (size_t i = 0; i < in[0].v.size(); ++i) {
    double p = in[0].v[i];
    double g = in[3].v[i] + (decoupled ? 0 : decay * p);
    double m = beta1 * in[1].v[i] + (1 - beta1) * g;
    double v = beta2 * in[2].v[i] + (1 - beta2) * g * g;
    double direction =
        (m / correction1) / (std::sqrt(v / correction2) + epsilon);
    if (decoupled) direction += decay * p;
    (*out)[0].v[i] = p - rate * direction;
    (*out)[1].v[i] = m;
    (*out)[2].v[i] = v;
  }
  return absl::OkStatus();
}

absl::Status Adagrad(const OpView& op, absl::Span<const Tensor> in,
                     std::vector<Tensor>* out) {
  double decay = op.Float("weight_decay"), epsilon = op.Float("epsilon");
  double rate = in[3].v[0];
  for (size_t i = 0; i < in[0].v.size(); ++i) {
    double p = in[0].v[i];
    double g = in[2].v[i] + decay * p;
    double sum = in[1].v[i] + g * g;
    (*out)[0].v[i] = p - rate * g / (std::sqrt(sum) + epsilon);
    (*out)[1].v[i] = sum;
  }
  return absl::OkStatus();
}

}  // namespace

void AddUpdateEvaluators(EvaluatorTable* table) {
  table->Add(OpId::kAssign, Assign);
  table->Add(OpId::kEmaUpdate, Ema);
  table->Add(OpId::kSgdUpdate, Sgd);
  table->Add(OpId::kMomentumUpdate, Momentum);
  table->Add(OpId::kAdamUpdate, Adam);
  table->Add(OpId::kAdagradUpdate, Adagrad);
}

}  // namespace reference
}  // namespace weft
