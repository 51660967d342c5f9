// Layout: where the parts of an operand lie. Schedules move blocks of a
// one-dimensional tensor; these two turn an operand into one whose parts along
// an axis are successive blocks, and back.
//
//   x [2, 6], axis 1, 3 parts:   SplitToBlocks -> [12]: x[:, 0:2], x[:, 2:4],
//   .. JoinBlocks({f32, [2, 2]}, axis 1, 3 parts) is its inverse -> [2, 6]
//
// Where the axis is the outermost one that is not 1, both are a Reshape.
//
// Threading: as the emitter.
#ifndef WEFT_COMPILER_COLLECTIVES_LAYOUT_H_
#define WEFT_COMPILER_COLLECTIVES_LAYOUT_H_

#include "core/ops/expr.h"

namespace weft {

// Pre-condition: `parts` divides the axis. The result has one dimension.
Expr SplitToBlocks(const Expr& x, int axis, int parts);

// `flat` holds `parts` blocks of shape `block`. Pre-condition: the sizes fit.
Expr JoinBlocks(const Expr& flat, const Shape& block, int axis, int parts);

// `shape` with the extent of `axis` times `times`, then divided by `by`.
Shape ScaledAxis(const Shape& shape, int axis, int64_t times, int64_t by);

}  // namespace weft

#endif  // WEFT_COMPILER_COLLECTIVES_LAYOUT_H_
