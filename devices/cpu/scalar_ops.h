// One element of each elementwise op, in the compute type C: the one place that
// says what an op does to a number. The kernels of single ops and of fused
// regions are loops over these.
//
// Special values: Max and Min give NaN if an operand is one; Relu keeps NaN;
// integer arithmetic wraps, an integer divided by 0 gives 0.
//
// Threading: stateless.
#ifndef WEFT_DEVICES_CPU_SCALAR_OPS_H_
#define WEFT_DEVICES_CPU_SCALAR_OPS_H_

#include "devices/cpu/numeric.h"
#include "devices/cpu/target.h"
#include "devices/cpu/vector_math.h"

WEFT_CPU_BEGIN

// The unsigned type in which integer arithmetic wraps (at least 32 bits wide,
// so that no promotion to signed int can overflow).
template <class C>
using Wrap = std::conditional_t<sizeof(C) == 8, uint64_t, uint32_t>;

#define WEFT_CPU_ARITHMETIC(Name, op)                                  \
  struct Name {                                                        \
    template <class C>                                                 \
    static C Apply(C a, C b) {                                         \
      if constexpr (std::is_integral_v<C>) {                           \
        using W = Wrap<C>;                                             \
        return static_cast<C>(static_cast<W>(a) op static_cast<W>(b)); \
      } else {                                                         \
        return a op b;                                                 \
      }                                                                \
    }                                                                  \
  };
WEFT_CPU_ARITHMETIC(AddOp, +)
WEFT_CPU_ARITHMETIC(SubOp, -)
WEFT_CPU_ARITHMETIC(MulOp, *)
#undef WEFT_CPU_ARITHMETIC

struct DivOp {
  template <class C>
  static C Apply(C a, C b) {
    if constexpr (std::is_integral_v<C>) {
      if (b == 0) return 0;
      if (std::is_signed_v<C> && b == static_cast<C>(-1)) {
        return SubOp::Apply<C>(0, a);  // the smallest value wraps
      }
      return static_cast<C>(a / b);
    } else {
      return a / b;
    }
  }
};

struct PowOp {
  template <class C>
  static C Apply(C a, C b) {
    if constexpr (std::is_integral_v<C>) {  // by way of double, saturating
      return Convert<C>(
          std::pow(static_cast<double>(a), static_cast<double>(b)));
    } else {
      return std::pow(a, b);
    }
  }
};

struct MaxOp {
  template <class C>
  static C Apply(C a, C b) {
    return (a > b || a != a) ? a : b;
  }
};
struct MinOp {
  template <class C>
  static C Apply(C a, C b) {
    return (a < b || a != a) ? a : b;
  }
};

#define WEFT_CPU_COMPARE(Name, op) \
  struct Name {                    \
    template <class C>             \
    static bool Apply(C a, C b) {  \
      return a op b;               \
    }                              \
  };
WEFT_CPU_COMPARE(EqualOp, ==)
WEFT_CPU_COMPARE(LessOp, <)
WEFT_CPU_COMPARE(LessOrEqualOp, <=)
WEFT_CPU_COMPARE(GreaterOp, >)
WEFT_CPU_COMPARE(GreaterOrEqualOp, >=)
#undef WEFT_CPU_COMPARE

struct NegOp {
  template <class C>
  static C Apply(C x) {
    if constexpr (std::is_integral_v<C>) return SubOp::Apply<C>(0, x);
    return static_cast<C>(-x);
  }
};
struct AbsOp {
  template <class C>
  static C Apply(C x) {
    if constexpr (std::is_unsigned_v<C>) return x;
    if constexpr (std::is_integral_v<C>) return x < 0 ? NegOp::Apply(x) : x;
    return static_cast<C>(std::fabs(static_cast<double>(x)));
  }
};
template <>
inline float AbsOp::Apply(float x) {
  return std::fabs(x);
}
struct ReluOp {
  template <class C>
  static C Apply(C x) {
    return x < 0 ? C(0) : x;
  }
};
struct LeakyReluOp {  // (x, slope)
  template <class C>
  static C Apply(C x, C slope) {
    return x < 0 ? slope * x : x;
  }
};
struct SignOp {
  template <class C>
  static C Apply(C x) {
    return x > 0 ? C(1) : x < 0 ? static_cast<C>(-1) : x;  // keeps NaN and -0
  }
};

// Floats only from here on; those that are no arithmetic are of
// vector_math.h.
struct ExpOp {
  template <class C>
  static C Apply(C x) {
    return Exp(x);
  }
};
struct LogOp {
  template <class C>
  static C Apply(C x) {
    return Log(x);
  }
};
struct SqrtOp {
  template <class C>
  static C Apply(C x) {
    return std::sqrt(x);
  }
};
struct SigmoidOp {
  template <class C>
  static C Apply(C x) {
    const C e = Exp(-std::fabs(x));  // never overflows
    const C numerator = x < 0 ? e : C(1);
    return numerator / (C(1) + e);
  }
};
struct TanhOp {
  template <class C>
  static C Apply(C x) {
    return Tanh(x);
  }
};
struct ErfOp {
  template <class C>
  static C Apply(C x) {
    return Erf(x);
  }
};
struct SoftplusOp {
  template <class C>
  static C Apply(C x) {
    return ReluOp::Apply(x) + std::log1p(std::exp(-std::fabs(x)));
  }
};
struct GeluOp {  // x * Phi(x)
  template <class C>
  static C Apply(C x) {
    return x * NormalCdf(x);
  }
};
struct ReciprocalOp {
  template <class C>
  static C Apply(C x) {
    return C(1) / x;
  }
};

// x (1 + tanh(u)) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3): x / (1 + exp(-2u))
// is the same without the difference of nearly equal numbers.
struct GeluTanhOp {
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

struct GeluSlopeOp {
  template <class C>
  static C Apply(C x) {
    return GeluSlope(x);
  }
};
struct GeluTanhSlopeOp {
  template <class C>
  static C Apply(C x) {
    // 0 and 1 far from 0, where they differ from that by less than a number
    // can, so that nothing is multiplied by an infinity.
    const C kFar = sizeof(C) == 4 ? C(15) : C(40);
    C c = x < -kFar ? -kFar : x;
    c = c > kFar ? kFar : c;
    const C s = C(1) / (C(1) + Exp(GeluTanhOp::Exponent(c)));  // value: x s
    const C k = C(1.5957691216057307118);
    const C inner = k + C(3 * 0.044715 * 1.5957691216057307118) * (c * c);
    return s + c * inner * (s * (C(1) - s));
  }
};

// Numbers as truth values, 1 and 0.
struct AndOp {
  template <class C>
  static bool Apply(C a, C b) {
    return a != 0 && b != 0;
  }
};
struct OrOp {
  template <class C>
  static bool Apply(C a, C b) {
    return a != 0 || b != 0;
  }
};
struct NotOp {
  template <class C>
  static C Apply(C a) {
    return a != 0 ? C(0) : C(1);
  }
};
struct TruthOp {
  template <class C>
  static C Apply(C a) {
    return a != 0 ? C(1) : C(0);
  }
};

struct IdentityOp {
  template <class C>
  static C Apply(C a) {
    return a;
  }
};
// The nearest value of a 16-bit format.
template <class T>
struct RoundOp {
  template <class C>
  static C Apply(C a) {
    return static_cast<C>(T(a));
  }
};

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_SCALAR_OPS_H_
