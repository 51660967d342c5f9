#include "compiler/collectives/layout.h"

#include <cstdint>
#include <vector>

namespace weft {
namespace {

// Elements of the dimensions [begin, end).
int64_t Elements(const Shape& shape, int begin, int end) {
  int64_t n = 1;
  for (int d = begin; d < end; ++d) n *= shape.dim(d);
  return n;
}

Expr Flat(const Expr& x) {
  if (!x.valid()) return x;
  return ReshapeTo(x, Shape({x.shape().num_elements()}));
}

}  // namespace

Expr SplitToBlocks(const Expr& x, int axis, int parts) {
  if (!x.valid()) return x;
  const Shape shape = x.shape();
  const int64_t outer = Elements(shape, 0, axis);
  if (outer == 1) return Flat(x);
  const int64_t row = Elements(shape, axis, shape.rank()) / parts;
  return Flat(CopyStrided(x, {parts, outer, row}, {row, parts * row, 1}));
}

Expr JoinBlocks(const Expr& flat, const Shape& block, int axis, int parts) {
  const Shape whole = ScaledAxis(block, axis, parts, 1);
  const int64_t outer = Elements(block, 0, axis);
  if (outer == 1) return ReshapeTo(flat, whole);
  const int64_t row = Elements(block, axis, block.rank());
  return ReshapeTo(
      CopyStrided(flat, {outer, parts, row}, {row, outer * row, 1}), whole);
}

Shape ScaledAxis(const Shape& shape, int axis, int64_t times, int64_t by) {
  std::vector<int64_t> dims = DimsOf(shape);
  dims[axis] = dims[axis] * times / by;
  return Shape(dims);
}

}  // namespace weft
