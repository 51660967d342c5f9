#include "core/ops/infer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

absl::Status WrongDType(const OpView& op, int i, absl::string_view wanted) {
  return op.Error(ErrorCode::kDTypeMismatch,
                  absl::StrCat("operand ", i, " must be ", wanted, ", got ",
                               op.input(i).ToString()));
}

}  // namespace

absl::Status RequireFloat(const OpView& op, int i) {
  if (IsFloat(op.input(i).dtype)) return absl::OkStatus();
  return WrongDType(op, i, "a float tensor");
}

absl::Status RequireNumeric(const OpView& op, int i) {
  if (op.input(i).dtype != DType::kBool) return absl::OkStatus();
  return WrongDType(op, i, "numeric");
}

absl::Status RequireDType(const OpView& op, int i, DType dtype) {
  if (op.input(i).dtype == dtype) return absl::OkStatus();
  return WrongDType(op, i, DTypeName(dtype));
}

absl::Status RequireIndices(const OpView& op, int i) {
  DType dtype = op.input(i).dtype;
  if (dtype == DType::kI32 || dtype == DType::kI64) return absl::OkStatus();
  return WrongDType(op, i, "i32 or i64");
}

absl::Status RequireSameDType(const OpView& op, int i, int j) {
  if (op.input(i).dtype == op.input(j).dtype) return absl::OkStatus();
  return op.Error(
      ErrorCode::kDTypeMismatch,
      absl::StrCat("operands ", i, " and ", j, " must have one dtype, got ",
                   op.input(i).ToString(), " and ", op.input(j).ToString()));
}

absl::Status RequireShape(const OpView& op, int i, const Shape& shape) {
  if (op.input(i).shape == shape) return absl::OkStatus();
  return op.Error(
      ErrorCode::kShapeMismatch,
      absl::StrCat("operand ", i, " must have shape ", shape.ToString(),
                   ", got ", op.input(i).ToString()));
}

absl::Status RequireRank(const OpView& op, int i, int rank) {
  if (op.input(i).shape.rank() == rank) return absl::OkStatus();
  return op.Error(ErrorCode::kShapeMismatch,
                  absl::StrCat("operand ", i, " must have rank ", rank,
                               ", got ", op.input(i).ToString()));
}

absl::Status RequireSameType(const OpView& op, int i, int j) {
  if (op.input(i).shape != op.input(j).shape) {
    return op.Error(
        ErrorCode::kShapeMismatch,
        absl::StrCat("operands ", i, " and ", j, " must have one shape, got ",
                     op.input(i).ToString(), " and ", op.input(j).ToString()));
  }
  return RequireSameDType(op, i, j);
}

absl::Status RequireCounter(const OpView& op, int i) {
  WEFT_RETURN_IF_ERROR(RequireDType(op, i, DType::kI64));
  return RequireShape(op, i, {2});
}

absl::Status RequireF32Scalar(const OpView& op, int i) {
  WEFT_RETURN_IF_ERROR(RequireDType(op, i, DType::kF32));
  return RequireShape(op, i, Shape());
}

absl::Status RequireOneOf(const OpView& op, absl::string_view attr,
                          const std::vector<std::string>& allowed) {
  const std::string& value = op.String(attr);
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) {
    return absl::OkStatus();
  }
  return op.Error(
      ErrorCode::kBadAttribute,
      absl::StrCat("attribute '", attr, "' is \"", value,
                   "\", must be one of: ", absl::StrJoin(allowed, ", ")));
}

absl::Status RequireFlag(const OpView& op, absl::string_view attr) {
  int64_t value = op.Int(attr);
  if (value == 0 || value == 1) return absl::OkStatus();
  return op.Error(
      ErrorCode::kBadAttribute,
      absl::StrCat("attribute '", attr, "' must be 0 or 1, got ", value));
}

absl::Status RequireRange(const OpView& op, absl::string_view attr, double low,
                          double high) {
  const Attr& value = op.Get(attr);
  double number = value.kind() == AttrKind::kInt
                      ? static_cast<double>(value.i())
                      : value.f();
  if (number >= low && number < high) return absl::OkStatus();
  return op.Error(ErrorCode::kBadAttribute,
                  absl::StrCat("attribute '", attr, "' must be in [", low, ", ",
                               high, "), got ", ToString(value)));
}

absl::StatusOr<int> AxisAttr(const OpView& op, absl::string_view attr,
                             int rank) {
  absl::StatusOr<int> axis = NormalizeAxis(op.Int(attr), rank);
  if (axis.ok()) return axis;
  return op.Error(ErrorCode::kBadAttribute, axis.status().message());
}

absl::StatusOr<std::vector<int>> AxesAttr(const OpView& op,
                                          absl::string_view attr, int rank) {
  std::vector<int> axes;
  for (int64_t item : op.Ints(attr)) {
    absl::StatusOr<int> axis = NormalizeAxis(item, rank);
    if (!axis.ok()) {
      return op.Error(ErrorCode::kBadAttribute, axis.status().message());
    }
    axes.push_back(*axis);
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    return op.Error(ErrorCode::kBadAttribute,
                    absl::StrCat("attribute '", attr, "' names an axis twice: ",
                                 ToString(op.Get(attr))));
  }
  return axes;
}

absl::StatusOr<Shape> ShapeAttr(const OpView& op, absl::string_view attr) {
  absl::StatusOr<Shape> shape = Shape::Create(op.Ints(attr));
  if (shape.ok()) return shape;
  return op.Error(
      ErrorCode::kBadAttribute,
      absl::StrCat("attribute '", attr, "': ", shape.status().message()));
}

absl::Status SameAsInput(const OpView& op, std::vector<TensorType>* out) {
  *out = {op.input(0)};
  return absl::OkStatus();
}

std::vector<Value> ZeroGradient(const GradientContext& g) {
  return std::vector<Value>(g.inputs.size());
}

double OutputElements(const OpView& op) {
  double elements = 0;
  for (const TensorType& type : op.outputs()) {
    elements += static_cast<double>(type.shape.num_elements());
  }
  return elements;
}

Cost BytesMoved(const OpView& op) {
  double bytes = 0;
  for (int i = 0; i < op.num_inputs(); ++i) {
    if (op.has_input(i)) bytes += static_cast<double>(op.input(i).num_bytes());
  }
  for (const TensorType& type : op.outputs()) {
    bytes += static_cast<double>(type.num_bytes());
  }
  return {0, bytes};
}

}  // namespace weft
