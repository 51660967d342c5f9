#include "runtime/execute/op_desc.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft::runtime {
namespace {

absl::Status CheckTensors(
    const google::protobuf::RepeatedPtrField<plan::TensorDesc>& tensors) {
  if (tensors.size() > static_cast<int>(WEFT_MAX_OPERANDS)) {
    return MakeError(ErrorCode::kBadPlan,
                     absl::StrCat("a kernel has ", tensors.size(),
                                  " operands; at most ", WEFT_MAX_OPERANDS));
  }
  for (const plan::TensorDesc& tensor : tensors) {
    if (tensor.dims_size() > static_cast<int>(WEFT_MAX_RANK)) {
      return MakeError(
          ErrorCode::kBadPlan,
          absl::StrCat("a kernel's tensor has ", tensor.dims_size(),
                       " dimensions; at most ", WEFT_MAX_RANK));
    }
  }
  return absl::OkStatus();
}

std::vector<int64_t> DimsOf(const plan::TensorDesc& tensor) {
  return {tensor.dims().begin(), tensor.dims().end()};
}

absl::Status SetAttribute(const plan::Attribute& from, OpDesc* to) {
  switch (from.value_case()) {
    case plan::Attribute::kI:
      to->Set(from.name(), from.i());
      return absl::OkStatus();
    case plan::Attribute::kF:
      to->Set(from.name(), from.f());
      return absl::OkStatus();
    case plan::Attribute::kS:
      to->Set(from.name(), from.s());
      return absl::OkStatus();
    case plan::Attribute::kInts:
      to->Set(from.name(), std::vector<int64_t>(from.ints().values().begin(),
                                                from.ints().values().end()));
      return absl::OkStatus();
    case plan::Attribute::kFloats:
      to->Set(from.name(), std::vector<double>(from.floats().values().begin(),
                                               from.floats().values().end()));
      return absl::OkStatus();
    case plan::Attribute::kStrings:
      to->Set(from.name(),
              std::vector<std::string>(from.strings().values().begin(),
                                       from.strings().values().end()));
      return absl::OkStatus();
    case plan::Attribute::kDtype:
      to->SetDType(from.name(), from.dtype());
      return absl::OkStatus();
    case plan::Attribute::kTensor:
    case plan::Attribute::VALUE_NOT_SET:
      break;
  }
  return MakeError(ErrorCode::kBadPlan,
                   absl::StrCat("attribute '", from.name(),
                                "' has no value that a kernel takes"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<OpDesc>> DescribeKernel(
    const plan::Kernel& kernel) {
  WEFT_RETURN_IF_ERROR(CheckTensors(kernel.inputs()));
  WEFT_RETURN_IF_ERROR(CheckTensors(kernel.outputs()));
  auto desc = std::make_unique<OpDesc>(kernel.op());
  for (const plan::TensorDesc& tensor : kernel.inputs()) {
    if (tensor.dtype() == 0) {
      desc->NoIn();
    } else {
      desc->In(tensor.dtype(), DimsOf(tensor));
    }
  }
  for (const plan::TensorDesc& tensor : kernel.outputs()) {
    desc->Out(tensor.dtype(), DimsOf(tensor));
  }
  for (const plan::Attribute& attribute : kernel.attributes()) {
    WEFT_RETURN_IF_ERROR(SetAttribute(attribute, desc.get()));
  }
  return desc;
}

}  // namespace weft::runtime
