#include "devices/cpu/element_loops.h"

#include "devices/cpu/each_alone.h"
#include "devices/cpu/parallel.h"
#include "devices/cpu/scalar_ops.h"

WEFT_CPU_BEGIN
namespace {

template <class T, class O>
void Loop1(void* z, const void* a, const void*, const void*, int64_t n) {
  const T* x = static_cast<const T*>(a);
  T* to = static_cast<T*>(z);
  WEFT_CPU_EACH_ALONE
  for (int64_t i = 0; i < n; ++i) to[i] = O::template Apply<T>(x[i]);
}

template <class T, class O>
void Loop2(void* z, const void* a, const void* b, const void*, int64_t n) {
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  T* to = static_cast<T*>(z);
  WEFT_CPU_EACH_ALONE
  for (int64_t i = 0; i < n; ++i) {
    const auto result = O::template Apply<T>(x[i], y[i]);
    if constexpr (std::is_same_v<decltype(result), const bool>) {
      to[i] = result ? T(1) : T(0);  // a cast of bool is not vectorised
    } else {
      to[i] = result;
    }
  }
}

template <class T>
void LoopWhere(void* z, const void* a, const void* b, const void* c,
               int64_t n) {
  const T* condition = static_cast<const T*>(a);
  const T* x = static_cast<const T*>(b);
  const T* y = static_cast<const T*>(c);
  T* to = static_cast<T*>(z);
  WEFT_CPU_EACH_ALONE
  for (int64_t i = 0; i < n; ++i) {
    const T chosen = x[i], other = y[i];         // both: no branch, so that it
    to[i] = condition[i] != 0 ? chosen : other;  // is vectorised
  }
}

#define WEFT_CPU_LOOP1(id, Op, cost) \
  case id:                           \
    return { Loop1<T, Op>, 1, cost }
#define WEFT_CPU_LOOP2(id, Op) \
  case id:                     \
    return { Loop2<T, Op>, 2, kPlain }

// What integers have too.
template <class T>
ElementLoop FindAny(int64_t op) {
  switch (op) {
    WEFT_CPU_LOOP2(WEFT_OP_ADD, AddOp);
    WEFT_CPU_LOOP2(WEFT_OP_SUB, SubOp);
    WEFT_CPU_LOOP2(WEFT_OP_MUL, MulOp);
    WEFT_CPU_LOOP2(WEFT_OP_DIV, DivOp);
    WEFT_CPU_LOOP2(WEFT_OP_POW, PowOp);
    WEFT_CPU_LOOP2(WEFT_OP_MAX, MaxOp);
    WEFT_CPU_LOOP2(WEFT_OP_MIN, MinOp);
    WEFT_CPU_LOOP2(WEFT_OP_EQUAL, EqualOp);
    WEFT_CPU_LOOP2(WEFT_OP_LESS, LessOp);
    WEFT_CPU_LOOP2(WEFT_OP_LESS_OR_EQUAL, LessOrEqualOp);
    WEFT_CPU_LOOP2(WEFT_OP_GREATER, GreaterOp);
    WEFT_CPU_LOOP2(WEFT_OP_GREATER_OR_EQUAL, GreaterOrEqualOp);
    WEFT_CPU_LOOP1(WEFT_OP_NEG, NegOp, kPlain);
    WEFT_CPU_LOOP1(WEFT_OP_ABS, AbsOp, kPlain);
    WEFT_CPU_LOOP1(WEFT_OP_RELU, ReluOp, kPlain);
    WEFT_CPU_LOOP1(WEFT_OP_SIGN, SignOp, kPlain);
    case WEFT_OP_WHERE:
      return {LoopWhere<T>, 3, kPlain};
    default:
      return {nullptr, 0, 0};
  }
}

template <class T>
ElementLoop FindFloat(int64_t op) {
  switch (op) {
    WEFT_CPU_LOOP2(WEFT_OP_AND, AndOp);
    WEFT_CPU_LOOP2(WEFT_OP_OR, OrOp);
    WEFT_CPU_LOOP2(WEFT_OP_LEAKY_RELU, LeakyReluOp);
    WEFT_CPU_LOOP1(WEFT_OP_NOT, NotOp, kPlain);
    WEFT_CPU_LOOP1(WEFT_OP_IDENTITY, IdentityOp, kPlain);
    WEFT_CPU_LOOP1(WEFT_OP_SQRT, SqrtOp, kPlain);
    WEFT_CPU_LOOP1(WEFT_OP_RECIPROCAL, ReciprocalOp, kPlain);
    WEFT_CPU_LOOP1(WEFT_OP_EXP, ExpOp, kCostly);
    WEFT_CPU_LOOP1(WEFT_OP_LOG, LogOp, kCostly);
    WEFT_CPU_LOOP1(WEFT_OP_SIGMOID, SigmoidOp, kCostly);
    WEFT_CPU_LOOP1(WEFT_OP_TANH, TanhOp, kCostly);
    WEFT_CPU_LOOP1(WEFT_OP_ERF, ErfOp, kCostly);
    WEFT_CPU_LOOP1(WEFT_OP_SOFTPLUS, SoftplusOp, kCostly);
    WEFT_CPU_LOOP1(WEFT_OP_GELU, GeluOp, kCostly);
    WEFT_CPU_LOOP1(kGeluTanh, GeluTanhOp, kCostly);
    WEFT_CPU_LOOP1(kGeluSlope, GeluSlopeOp, kCostly);
    WEFT_CPU_LOOP1(kGeluTanhSlope, GeluTanhSlopeOp, kCostly);
    default:
      return FindAny<T>(op);
  }
}

ElementLoop FindCast(int64_t dtype, Wide wide) {
  const bool is_float = wide == Wide::kFloat;
  if (dtype == WEFT_BOOL && is_float) return {Loop1<float, TruthOp>, 1, kPlain};
  if (dtype == WEFT_BOOL && wide == Wide::kDouble) {
    return {Loop1<double, TruthOp>, 1, kPlain};
  }
  if (dtype == WEFT_BF16 && is_float) {
    return {Loop1<float, RoundOp<Bfloat>>, 1, kPlain};
  }
  if (dtype == WEFT_F16 && is_float) {
    return {Loop1<float, RoundOp<Half>>, 1, kPlain};
  }
  return {nullptr, 0, 0};
}

}  // namespace

ElementLoop FindLoop(const ElementInstruction& in, Wide wide) {
  if (in.op == WEFT_OP_CAST) return FindCast(in.operands[1], wide);
  if (wide == Wide::kFloat) return FindFloat<float>(in.op);
  if (wide == Wide::kDouble) return FindFloat<double>(in.op);
  return FindAny<int64_t>(in.op);
}

WEFT_CPU_END
