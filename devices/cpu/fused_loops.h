// The loops of fused programs: one per elementwise op, over a block of elements
// that lies in the cache, written to be vectorised.
//
//   int operands = 0;
//   Loop<float> loop = FindLoop<float>(WEFT_OP_ADD, &operands);
//   if (loop != nullptr) loop(z, a, b, nullptr, n);
//
// Threading: pure functions.
#ifndef WEFT_DEVICES_CPU_FUSED_LOOPS_H_
#define WEFT_DEVICES_CPU_FUSED_LOOPS_H_

#include "devices/cpu/scalar_ops.h"
#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

template <class T>
using Loop = void (*)(T* z, const T* a, const T* b, const T* c, int64_t n);

template <class T, class O>
void Loop1(T* z, const T* a, const T*, const T*, int64_t n) {
  for (int64_t i = 0; i < n; ++i) z[i] = O::template Apply<T>(a[i]);
}
template <class T, class O>
void Loop2(T* z, const T* a, const T* b, const T*, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const auto result = O::template Apply<T>(a[i], b[i]);
    if constexpr (std::is_same_v<decltype(result), const bool>) {
      z[i] = result ? T(1) : T(0);  // a cast of bool is not vectorised
    } else {
      z[i] = result;
    }
  }
}
template <class T>
void LoopWhere(T* z, const T* a, const T* b, const T* c, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const T chosen = b[i], other = c[i];  // both: no branch, so that it is
    z[i] = a[i] != 0 ? chosen : other;    // vectorised
  }
}

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
struct IdentityOp {
  template <class C>
  static C Apply(C a) {
    return a;
  }
};

// The loop of an op and its operand count; null where a program may not hold
// it.
template <class T>
Loop<T> FindLoop(int64_t op, int* operands) {
  *operands = op < WEFT_OP_NEG || op == WEFT_OP_LEAKY_RELU ? 2
              : op == WEFT_OP_WHERE                        ? 3
                                                           : 1;
  switch (op) {
    case WEFT_OP_ADD:
      return Loop2<T, AddOp>;
    case WEFT_OP_SUB:
      return Loop2<T, SubOp>;
    case WEFT_OP_MUL:
      return Loop2<T, MulOp>;
    case WEFT_OP_DIV:
      return Loop2<T, DivOp>;
    case WEFT_OP_POW:
      return Loop2<T, PowOp>;
    case WEFT_OP_MAX:
      return Loop2<T, MaxOp>;
    case WEFT_OP_MIN:
      return Loop2<T, MinOp>;
    case WEFT_OP_EQUAL:
      return Loop2<T, EqualOp>;
    case WEFT_OP_LESS:
      return Loop2<T, LessOp>;
    case WEFT_OP_LESS_OR_EQUAL:
      return Loop2<T, LessOrEqualOp>;
    case WEFT_OP_GREATER:
      return Loop2<T, GreaterOp>;
    case WEFT_OP_GREATER_OR_EQUAL:
      return Loop2<T, GreaterOrEqualOp>;
    case WEFT_OP_AND:
      return Loop2<T, AndOp>;
    case WEFT_OP_OR:
      return Loop2<T, OrOp>;
    case WEFT_OP_NEG:
      return Loop1<T, NegOp>;
    case WEFT_OP_ABS:
      return Loop1<T, AbsOp>;
    case WEFT_OP_EXP:
      return Loop1<T, ExpOp>;
    case WEFT_OP_LOG:
      return Loop1<T, LogOp>;
    case WEFT_OP_SQRT:
      return Loop1<T, SqrtOp>;
    case WEFT_OP_RELU:
      return Loop1<T, ReluOp>;
    case WEFT_OP_LEAKY_RELU:
      return Loop2<T, LeakyReluOp>;
    case WEFT_OP_SIGMOID:
      return Loop1<T, SigmoidOp>;
    case WEFT_OP_TANH:
      return Loop1<T, TanhOp>;
    case WEFT_OP_ERF:
      return Loop1<T, ErfOp>;
    case WEFT_OP_SOFTPLUS:
      return Loop1<T, SoftplusOp>;
    case WEFT_OP_GELU:
      return Loop1<T, GeluOp>;
    case WEFT_OP_SIGN:
      return Loop1<T, SignOp>;
    case WEFT_OP_RECIPROCAL:
      return Loop1<T, ReciprocalOp>;
    case WEFT_OP_NOT:
      return Loop1<T, NotOp>;
    case WEFT_OP_IDENTITY:
      return Loop1<T, IdentityOp>;
    case WEFT_OP_WHERE:
      return LoopWhere<T>;
    default:
      return nullptr;
  }
}

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_FUSED_LOOPS_H_
