// "dce": dead code elimination. Removes nodes whose results nobody needs.
//
// Needed are: updates, outputs and every other node with an effect, all that
// they read, and what they wait for through control inputs. weft.Variable,
// weft.Input and weft.DataSource always stay: they are the program's state and
// its operands. A source without memory (weft.Counter), weft.Accumulate and
// weft.Copy go when unread.
#ifndef WEFT_COMPILER_TRANSFORMS_DCE_H_
#define WEFT_COMPILER_TRANSFORMS_DCE_H_

#include <memory>

#include "compiler/pass/pass.h"

namespace weft {

std::unique_ptr<Pass> CreateDcePass();

}  // namespace weft

#endif  // WEFT_COMPILER_TRANSFORMS_DCE_H_
