// Expr: arithmetic on values, so that gradients and decompositions read like
// the formulas that they are. Every operation emits one node.
//
//   // d/dx tanh(x) = 1 - tanh(x)^2
//   Expr y(g.emit, g.outputs[0]), dy(g.emit, g.output_grads[0]);
//   return {dy * (1.0 - y * y)};
//
// A double takes the dtype of the other operand. An invalid operand (an absent
// gradient, or the emitter has failed) makes the result invalid; nothing is
// emitted. Operands of different shapes broadcast.
//
// Threading: as the emitter. Ownership: refers to the emitter, which must
// outlive it.
#ifndef WEFT_CORE_OPS_EXPR_H_
#define WEFT_CORE_OPS_EXPR_H_

#include <vector>

#include "core/ops/schema.h"

namespace weft {

class Expr {
 public:
  Expr(NodeEmitter& emit, Value value) : emit_(&emit), value_(value) {}

  Value value() const { return value_; }
  operator Value() const { return value_; }  // NOLINT: reads as the formula
  bool valid() const { return value_.valid(); }
  NodeEmitter& emit() const { return *emit_; }
  // Pre-condition: valid().
  TensorType type() const { return emit_->type(value_); }
  DType dtype() const { return type().dtype; }
  Shape shape() const { return type().shape; }

  // `value` as a scalar of this expression's dtype.
  Expr Like(double value) const;

 private:
  NodeEmitter* emit_;
  Value value_;
};

// Emits `op` on `operands`; invalid where one of them is.
Expr Apply(absl::string_view op, const std::vector<Expr>& operands,
           AttrMap attrs = {});

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr operator/(const Expr& a, const Expr& b);
Expr operator-(const Expr& a);

#define WEFT_EXPR_WITH_DOUBLE(op)                                             \
  inline Expr operator op(const Expr& a, double b) { return a op a.Like(b); } \
  inline Expr operator op(double a, const Expr& b) { return b.Like(a) op b; }
WEFT_EXPR_WITH_DOUBLE(+)
WEFT_EXPR_WITH_DOUBLE(-)
WEFT_EXPR_WITH_DOUBLE(*)
WEFT_EXPR_WITH_DOUBLE(/)
#undef WEFT_EXPR_WITH_DOUBLE

Expr Where(const Expr& condition, const Expr& x, const Expr& y);
Expr Cast(const Expr& x, DType dtype);  // nothing where it has that dtype

// {axes} as in ReduceSum; kept as 1 with `keepdims`. No axes: nothing to do.
Expr Sum(const Expr& x, const std::vector<int64_t>& axes, bool keepdims);

// Same elements, another shape.
Expr ReshapeTo(const Expr& x, const Shape& shape);
// Broadcast to `shape`.
Expr ExpandTo(const Expr& x, const Shape& shape);
// a + b, where an invalid operand counts as zero: the gradient of two uses.
// Invalid where both are.
Expr SumOfValid(const Expr& a, const Expr& b);
// The primitive of data movement: y[i] = x[offset + i . strides].
Expr CopyStrided(const Expr& x, std::vector<int64_t> shape,
                 std::vector<int64_t> strides, int64_t offset = 0);
// The gradient of broadcasting: see NodeEmitter::SumTo.
Expr SumTo(const Expr& x, const Shape& shape);

// A shape's extents and dense strides as attribute values.
std::vector<int64_t> DimsOf(const Shape& shape);
std::vector<int64_t> StridesOf(const Shape& shape);

}  // namespace weft

#endif  // WEFT_CORE_OPS_EXPR_H_
