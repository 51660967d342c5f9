// "algebraic_simplify": removes nodes that change nothing and shortens chains,
// only where every result keeps its bits. (So x * 0 stays: it is not 0 for NaN,
// infinities and negative x. x + 0.0 stays for floats: it turns -0.0 into 0.0;
// x + -0.0 goes.)
//
//   Identity(x), x * 1, 1 * x, x / 1, x - 0.0, x + -0.0        -> x
//   integers: x + 0, 0 + x, x - 0                              -> x
//   Neg(Neg(x)), Not(Not(x)), Max(x, x), Min(x, x)             -> x
//   Relu(Relu(x)), Abs(Abs(x)), Abs(Neg(x))                    -> one node less
//   Where(c, x, x)                                             -> x
//   Cast to the same dtype; Cast to a wider one and back       -> x
//   Transpose(Transpose(x)) -> one Transpose; identity perm    -> x
//   Reshape, Flatten, Squeeze, Unsqueeze of one another        -> one Reshape
//   a Reshape, Expand, Slice, Pad that keeps all as it is      -> x
//   Concat of one operand, Split in one part                   -> x
//
// Not touched: nodes in the control order, and nodes placed elsewhere than what
// would take their place.
#ifndef WEFT_COMPILER_TRANSFORMS_ALGEBRAIC_SIMPLIFY_H_
#define WEFT_COMPILER_TRANSFORMS_ALGEBRAIC_SIMPLIFY_H_

#include <memory>

#include "compiler/pass/pass.h"

namespace weft {

std::unique_ptr<Pass> CreateAlgebraicSimplifyPass();

}  // namespace weft

#endif  // WEFT_COMPILER_TRANSFORMS_ALGEBRAIC_SIMPLIFY_H_
