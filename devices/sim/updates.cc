// Updates of state, in place or not: Assign, gradient descent with and without
// momentum, of one variable. What is read of an element is read before it is
// written. g is the gradient times the multiplier, the optional last operand,
// which leaves state as it is where it is NaN.
#include <cstring>

#include "devices/sim/kernels.h"

namespace weft_sim {
namespace {

using weft_sdk::Call;
using weft_sdk::Kernel;
using weft_sdk::Op;

bool IsScalar(const weft_sdk::Tensor& t) {
  return t.dtype() == WEFT_F32 && t.numel() == 1;
}

// The first `count` inputs and all outputs: one float type and shape; then the
// learning rate and, perhaps, a multiplier.
bool MatchUpdate(const Op& op, int count) {
  const uint32_t type = op.out(0).dtype();
  if (op.num_in() < count + 1 || op.num_in() > count + 2 || !IsFloat(type) ||
      op.num_out() != count - 1 || !op.all(type, 0, count) ||
      !IsScalar(op.in(count))) {
    return false;
  }
  if (op.num_in() == count + 2 && !IsScalar(op.in(count + 1))) return false;
  for (int i = 0; i < count; ++i) {
    if (!op.in(i).same_dims(op.in(0))) return false;
  }
  return op.out(0).same_dims(op.in(0));
}

// (variable, value) -> value
class Assign : public Kernel {
 public:
  static bool Match(const Op& op, weft_match* answer) {
    answer->in_place = 1;
    return op.num_in() == 2 && op.in(1).dtype() == op.out(0).dtype() &&
           op.in(1).same_dims(op.out(0));
  }
  explicit Assign(const Op& op) : bytes_(op.out(0).bytes()) {}
  void Launch(const Call& call) const override {
    if (bytes_ != 0) {
      std::memmove(call.out<char>(0), call.in<char>(1), bytes_);
    }
  }

 private:
  int64_t bytes_;
};

// (param, grad, lr, multiplier?): g' = g + decay p;  p = p - lr g'
class Sgd : public Kernel {
 public:
  static bool Match(const Op& op, weft_match* answer) {
    answer->in_place = 1;
    return MatchUpdate(op, 2);
  }
  explicit Sgd(const Op& op)
      : type_(op.out(0).dtype()),
        n_(op.out(0).numel()),
        scaled_(op.num_in() == 4),
        decay_(op.Float("weight_decay")) {}
  void Launch(const Call& call) const override {
    WithType(type_, [&](auto zero) {
      using T = decltype(zero);
      const T* p = call.in<T>(0);
      const T* g = call.in<T>(1);
      const double lr = *call.in<float>(2);
      const double scale = scaled_ ? *call.in<float>(3) : 1;
      T* y = call.out<T>(0);
      for (int64_t i = 0; i < n_; ++i) {
        const double step = lr * (scale * g[i] + decay_ * p[i]);
        y[i] = scale != scale ? p[i] : static_cast<T>(p[i] - step);
      }
    });
  }

 private:
  uint32_t type_;
  int64_t n_;
  bool scaled_;
  double decay_;
};

// (param, velocity, grad, lr, multiplier?): g' = g + decay p;
// v = momentum v + g';  p = p - lr v, or with nesterov p - lr (g' + momentum v)
class Momentum : public Kernel {
 public:
  static bool Match(const Op& op, weft_match* answer) {
    answer->in_place = 1;
    return op.num_out() == 2 && op.out(1).same_dims(op.out(0)) &&
           MatchUpdate(op, 3);
  }
  explicit Momentum(const Op& op)
      : type_(op.out(0).dtype()),
        n_(op.out(0).numel()),
        scaled_(op.num_in() == 5),
        momentum_(op.Float("momentum")),
        nesterov_(op.Int("nesterov") != 0),
        decay_(op.Float("weight_decay")) {}
  void Launch(const Call& call) const override {
    WithType(type_, [&](auto zero) {
      using T = decltype(zero);
      const T* p = call.in<T>(0);
      const T* v = call.in<T>(1);
      const T* g = call.in<T>(2);
      const double lr = *call.in<float>(3);
      const double scale = scaled_ ? *call.in<float>(4) : 1;
      T* new_p = call.out<T>(0);
      T* new_v = call.out<T>(1);
      for (int64_t i = 0; i < n_; ++i) {
        const double gradient = scale * g[i] + decay_ * p[i];
        const double velocity = momentum_ * v[i] + gradient;
        const double step =
            nesterov_ ? gradient + momentum_ * velocity : velocity;
        const bool skipped = scale != scale;
        new_p[i] = skipped ? p[i] : static_cast<T>(p[i] - lr * step);
        new_v[i] = skipped ? v[i] : static_cast<T>(velocity);
      }
    });
  }

 private:
  uint32_t type_;
  int64_t n_;
  bool scaled_;
  double momentum_;
  bool nesterov_;
  double decay_;
};

}  // namespace

void RegisterUpdates(weft_sdk::Registry* kernels) {
  kernels->Add<Assign>(WEFT_OP_ASSIGN);
  kernels->Add<Sgd>(WEFT_OP_SGD_UPDATE);
  kernels->Add<Momentum>(WEFT_OP_MOMENTUM_UPDATE);
}

}  // namespace weft_sim
