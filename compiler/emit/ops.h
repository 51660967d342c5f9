// The kernels of a task: where each operand lies, scratch of the chain, the
// buffers of a sum.
//
// Threading: thread-compatible.
#ifndef WEFT_COMPILER_EMIT_OPS_H_
#define WEFT_COMPILER_EMIT_OPS_H_

#include <cstddef>

#include "compiler/emit/draft.h"

namespace weft {

// Adds the ops of task `t`. Pre-condition: the ports of all tasks are there.
void EmitOps(EmitDraft* draft, size_t t);

}  // namespace weft

#endif  // WEFT_COMPILER_EMIT_OPS_H_
