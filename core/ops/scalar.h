// The elementwise functions on one double: what each op of the family means,
// once, for the reference, for weft.fused and for constant folding.
//
//   ScalarValue(OpId::kAdd, 1, 2)              // 3
//   ScalarValue(OpId::kWhere, 1, 20, 30)       // 20
//
// Comparisons and logic give 1 or 0 and take any non-zero operand as true.
// Where two floats are compared, NaN makes every comparison false; Max and Min
// give NaN where either operand is NaN. Integer overflow is not here: see
// core/reference/elementwise.cc.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_OPS_SCALAR_H_
#define WEFT_CORE_OPS_SCALAR_H_

#include "core/ops/schema.h"

namespace weft {

// Operands of the function behind an elementwise op, 0 for other ops.
// LeakyRelu is binary here, (x, alpha); Gelu is the exact form.
int ScalarArity(OpId op);

// Pre-condition: ScalarArity(op) > 0; operands beyond it are ignored.
double ScalarValue(OpId op, double a, double b = 0, double c = 0);

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
double GeluTanh(double x);
// The derivative of Gelu, of either form.
double GeluSlope(double x, bool tanh);

}  // namespace weft

#endif  // WEFT_CORE_OPS_SCALAR_H_
