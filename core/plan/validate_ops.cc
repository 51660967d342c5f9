#include "core/plan/validate_ops.h"

#include <string>

#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/ops/schema.h"
#include "core/types/dtype.h"
#include "core/types/shape.h"

namespace weft::plan {

namespace {

TensorDesc ToDesc(const Constant& constant) {
  TensorDesc tensor;
  tensor.set_dtype(constant.dtype());
  *tensor.mutable_dims() = constant.dims();
  return tensor;
}

absl::Status CheckKernel(const Plan& plan, int k) {
  const Kernel& kernel = plan.kernels(k);
  const std::string name = absl::StrCat("kernel [", k, "]");
  WEFT_RETURN_IF_ERROR(In(absl::StrCat("device of ", name), kernel.device(),
                          plan.devices_size()));
  if (OpName(static_cast<OpId>(kernel.op())).empty()) {
    return Bad(name, " has unknown op ", kernel.op());
  }
  for (const TensorDesc& tensor : kernel.inputs()) {
    WEFT_RETURN_IF_ERROR(
        CheckTensor(absl::StrCat("an operand of ", name), tensor, true));
  }
  for (const TensorDesc& tensor : kernel.outputs()) {
    WEFT_RETURN_IF_ERROR(
        CheckTensor(absl::StrCat("a result of ", name), tensor, true));
  }
  for (const Attribute& attribute : kernel.attributes()) {
    if (attribute.value_case() == Attribute::VALUE_NOT_SET) {
      return Bad("attribute '", attribute.name(), "' of ", name,
                 " has no value");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckConstant(const Plan& plan, int c) {
  const Constant& constant = plan.constants(c);
  const std::string name = absl::StrCat("constant [", c, "]");
  WEFT_RETURN_IF_ERROR(In(absl::StrCat("device of ", name), constant.device(),
                          plan.devices_size()));
  const TensorDesc tensor = ToDesc(constant);
  WEFT_RETURN_IF_ERROR(CheckTensor(name, tensor, false));
  if (TensorBytes(tensor) != constant.data().size()) {
    return Bad(name, " has ", constant.data().size(), " bytes, its shape ",
               TensorBytes(tensor));
  }
  return absl::OkStatus();
}

// The ops of one task.
class OpsValidator {
 public:
  OpsValidator(const Plan& plan, int t, bool placed)
      : plan_(plan), t_(t), placed_(placed) {}

  absl::Status Run() const {
    const Task& task = plan_.tasks(t_);
    const uint32_t device = plan_.streams(task.stream()).device();
    for (const Op& op : task.ops()) {
      const std::string what =
          absl::StrCat("'", op.node(), "' in ", TaskName(plan_, t_));
      WEFT_RETURN_IF_ERROR(In(absl::StrCat("kernel of ", what), op.kernel(),
                              plan_.kernels_size()));
      const Kernel& kernel = plan_.kernels(op.kernel());
      if (kernel.device() != device) {
        return Bad(what, " runs on device ", device, ", its kernel is of ",
                   kernel.device());
      }
      // The run-time places the operands of a tree sum itself.
      if (task.kind() == Task::ACCUMULATE) continue;
      if (op.inputs_size() != kernel.inputs_size() ||
          op.outputs_size() != kernel.outputs_size()) {
        return Bad(what, " has ", op.inputs_size(), " operands and ",
                   op.outputs_size(), " results, its kernel ",
                   kernel.inputs_size(), " and ", kernel.outputs_size());
      }
      for (int k = 0; k < op.inputs_size(); ++k) {
        WEFT_RETURN_IF_ERROR(
            CheckOperand(absl::StrCat("operand ", k, " of ", what),
                         op.inputs(k), kernel.inputs(k), /*result=*/false));
      }
      for (int k = 0; k < op.outputs_size(); ++k) {
        WEFT_RETURN_IF_ERROR(
            CheckOperand(absl::StrCat("result ", k, " of ", what),
                         op.outputs(k), kernel.outputs(k), /*result=*/true));
      }
      WEFT_RETURN_IF_ERROR(CheckWorkspace(what, op, kernel));
    }
    return absl::OkStatus();
  }

 private:
  uint64_t ScratchBytes(uint32_t stream) const {
    for (const Arena& arena : plan_.arenas()) {
      if (arena.kind() == Arena::SCRATCH && arena.stream() == stream) {
        return arena.bytes();
      }
    }
    return 0;
  }

  absl::Status CheckWorkspace(const std::string& what, const Op& op,
                              const Kernel& kernel) const {
    const Operand& space = op.workspace();
    if (space.where() == Operand::ABSENT) {
      if (kernel.workspace_bytes() == 0) return absl::OkStatus();
      return Bad(what, " has no workspace, its kernel needs ",
                 kernel.workspace_bytes(), " bytes");
    }
    return CheckPlace(absl::StrCat("workspace of ", what), space,
                      kernel.workspace_bytes());
  }

  // An operand without a tensor of its own: scratch or private bytes.
  absl::Status CheckPlace(const std::string& what, const Operand& at,
                          uint64_t bytes) const {
    const uint32_t stream = plan_.tasks(t_).stream();
    uint64_t size = 0;
    if (at.where() == Operand::SCRATCH) {
      size = ScratchBytes(stream);
    } else if (at.where() == Operand::PRIVATE) {
      size = PrivateBytes(plan_, plan_.streams(stream).device());
    } else {
      return Bad(what, " is neither scratch nor private");
    }
    if (!placed_) return absl::OkStatus();
    return Fits(what, at.offset(), bytes, size);
  }

  absl::Status CheckOperand(const std::string& what, const Operand& at,
                            const TensorDesc& desc, bool result) const {
    const Task& task = plan_.tasks(t_);
    if (at.where() == Operand::ABSENT || desc.dtype() == 0) {
      if ((at.where() == Operand::ABSENT) == (desc.dtype() == 0)) {
        return absl::OkStatus();
      }
      return Bad(what, " is ",
                 desc.dtype() == 0 ? "there, its kernel has none"
                                   : "absent, its kernel has one");
    }
    switch (at.where()) {
      case Operand::INPUT:
        WEFT_RETURN_IF_ERROR(In(absl::StrCat("input of ", what), at.index(),
                                task.inputs_size()));
        return CheckTensorOf(what, task.inputs(at.index()).register_(), at,
                             desc);
      case Operand::OUTPUT:
        WEFT_RETURN_IF_ERROR(In(absl::StrCat("output of ", what), at.index(),
                                task.outputs_size()));
        return CheckTensorOf(what, task.outputs(at.index()).register_(), at,
                             desc);
      case Operand::CONSTANT: {
        if (result) return Bad(what, " is written to a constant");
        WEFT_RETURN_IF_ERROR(In(absl::StrCat("constant of ", what), at.index(),
                                plan_.constants_size()));
        return CheckSame(what, ToDesc(plan_.constants(at.index())), desc);
      }
      default:
        return CheckPlace(what, at, TensorBytes(desc));
    }
  }

  absl::Status CheckTensorOf(const std::string& what, uint32_t r,
                             const Operand& at, const TensorDesc& desc) const {
    const Register& reg = plan_.registers(r);
    WEFT_RETURN_IF_ERROR(
        In(absl::StrCat("tensor of ", what), at.tensor(), reg.tensors_size()));
    return CheckSame(what, reg.tensors(at.tensor()), desc);
  }

  const Plan& plan_;
  const int t_;
  const bool placed_;
};

}  // namespace

std::string TaskName(const Plan& plan, int t) {
  return absl::StrCat("task '", plan.tasks(t).name(), "' [", t, "]");
}

std::string RegisterName(const Plan& plan, int r) {
  const Register& reg = plan.registers(r);
  return absl::StrCat("register [", r, "]",
                      reg.tensors_size() == 0
                          ? ""
                          : absl::StrCat(" of '", reg.tensors(0).value(), "'"));
}

absl::Status In(const std::string& what, uint64_t index, int size) {
  if (index < static_cast<uint64_t>(size)) return absl::OkStatus();
  return Bad(what, " is ", index, ", but there are only ", size);
}

absl::Status Fits(const std::string& what, uint64_t offset, uint64_t bytes,
                  uint64_t size) {
  if (bytes <= size && offset <= size - bytes) return absl::OkStatus();
  return Bad(what, ": bytes ", offset, " to ", offset, " + ", bytes,
             " lie outside of ", size, " bytes");
}

absl::Status CheckTensor(const std::string& what, const TensorDesc& tensor,
                         bool optional) {
  const auto dtype = static_cast<DType>(tensor.dtype());
  if (DTypeSize(dtype) == 0) {
    if (optional && tensor.dtype() == 0) return absl::OkStatus();
    return Bad(what, " has unknown dtype ", tensor.dtype());
  }
  absl::StatusOr<Shape> shape = Shape::Create(tensor.dims());
  if (!shape.ok()) return Bad(what, ": ", shape.status().message());
  const uint64_t count = shape->num_elements();
  if (count > kMaxBytes / DTypeSize(dtype)) {
    return Bad(what, " has ", count, " elements");
  }
  return absl::OkStatus();
}

absl::Status CheckSame(const std::string& what, const TensorDesc& given,
                       const TensorDesc& wanted) {
  if (given.dtype() == wanted.dtype() &&
      TensorBytes(given) == TensorBytes(wanted)) {
    return absl::OkStatus();
  }
  return Bad(what, " is ", DTypeName(static_cast<DType>(given.dtype())), " of ",
             TensorBytes(given), " bytes, its kernel wants ",
             DTypeName(static_cast<DType>(wanted.dtype())), " of ",
             TensorBytes(wanted));
}

uint64_t PrivateBytes(const Plan& plan, uint32_t device) {
  for (const Arena& arena : plan.arenas()) {
    if (arena.kind() == Arena::PRIVATE && arena.device() == device) {
      return arena.bytes();
    }
  }
  return 0;
}

absl::Status ValidateKernels(const Plan& plan) {
  for (int k = 0; k < plan.kernels_size(); ++k) {
    WEFT_RETURN_IF_ERROR(CheckKernel(plan, k));
  }
  for (int c = 0; c < plan.constants_size(); ++c) {
    WEFT_RETURN_IF_ERROR(CheckConstant(plan, c));
  }
  return absl::OkStatus();
}

absl::Status ValidateOps(const Plan& plan, int t, bool placed) {
  return OpsValidator(plan, t, placed).Run();
}

}  // namespace weft::plan
