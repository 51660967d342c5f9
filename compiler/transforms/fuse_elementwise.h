// "fuse_elementwise": makes regions of elementwise ops into single weft.fused
// nodes (core/ops/fused.h), which read and write memory once.
//
// A *region* is a set of pure elementwise nodes, connected by data edges, that
// have one result shape, one device, stage and rate, whose values can be
// computed in one dtype (f32, which f16 and bf16 are computed in too, or f64;
// bool goes with both), and through which no path leads out and in again. Casts
// between f32, f16, bf16 and bool are nodes like others. Operands from outside
// broadcast; Constants of one element become part of the program. A region has
// at most PassSettings.max_fused instructions, 16 operands and 4 results, which
// are of one wave (waves.h).
//
// Regions grow greedily: nodes are visited in topological order, and each joins
// the regions of its operands, the first operand first, as long as all of this
// holds. A truth value is drawn into the region of its only reader; one with
// more readers is made once, and is an operand of their regions.
//
// Not fused: nodes in the control order; regions of a single node. Rounding is
// that of the ops one by one: a kernel rounds after each instruction to what it
// computes in, and the program after each 16-bit op to its dtype.
#ifndef WEFT_COMPILER_TRANSFORMS_FUSE_ELEMENTWISE_H_
#define WEFT_COMPILER_TRANSFORMS_FUSE_ELEMENTWISE_H_

#include <memory>

#include "compiler/pass/pass.h"

namespace weft {

std::unique_ptr<Pass> CreateFuseElementwisePass();

}  // namespace weft

#endif  // WEFT_COMPILER_TRANSFORMS_FUSE_ELEMENTWISE_H_
