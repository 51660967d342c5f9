// Updates of state, element by element: the formulas of core/ops/update_ops.cc
// with all intermediates in double.
#include "core/ops/update.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/reference/evaluators.h"

namespace weft {
namespace reference {
namespace {

using Tensors = absl::Span<const Tensor>;

absl::Status Assign(const OpView& op, Tensors in, std::vector<Tensor>* out) {
  (*out)[0].v = in[1].v;
  return absl::OkStatus();
}

// One element of one variable: its state, which the formula changes, and its
// gradient, times the multiplier.
struct Element {
  double* state;
  double gradient;

  // With a decay that goes into the gradient.
  double Decayed(double decay) const { return gradient + decay * state[0]; }
};

// Applies `formula` to every element of every variable.
template <typename F>
absl::Status ForEach(const OpView& op, Tensors in, std::vector<Tensor>* out,
                     F formula) {
  const UpdateLayout layout = LayoutOfUpdate(op.schema(), op.num_inputs());
  const int always = op.schema().inputs.min - layout.slots - 1;
  double multiplier = 1;
  if (layout.shared > always && op.has_input(layout.Shared(always))) {
    multiplier = in[layout.Shared(always)].v[0];
  }
  for (int v = 0; v < layout.variables; ++v) {
    const std::vector<double>& gradient = in[layout.Gradient(v)].v;
    for (size_t i = 0; i < gradient.size(); ++i) {
      double state[3];
      for (int s = 0; s < layout.slots; ++s) {
        state[s] = in[layout.State(v, s)].v[i];
      }
      if (!std::isnan(multiplier)) {
        formula(Element{state, multiplier * gradient[i]});
      }
      for (int s = 0; s < layout.slots; ++s) {
        (*out)[layout.State(v, s)].v[i] = state[s];
      }
    }
  }
  return absl::OkStatus();
}

// What all variables share, by position.
double Shared(const OpView& op, Tensors in, int i) {
  return in[LayoutOfUpdate(op.schema(), op.num_inputs()).Shared(i)].v[0];
}

absl::Status Ema(const OpView& op, Tensors in, std::vector<Tensor>* out) {
  const double momentum = op.Float("momentum");
  return ForEach(op, in, out, [=](const Element& e) {
    e.state[0] = momentum * e.state[0] + (1 - momentum) * e.gradient;
  });
}

absl::Status Sgd(const OpView& op, Tensors in, std::vector<Tensor>* out) {
  const double decay = op.Float("weight_decay"), rate = Shared(op, in, 0);
  return ForEach(op, in, out, [=](const Element& e) {
    e.state[0] -= rate * e.Decayed(decay);
  });
}

absl::Status Momentum(const OpView& op, Tensors in, std::vector<Tensor>* out) {
  const double decay = op.Float("weight_decay"), rate = Shared(op, in, 0);
  const double momentum = op.Float("momentum");
  const bool nesterov = op.Int("nesterov") != 0;
  return ForEach(op, in, out, [=](const Element& e) {
    const double g = e.Decayed(decay);
    const double v = momentum * e.state[1] + g;
    e.state[0] -= rate * (nesterov ? g + momentum * v : v);
    e.state[1] = v;
  });
}

absl::Status Adam(const OpView& op, Tensors in, std::vector<Tensor>* out) {
  const double beta1 = op.Float("beta1"), beta2 = op.Float("beta2");
  const double decay = op.Float("weight_decay"), epsilon = op.Float("epsilon");
  const bool decoupled = op.Int("decoupled") != 0;
  const double rate = Shared(op, in, 0), t = Shared(op, in, 1) + 1;
  const double correction1 = 1 - std::pow(beta1, t);
  const double correction2 = 1 - std::pow(beta2, t);
  return ForEach(op, in, out, [=](const Element& e) {
    const double g = e.Decayed(decoupled ? 0 : decay);
    const double m = beta1 * e.state[1] + (1 - beta1) * g;
    const double v = beta2 * e.state[2] + (1 - beta2) * g * g;
    double direction =
        (m / correction1) / (std::sqrt(v / correction2) + epsilon);
    if (decoupled) direction += decay * e.state[0];
    e.state[0] -= rate * direction;
    e.state[1] = m;
    e.state[2] = v;
  });
}

absl::Status Adagrad(const OpView& op, Tensors in, std::vector<Tensor>* out) {
  const double decay = op.Float("weight_decay"), epsilon = op.Float("epsilon");
  const double rate = Shared(op, in, 0);
  return ForEach(op, in, out, [=](const Element& e) {
    const double g = e.Decayed(decay);
    e.state[1] += g * g;
    e.state[0] -= rate * g / (std::sqrt(e.state[1]) + epsilon);
  });
}

absl::Status LossScale(const OpView& op, Tensors in, std::vector<Tensor>* out) {
  const double scale = in[0].v[0], good_steps = in[1].v[0] + 1;
  const bool finite = std::isfinite(in[2].v[0]);
  double& next = (*out)[0].v[0];
  double& steps = (*out)[1].v[0];
  next = scale;
  steps = finite ? good_steps : 0;
  if (!finite) {
    next = std::max(1.0, op.Float("backoff_factor") * scale);
  } else if (good_steps >= static_cast<double>(op.Int("growth_interval"))) {
    const double grown = op.Float("growth_factor") * scale;
    if (grown <= std::numeric_limits<float>::max()) next = grown;
    steps = 0;
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
  table->Add(OpId::kLossScaleUpdate, LossScale);
}

}  // namespace reference
}  // namespace weft
