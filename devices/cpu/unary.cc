// Elementwise functions of one operand: Neg Abs Relu Sign on all numbers, the
// others on floats.
#include "devices/cpu/factories.h"
#include "devices/cpu/map.h"
#include "devices/cpu/scalar_ops.h"

WEFT_CPU_BEGIN
namespace {

// x (1 + tanh(u)) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3): x / (1 + exp(-2u))
// is the same without the difference of nearly equal numbers.
struct GeluTanh {
  template <class C>
  static C Apply(C x) {
    return x / (C(1) + Exp(Exponent(x)));
  }
  template <class C>
  static C Exponent(C x) {  // -2u
    const C k = C(-1.5957691216057307118);
    return k * (x + C(0.044715) * (x * x * x));
  }
};

// Slopes of both forms: 0 and 1 far from 0, where they differ from that by less
// than a number can, so that nothing is multiplied by an infinity.
template <class C>
inline C ClampForSlope(C x) {
  const C kFar = sizeof(C) == 4 ? C(15) : C(40);
  const C c = x < -kFar ? -kFar : x;
  return c > kFar ? kFar : c;
}
struct GeluSlope {
  template <class C>
  static C Apply(C x) {
    const C c = ClampForSlope(x);
    const C pdf = C(0.39894228040143267794) * Exp(C(-0.5) * (c * c));
    return C(0.5) * Erfc(c * C(-0.70710678118654752440)) + c * pdf;
  }
};
struct GeluTanhSlope {
  template <class C>
  static C Apply(C x) {
    const C c = ClampForSlope(x);
    const C s = C(1) / (C(1) + Exp(GeluTanh::Exponent(c)));  // value: x s
    const C k = C(1.5957691216057307118);
    const C inner = k + C(3 * 0.044715 * 1.5957691216057307118) * (c * c);
    return s + c * inner * (s * (C(1) - s));
  }
};

template <class T, class O, int64_t kCost = kPlain>
std::unique_ptr<Kernel> Make(const Op& op) {
  LoopPlan<2> plan(op.out[0], {&op.in[0]});
  return MakeKernel(
      [plan](const Args& a) {
        auto apply = [](T x) {
          using C = Compute<T>;
          return static_cast<T>(O::template Apply<C>(static_cast<C>(x)));
        };
        Map1(plan, a.Output<T>(0), a.Input<T>(0), apply, kCost);
      },
      InPlaceMask(op));
}

template <class T>
std::unique_ptr<Kernel> MakeLeakyRelu(const Op& op) {
  using C = Compute<T>;
  LoopPlan<2> plan(op.out[0], {&op.in[0]});
  C alpha = static_cast<C>(op.Float("alpha", 0.01));
  return MakeKernel(
      [plan, alpha](const Args& a) {
        Map1(plan, a.Output<T>(0), a.Input<T>(0), [alpha](T x) {
          return static_cast<T>(LeakyReluOp::Apply(static_cast<C>(x), alpha));
        });
      },
      InPlaceMask(op));
}

template <class T>
std::unique_ptr<Kernel> MakeFloat(const Op& op) {
  switch (op.id) {
    case WEFT_OP_EXP:
      return Make<T, ExpOp, kCostly>(op);
    case WEFT_OP_LOG:
      return Make<T, LogOp, kCostly>(op);
    case WEFT_OP_SQRT:
      return Make<T, SqrtOp>(op);
    case WEFT_OP_LEAKY_RELU:
      return MakeLeakyRelu<T>(op);
    case WEFT_OP_SIGMOID:
      return Make<T, SigmoidOp, kCostly>(op);
    case WEFT_OP_TANH:
      return Make<T, TanhOp, kCostly>(op);
    case WEFT_OP_ERF:
      return Make<T, ErfOp, kCostly>(op);
    case WEFT_OP_SOFTPLUS:
      return Make<T, SoftplusOp, kCostly>(op);
    case WEFT_OP_RECIPROCAL:
      return Make<T, ReciprocalOp>(op);
    case WEFT_OP_GELU: {
      std::string kind = op.String("approximate", "none");
      if (kind == "none") return Make<T, GeluOp, kCostly>(op);
      if (kind == "tanh") return Make<T, GeluTanh, kCostly>(op);
      return op.Invalid("approximate must be 'none' or 'tanh'");
    }
    default:
      return nullptr;
  }
}

template <class T, class O>
std::unique_ptr<Kernel> MakeSlope(const Op& op) {
  using C = Compute<T>;
  const int64_t n = op.out[0].count;
  return MakeKernel(
      [n](const Args& a) {
        const T *dy = a.Input<T>(0), *x = a.Input<T>(1);
        T* dx = a.Output<T>(0);
        ParallelElements(n, kCostly, [=](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const C slope = O::template Apply<C>(static_cast<C>(x[i]));
            dx[i] = static_cast<T>(static_cast<C>(dy[i]) * slope);
          }
        });
      },
      InPlaceMask(op));
}

template <class T>
std::unique_ptr<Kernel> MakeNumber(const Op& op) {
  switch (op.id) {
    case WEFT_OP_NEG:
      return Make<T, NegOp>(op);
    case WEFT_OP_ABS:
      return Make<T, AbsOp>(op);
    case WEFT_OP_RELU:
      return Make<T, ReluOp>(op);
    case WEFT_OP_SIGN:
      return Make<T, SignOp>(op);
    default:
      return nullptr;
  }
}

}  // namespace

std::unique_ptr<Kernel> MakeGeluGrad(const Op& op) {
  if (!op.Arity(2, 1)) return nullptr;
  bool same = true;
  for (const Tensor& t : op.in) {
    same = same && t.dtype == op.out[0].dtype && t.SameDims(op.out[0]);
  }
  if (!op.Check(same, "operands and result differ")) return nullptr;
  const std::string kind = op.String("approximate", "none");
  if (kind != "none" && kind != "tanh") {
    return op.Invalid("approximate must be 'none' or 'tanh'");
  }
  return WithFloat(op.out[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Storage;
    return kind == "tanh" ? MakeSlope<T, GeluTanhSlope>(op)
                          : MakeSlope<T, GeluSlope>(op);
  });
}

std::unique_ptr<Kernel> MakeUnary(const Op& op) {
  if (!op.Arity(1, 1)) return nullptr;
  uint32_t dtype = op.in[0].dtype;
  if (!op.Check(dtype == op.out[0].dtype, "the types differ") ||
      !op.Check(op.in[0].SameDims(op.out[0]), "the shapes differ")) {
    return nullptr;
  }
  std::unique_ptr<Kernel> kernel = WithNumber(dtype, [&](auto tag) {
    return MakeNumber<typename decltype(tag)::Storage>(op);
  });
  if (kernel != nullptr) return kernel;
  return WithFloat(dtype, [&](auto tag) {
    return MakeFloat<typename decltype(tag)::Storage>(op);
  });
}

WEFT_CPU_END
