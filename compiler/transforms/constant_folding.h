// "constant_folding": computes pure nodes whose operands are all Constants,
// once, at compile time, with the reference of the op
// (core/reference/evaluate.h).
//
// Not folded: what has side effects or is random, nodes in the control order,
// results larger than PassSettings.fold_bytes or dearer than .fold_flops, and a
// node that the reference refuses (a bad index, say: it fails when it runs, by
// its own name). weft.Iota and other pure nodes without operands stay: they are
// cheaper than bytes.
//
// The new Constant is "<node>/folded", in the folded node's place. The
// reference computes in double, so a folded float may differ from the kernel's
// in the last bit.
#ifndef WEFT_COMPILER_TRANSFORMS_CONSTANT_FOLDING_H_
#define WEFT_COMPILER_TRANSFORMS_CONSTANT_FOLDING_H_

#include <memory>

#include "compiler/pass/pass.h"

namespace weft {

std::unique_ptr<Pass> CreateConstantFoldingPass();

}  // namespace weft

#endif  // WEFT_COMPILER_TRANSFORMS_CONSTANT_FOLDING_H_
