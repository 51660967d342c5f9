#include "core/plan/kernel_cost.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/ops/infer.h"

namespace weft::plan {
namespace {

absl::Status SetAttr(const Attribute& from, AttrMap* to) {
  switch (from.value_case()) {
    case Attribute::kI:
      to->Set(from.name(), from.i());
      return absl::OkStatus();
    case Attribute::kF:
      to->Set(from.name(), from.f());
      return absl::OkStatus();
    case Attribute::kS:
      to->Set(from.name(), from.s());
      return absl::OkStatus();
    case Attribute::kInts:
      to->Set(from.name(), std::vector<int64_t>(from.ints().values().begin(),
                                                from.ints().values().end()));
      return absl::OkStatus();
    case Attribute::kFloats:
      to->Set(from.name(), std::vector<double>(from.floats().values().begin(),
                                               from.floats().values().end()));
      return absl::OkStatus();
    case Attribute::kStrings:
      to->Set(from.name(),
              std::vector<std::string>(from.strings().values().begin(),
                                       from.strings().values().end()));
      return absl::OkStatus();
    case Attribute::kDtype:
      to->Set(from.name(), static_cast<DType>(from.dtype()));
      return absl::OkStatus();
    case Attribute::kTensor:
    case Attribute::VALUE_NOT_SET:
      break;
  }
  return MakeError(ErrorCode::kBadPlan,
                   absl::StrCat("attribute '", from.name(),
                                "' has no value that a kernel takes"));
}

std::vector<TensorType> Types(
    const google::protobuf::RepeatedPtrField<TensorDesc>& tensors) {
  std::vector<TensorType> types;
  for (const TensorDesc& tensor : tensors) {
    types.push_back({static_cast<DType>(tensor.dtype()),
                     Shape(absl::MakeConstSpan(tensor.dims().data(),
                                               tensor.dims().size()))});
  }
  return types;
}

}  // namespace

absl::StatusOr<Cost> KernelCost(const Kernel& kernel) {
  const absl::string_view name = OpName(static_cast<OpId>(kernel.op()));
  const OpSchema* schema = OpRegistry::Global().FindOrNull(name);
  if (schema == nullptr) {
    return MakeError(ErrorCode::kBadPlan,
                     absl::StrCat("a kernel of unknown op ", kernel.op()));
  }
  AttrMap attrs;
  for (const Attribute& attribute : kernel.attributes()) {
    WEFT_RETURN_IF_ERROR(SetAttr(attribute, &attrs));
  }
  const std::vector<TensorType> inputs = Types(kernel.inputs());
  const std::vector<TensorType> outputs = Types(kernel.outputs());
  // The schema's cost relies on what inference has checked.
  absl::StatusOr<std::vector<TensorType>> inferred =
      InferTypes(*schema, name, attrs, inputs, kernel.outputs_size());
  if (!inferred.ok()) {
    return MakeError(
        ErrorCode::kBadPlan,
        absl::StrCat("a kernel of ", name, ": ", inferred.status().message()));
  }
  const OpView view(*schema, name, attrs, inputs, outputs);
  return schema->cost ? schema->cost(view) : BytesMoved(view);
}

}  // namespace weft::plan
