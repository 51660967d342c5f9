#include "core/ops/schema.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"
#include "core/ops/expr.h"

namespace weft {
namespace {

absl::string_view KindName(AttrKind kind) {
  switch (kind) {
    case AttrKind::kInt:
      return "int";
    case AttrKind::kFloat:
      return "float";
    case AttrKind::kString:
      return "string";
    case AttrKind::kInts:
      return "list of ints";
    case AttrKind::kFloats:
      return "list of floats";
    case AttrKind::kStrings:
      return "list of strings";
    case AttrKind::kDType:
      return "dtype";
    case AttrKind::kTensor:
      return "tensor";
  }
  return "unknown kind";
}

// "2", "2 or 3", "1 to 4", "at least 1".
std::string ArityText(Arity arity) {
  if (arity.max >= kVariadic) return absl::StrCat("at least ", arity.min);
  if (arity.min == arity.max) return absl::StrCat(arity.min);
  return absl::StrCat(arity.min, arity.max == arity.min + 1 ? " or " : " to ",
                      arity.max);
}

absl::Status CheckInputs(const OpView& op) {
  const Arity& arity = op.schema().inputs;
  if (op.num_inputs() < arity.min || op.num_inputs() > arity.max) {
    return op.Error(ErrorCode::kBadArity,
                    absl::StrCat("takes ", ArityText(arity), " operands, got ",
                                 op.num_inputs()));
  }
  for (int i = 0; i < arity.min; ++i) {
    if (!op.has_input(i)) {
      return op.Error(ErrorCode::kBadArity,
                      absl::StrCat("operand ", i, " is required but absent"));
    }
  }
  return absl::OkStatus();
}

absl::Status UnknownAttribute(const OpView& op, absl::string_view name) {
  std::vector<std::string> known;
  for (const AttrSpec& spec : op.schema().attrs) known.push_back(spec.name);
  std::string hint = DidYouMean(name, known);
  if (hint.empty()) {
    hint = known.empty()
               ? "; it has none"
               : absl::StrCat("; it has: ", absl::StrJoin(known, ", "));
  }
  return op.Error(ErrorCode::kUnknownAttribute,
                  absl::StrCat("no attribute '", name, "'", hint));
}

absl::Status CheckAttrs(const OpView& op) {
  for (const auto& [name, value] : op.attrs()) {
    const AttrSpec* spec = op.schema().FindAttr(name);
    if (spec == nullptr) return UnknownAttribute(op, name);
    if (value.kind() != spec->kind) {
      return op.Error(
          ErrorCode::kBadAttribute,
          absl::StrCat("attribute '", name, "' must be a ",
                       KindName(spec->kind), ", got the ",
                       KindName(value.kind()), " ", ToString(value)));
    }
  }
  for (const AttrSpec& spec : op.schema().attrs) {
    if (spec.required && op.attrs().Find(spec.name) == nullptr) {
      return op.Error(ErrorCode::kBadAttribute,
                      absl::StrCat("attribute '", spec.name, "' (",
                                   KindName(spec.kind), ") is required"));
    }
  }
  return absl::OkStatus();
}

// Inference gives every result that the op can have; a use may leave out
// trailing ones, but not of an op whose number of results is open.
absl::Status FitOutputs(const OpView& op, int num_outputs,
                        std::vector<TensorType>* out) {
  const Arity& arity = op.schema().outputs;
  int given = static_cast<int>(out->size());
  bool exact = arity.max >= kVariadic;
  if (num_outputs < arity.min || num_outputs > given ||
      (exact && num_outputs != given)) {
    Arity possible = {exact ? given : arity.min, given};
    return op.Error(ErrorCode::kBadArity,
                    absl::StrCat("gives ", ArityText(possible),
                                 " results, asked for ", num_outputs));
  }
  out->resize(num_outputs);
  for (const TensorType& type : *out) {
    absl::StatusOr<Shape> shape = Shape::Create(type.shape.dims());
    if (!shape.ok()) {
      return op.Error(ErrorCode::kShapeMismatch, shape.status().message());
    }
  }
  return absl::OkStatus();
}

}  // namespace

const AttrSpec* OpSchema::FindAttr(absl::string_view attr_name) const {
  for (const AttrSpec& spec : attrs) {
    if (spec.name == attr_name) return &spec;
  }
  return nullptr;
}

const Attr& OpView::Get(absl::string_view name) const {
  if (const Attr* given = attrs_.Find(name)) return *given;
  return schema_.FindAttr(name)->default_value;
}

bool OpView::Has(absl::string_view name) const {
  if (attrs_.Find(name) != nullptr) return true;
  const AttrSpec* spec = schema_.FindAttr(name);
  return spec != nullptr && spec->has_default;
}

absl::Status OpView::Error(ErrorCode code, absl::string_view message) const {
  return MakeError(
      code, absl::StrCat("node '", name_, "' (", schema_.name, "): ", message));
}

absl::StatusOr<std::vector<TensorType>> InferTypes(
    const OpSchema& schema, absl::string_view name, const AttrMap& attrs,
    absl::Span<const TensorType> inputs, int num_outputs) {
  OpView op(schema, name, attrs, inputs, {});
  WEFT_RETURN_IF_ERROR(CheckInputs(op));
  WEFT_RETURN_IF_ERROR(CheckAttrs(op));
  std::vector<TensorType> out;
  WEFT_RETURN_IF_ERROR(schema.infer(op, &out));
  WEFT_RETURN_IF_ERROR(FitOutputs(op, num_outputs, &out));
  return out;
}

Value NodeEmitter::SumTo(Value value, const Shape& target) {
  if (!value.valid()) return {};
  Shape shape = type(value).shape;
  int extra = shape.rank() - target.rank();
  std::vector<int64_t> axes;
  for (int d = 0; d < shape.rank(); ++d) {
    if (d < extra || target.dim(d - extra) != shape.dim(d)) axes.push_back(d);
  }
  Expr sum = Sum(Expr(*this, value), axes, /*keepdims=*/extra == 0);
  return ReshapeTo(sum, target);
}

}  // namespace weft
