#include "core/ops/expr.h"

#include <utility>

namespace weft {

Expr Expr::Like(double value) const {
  if (!valid()) return *this;
  return Expr(*emit_, emit_->Scalar(value, dtype()));
}

Expr Apply(absl::string_view op, const std::vector<Expr>& operands,
           AttrMap attrs) {
  NodeEmitter& emit = operands[0].emit();
  std::vector<Value> values;
  for (const Expr& operand : operands) {
    if (!operand.valid()) return Expr(emit, {});
    values.push_back(operand);
  }
  return Expr(emit, emit.Emit1(op, values, std::move(attrs)));
}

Expr operator+(const Expr& a, const Expr& b) { return Apply("Add", {a, b}); }
Expr operator-(const Expr& a, const Expr& b) { return Apply("Sub", {a, b}); }
Expr operator*(const Expr& a, const Expr& b) { return Apply("Mul", {a, b}); }
Expr operator/(const Expr& a, const Expr& b) { return Apply("Div", {a, b}); }
Expr operator-(const Expr& a) { return Apply("Neg", {a}); }

Expr Where(const Expr& condition, const Expr& x, const Expr& y) {
  return Apply("Where", {condition, x, y});
}

Expr Cast(const Expr& x, DType dtype) {
  if (!x.valid() || x.dtype() == dtype) return x;
  return Apply("Cast", {x}, {{"to", dtype}});
}

Expr Sum(const Expr& x, const std::vector<int64_t>& axes, bool keepdims) {
  if (axes.empty()) return x;
  return Apply("ReduceSum", {x},
               {{"axes", axes}, {"keepdims", keepdims ? 1 : 0}});
}

Expr ReshapeTo(const Expr& x, const Shape& shape) {
  if (!x.valid() || x.shape() == shape) return x;
  if (shape.num_elements() == 0) {
    // An extent of 0 means "copy" to Reshape; spell the empty tensor out.
    return CopyStrided(x, DimsOf(shape), StridesOf(shape));
  }
  return Apply("Reshape", {x}, {{"shape", DimsOf(shape)}});
}

Expr ExpandTo(const Expr& x, const Shape& shape) {
  if (!x.valid() || x.shape() == shape) return x;
  return Apply("Expand", {x}, {{"shape", DimsOf(shape)}});
}

Expr CopyStrided(const Expr& x, std::vector<int64_t> shape,
                 std::vector<int64_t> strides, int64_t offset) {
  return Apply("weft.StridedCopy", {x},
               {{"shape", std::move(shape)},
                {"strides", std::move(strides)},
                {"offset", offset}});
}

Expr SumOfValid(const Expr& a, const Expr& b) {
  if (!a.valid()) return b;
  return b.valid() ? a + b : a;
}

Expr SumTo(const Expr& x, const Shape& shape) {
  if (!x.valid()) return x;
  return Expr(x.emit(), x.emit().SumTo(x, shape));
}

std::vector<int64_t> DimsOf(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}

std::vector<int64_t> StridesOf(const Shape& shape) {
  absl::InlinedVector<int64_t, 4> strides = shape.Strides();
  return {strides.begin(), strides.end()};
}

}  // namespace weft
