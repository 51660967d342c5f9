// "cse": common subexpression elimination. Two pure nodes with the same op,
// attributes (bit for bit), operands, control inputs, device and stage become
// the one that comes first in topological order. Operands of a commutative op
// may be swapped.
//
// Random ops never merge, even with equal keys: they are told apart by who
// draws. Nothing with an effect merges, and weft.Copy does not, since copies
// are placed on purpose.
#ifndef WEFT_COMPILER_TRANSFORMS_CSE_H_
#define WEFT_COMPILER_TRANSFORMS_CSE_H_

#include <memory>

#include "compiler/pass/pass.h"

namespace weft {

std::unique_ptr<Pass> CreateCsePass();

}  // namespace weft

#endif  // WEFT_COMPILER_TRANSFORMS_CSE_H_
