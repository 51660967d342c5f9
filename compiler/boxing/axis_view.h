// AxisView: what one axis of a mesh does to a value, with all other axes left
// as they are.
//
//   // [24] on a=2 x b=3, (S(0), S(0)): member (i, j) has the j-th third of the
//   // i-th half. What the two members of an axis-a group have together is the
//   // j-th third of both halves:
//   AxisViewOf(Shape({24}), {S(0), S(0)}, mesh, 0);
//   // rest (B, S(0,2)), own S(0): the first and the second half of the [8]
//   AxisViewOf(Shape({24}), {S(0), S(0)}, mesh, 1);   // (S(0), B), S(0)
//
// Two layouts with the same rest differ by a change of that axis alone: from
// one's own sbp to the other's.
//
// There is no view of an axis where the rest has no sbp, which later axes are
// the cause of: a split of the same dimension that is not aligned with this
// one's, and a reduction by another op than this one's.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_BOXING_AXIS_VIEW_H_
#define WEFT_COMPILER_BOXING_AXIS_VIEW_H_

#include <optional>
#include <vector>

#include "core/mesh/mesh.h"
#include "core/mesh/sbp.h"
#include "core/types/shape.h"

namespace weft {

struct AxisView {
  NdSbp rest;  // of the whole mesh; B on this axis
  Sbp own;     // of what a group of this axis has by `rest`
};

// Pre-condition: `sbp` fits `whole`.
std::optional<AxisView> AxisViewOf(const Shape& whole, const NdSbp& sbp,
                                   const Mesh& mesh, int axis);

// The layouts with view {rest, own} where `own` is spelled `sbp`: as the axis'
// own item of an NdSbp. Mostly one; none where there is no such layout.
// Pre-condition: `rest` fits `whole` and is B on the axis.
std::vector<NdSbp> LayoutsWith(const Shape& whole, const NdSbp& rest,
                               const Mesh& mesh, int axis, Sbp sbp);

}  // namespace weft

#endif  // WEFT_COMPILER_BOXING_AXIS_VIEW_H_
