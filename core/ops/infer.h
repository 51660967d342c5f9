// Checks and small inference functions that the op families share. Every check
// fails with a typed error that names the node, the operand and both sides.
//
//   absl::Status InferSoftmax(const OpView& op, std::vector<TensorType>* out) {
//     WEFT_RETURN_IF_ERROR(RequireFloat(op, 0));
//     WEFT_RETURN_IF_ERROR(AxisAttr(op, "axis",
//     op.input(0).shape.rank()).status()); return SameAsInput(op, out);
//   }
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_OPS_INFER_H_
#define WEFT_CORE_OPS_INFER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ops/schema.h"

namespace weft {

// kDTypeMismatch unless operand `i` has the property.
absl::Status RequireFloat(const OpView& op, int i);
absl::Status RequireNumeric(const OpView& op, int i);  // anything but bool
absl::Status RequireDType(const OpView& op, int i, DType dtype);
absl::Status RequireIndices(const OpView& op, int i);  // i32 or i64
absl::Status RequireSameDType(const OpView& op, int i, int j);

// kShapeMismatch unless operand `i` has the shape or rank.
absl::Status RequireShape(const OpView& op, int i, const Shape& shape);
absl::Status RequireRank(const OpView& op, int i, int rank);
// Both dtype and shape.
absl::Status RequireSameType(const OpView& op, int i, int j);
// Operand `i` is the step counter, i64[2].
absl::Status RequireCounter(const OpView& op, int i);
// Operand `i` is f32[].
absl::Status RequireF32Scalar(const OpView& op, int i);

// kBadAttribute unless the attribute holds.
absl::Status RequireOneOf(const OpView& op, absl::string_view attr,
                          const std::vector<std::string>& allowed);
// The boolean attributes of ONNX are ints: exactly 0 or 1.
absl::Status RequireFlag(const OpView& op, absl::string_view attr);
// low <= value < high.
absl::Status RequireRange(const OpView& op, absl::string_view attr, double low,
                          double high);

// An axis attribute made non-negative; kBadAttribute names node and rank.
absl::StatusOr<int> AxisAttr(const OpView& op, absl::string_view attr,
                             int rank);
// The same for a list: ascending, no duplicates.
absl::StatusOr<std::vector<int>> AxesAttr(const OpView& op,
                                          absl::string_view attr, int rank);
// A shape given as an attribute.
absl::StatusOr<Shape> ShapeAttr(const OpView& op, absl::string_view attr);

// Inference: one result, of operand 0's type.
absl::Status SameAsInput(const OpView& op, std::vector<TensorType>* out);

// Gradient: none to give for any operand (piecewise constant functions).
std::vector<Value> ZeroGradient(const GradientContext& g);

// The elements of all results together, as a double.
double OutputElements(const OpView& op);
// The default cost: bytes of operands and results.
Cost BytesMoved(const OpView& op);

}  // namespace weft

#endif  // WEFT_CORE_OPS_INFER_H_
