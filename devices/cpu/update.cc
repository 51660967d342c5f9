// Updates of state: result i is the new value of operand i, in the same memory
// or another. With g' = g + weight_decay p:
//
//   Ema       x = momentum x + (1 - momentum) value
//   Sgd       p -= lr g'
//   Momentum  v = momentum v + g';  p -= lr v, or lr (g' + momentum v):
//   Nesterov Adam      m, v = running means of g' and g'^2;
//             p -= lr m^ / (sqrt(v^) + epsilon), both corrected for their
//             start; decoupled: g for g', and lr weight_decay p is taken off p
//             as well
//   Adagrad   a += g'^2;  p -= lr g' / (sqrt(a) + epsilon)
#include "devices/cpu/factories.h"
#include "devices/cpu/numeric.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/via_float.h"

WEFT_CPU_BEGIN
namespace {

// How many operands of the variable's type there are, and how many of those are
// replaced.
struct UpdateShape {
  size_t same = 0;
  size_t updated = 0;
  bool rate = false;     // then a learning rate []
  bool counter = false;  // then a counter i64[2]
};

UpdateShape ShapeOf(uint32_t op) {
  switch (op) {
    case WEFT_OP_SGD_UPDATE:
      return {2, 1, true, false};
    case WEFT_OP_MOMENTUM_UPDATE:
      return {3, 2, true, false};
    case WEFT_OP_ADAM_UPDATE:
      return {4, 3, true, true};
    case WEFT_OP_ADAGRAD_UPDATE:
      return {3, 2, true, false};
    default:
      return {2, 1, false, false};
  }
}

bool CheckOperands(const Op& op, const UpdateShape& s) {
  const size_t inputs = s.same + (s.rate ? 1 : 0) + (s.counter ? 1 : 0);
  if (!op.Arity(inputs, s.updated)) return false;
  bool fits = true;
  for (size_t i = 0; i < s.same + s.updated; ++i) {
    const Tensor& t = i < s.same ? op.in[i] : op.out[i - s.same];
    fits = fits && t.dtype == op.in[0].dtype && t.SameDims(op.in[0]);
  }
  if (s.rate) {
    const Tensor& rate = op.in[s.same];
    fits = fits && rate.count == 1 &&
           (rate.dtype == WEFT_F32 || rate.dtype == WEFT_F64);
  }
  if (s.counter) {
    const Tensor& counter = op.in[s.same + 1];
    fits = fits && counter.count == 2 && counter.dtype == WEFT_I64;
  }
  return op.Check(fits, "operands that do not fit the variable");
}

std::unique_ptr<Kernel> MakeAssign(const Op& op) {
  const size_t bytes = static_cast<size_t>(op.in[0].extent);
  return MakeKernel(
      [bytes](const Args& a) {
        if (bytes > 0 && a.out[0] != a.in[1]) {
          std::memmove(a.out[0], a.in[1], bytes);
        }
      },
      1u);
}

// The learning rate, operand `i`.
struct Rate {
  int i;
  bool wide;

  template <class C>
  C Read(const Args& a) const {
    return static_cast<C>(wide ? a.Input<double>(i)[0] : a.Input<float>(i)[0]);
  }
};

template <class T>
std::unique_ptr<Kernel> MakeEma(int64_t n, double momentum) {
  return MakeKernel(
      [=](const Args& a) {
        const T *x = a.Input<T>(0), *value = a.Input<T>(1);
        T* y = a.Output<T>(0);
        const T keep = static_cast<T>(momentum);
        const T take = static_cast<T>(1 - momentum);
        ParallelElements(n, kPlain, [=](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            y[i] = keep * x[i] + take * value[i];
          }
        });
      },
      1u);
}

template <class T>
std::unique_ptr<Kernel> MakeSgd(int64_t n, Rate rate, double weight_decay) {
  return MakeKernel(
      [=](const Args& a) {
        const T *p = a.Input<T>(0), *g = a.Input<T>(1);
        T* y = a.Output<T>(0);
        const T lr = rate.Read<T>(a), decay = static_cast<T>(weight_decay);
        ParallelElements(n, kPlain, [=](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            y[i] = p[i] - lr * (g[i] + decay * p[i]);
          }
        });
      },
      1u);
}

template <class T>
std::unique_ptr<Kernel> MakeMomentum(int64_t n, Rate rate, double weight_decay,
                                     double momentum, bool nesterov) {
  return MakeKernel(
      [=](const Args& a) {
        const T *p = a.Input<T>(0), *v = a.Input<T>(1), *g = a.Input<T>(2);
        T *new_p = a.Output<T>(0), *new_v = a.Output<T>(1);
        const T lr = rate.Read<T>(a), decay = static_cast<T>(weight_decay);
        const T keep = static_cast<T>(momentum);
        ParallelElements(n, kPlain, [=](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const T old = p[i];
            const T gradient = g[i] + decay * old;
            const T velocity = keep * v[i] + gradient;
            const T direction =
                nesterov ? gradient + keep * velocity : velocity;
            new_v[i] = velocity;
            new_p[i] = old - lr * direction;
          }
        });
      },
      1u);
}

struct AdamAttrs {
  double beta1, beta2, epsilon, weight_decay;
  bool decoupled;
};

template <class T>
std::unique_ptr<Kernel> MakeAdam(int64_t n, Rate rate, const AdamAttrs& attrs) {
  return MakeKernel(
      [n, rate, attrs](const Args& a) {
        const T *p = a.Input<T>(0), *m = a.Input<T>(1), *v = a.Input<T>(2);
        const T* g = a.Input<T>(3);
        T *new_p = a.Output<T>(0), *new_m = a.Output<T>(1);
        T* new_v = a.Output<T>(2);
        const T lr = rate.Read<T>(a);
        const double t = static_cast<double>(a.Input<int64_t>(5)[0]) + 1;
        // Differences of nearly equal numbers: in double. Multiplied with, as
        // divisions would take longer than the memory does.
        const T start1 = static_cast<T>(1 / (1 - std::pow(attrs.beta1, t)));
        const T start2 = static_cast<T>(1 / (1 - std::pow(attrs.beta2, t)));
        const T beta1 = static_cast<T>(attrs.beta1);
        const T beta2 = static_cast<T>(attrs.beta2);
        const T rest1 = static_cast<T>(1 - attrs.beta1);
        const T rest2 = static_cast<T>(1 - attrs.beta2);
        const T epsilon = static_cast<T>(attrs.epsilon);
        const T decay = static_cast<T>(attrs.weight_decay);
        const T coupled = attrs.decoupled ? T(0) : decay;
        const T apart = attrs.decoupled ? decay : T(0);
        ParallelElements(n, kPlain, [=](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const T old = p[i];
            const T gradient = g[i] + coupled * old;
            const T mean = beta1 * m[i] + rest1 * gradient;
            const T square = beta2 * v[i] + rest2 * (gradient * gradient);
            const T direction =
                (mean * start1) / (std::sqrt(square * start2) + epsilon);
            new_m[i] = mean;
            new_v[i] = square;
            new_p[i] = old - lr * (direction + apart * old);
          }
        });
      },
      1u);
}

template <class T>
std::unique_ptr<Kernel> MakeAdagrad(int64_t n, Rate rate, double weight_decay,
                                    double epsilon_attr) {
  return MakeKernel(
      [=](const Args& a) {
        const T *p = a.Input<T>(0), *sum = a.Input<T>(1), *g = a.Input<T>(2);
        T *new_p = a.Output<T>(0), *new_sum = a.Output<T>(1);
        const T lr = rate.Read<T>(a), decay = static_cast<T>(weight_decay);
        const T epsilon = static_cast<T>(epsilon_attr);
        ParallelElements(n, kPlain, [=](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const T old = p[i];
            const T gradient = g[i] + decay * old;
            const T total = sum[i] + gradient * gradient;
            new_sum[i] = total;
            new_p[i] = old - lr * (gradient / (std::sqrt(total) + epsilon));
          }
        });
      },
      1u);
}

template <class T>
std::unique_ptr<Kernel> MakeFor(const Op& op, const UpdateShape& s) {
  const int64_t n = op.in[0].count;
  const double decay = op.Float("weight_decay", 0.0);
  Rate rate{static_cast<int>(s.same), false};
  if (s.rate) rate.wide = op.in[s.same].dtype == WEFT_F64;
  switch (op.id) {
    case WEFT_OP_EMA_UPDATE:
      return MakeEma<T>(n, op.Float("momentum", 0.9));
    case WEFT_OP_SGD_UPDATE:
      return MakeSgd<T>(n, rate, decay);
    case WEFT_OP_MOMENTUM_UPDATE:
      return MakeMomentum<T>(n, rate, decay, op.Float("momentum", 0.9),
                             op.Int("nesterov", 0) != 0);
    case WEFT_OP_ADAM_UPDATE:
      return MakeAdam<T>(
          n, rate,
          AdamAttrs{op.Float("beta1", 0.9), op.Float("beta2", 0.999),
                    op.Float("epsilon", 1e-8), decay,
                    op.Int("decoupled", 0) != 0});
    case WEFT_OP_ADAGRAD_UPDATE:
      return MakeAdagrad<T>(n, rate, decay, op.Float("epsilon", 1e-10));
    default:
      return nullptr;
  }
}

std::unique_ptr<Kernel> UpdateFloat(const Op& op) {
  return WithF32F64(op.in[0].dtype, [&](auto tag) {
    return MakeFor<typename decltype(tag)::Storage>(op, ShapeOf(op.id));
  });
}

}  // namespace

std::unique_ptr<Kernel> MakeUpdate(const Op& op) {
  if (!CheckOperands(op, ShapeOf(op.id))) return nullptr;
  if (op.id == WEFT_OP_ASSIGN) return MakeAssign(op);
  return ViaFloat(op, UpdateFloat);
}

WEFT_CPU_END
