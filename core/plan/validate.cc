// Every number of a plan is compared with what it must lie within before
// anything is reached through it.
#include "core/plan/validate.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/actor/message.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/ops/schema.h"
#include "core/types/dtype.h"
#include "core/types/shape.h"

namespace weft::plan {

namespace {

// Budgets: what fits into the fields of messages and actor ids.
constexpr int kMaxStreams = 1 << actor::ActorId::kStreamBits;
constexpr int kMaxTasks = 1 << actor::ActorId::kIndexBits;
constexpr uint32_t kMaxCopies = 65534;
constexpr uint32_t kMaxActs = 65535;
constexpr uint64_t kMaxBytes = uint64_t{1} << 48;
// Patterns of a period are unrolled by the checks: bound the work.
constexpr uint64_t kMaxActsOfPeriod = uint64_t{1} << 24;

template <typename... Args>
absl::Status Bad(const Args&... args) {
  return MakeError(ErrorCode::kBadPlan, absl::StrCat(args...));
}

class Validator {
 public:
  Validator(const Plan& plan, Placement placement)
      : plan_(plan), placed_(placement == Placement::kFinal) {}

  absl::Status Run() {
    WEFT_RETURN_IF_ERROR(CheckSizes());
    WEFT_RETURN_IF_ERROR(CheckDevicesAndStreams());
    WEFT_RETURN_IF_ERROR(CheckArenas());
    for (int r = 0; r < plan_.registers_size(); ++r) {
      WEFT_RETURN_IF_ERROR(CheckRegister(r));
    }
    for (int r = 0; r < plan_.registers_size(); ++r) {
      WEFT_RETURN_IF_ERROR(CheckAlias(r));
      WEFT_RETURN_IF_ERROR(CheckOverlay(r));
    }
    for (int k = 0; k < plan_.kernels_size(); ++k) {
      WEFT_RETURN_IF_ERROR(CheckKernel(k));
    }
    for (int c = 0; c < plan_.constants_size(); ++c) {
      WEFT_RETURN_IF_ERROR(CheckConstant(c));
    }
    for (int t = 0; t < plan_.tasks_size(); ++t) {
      WEFT_RETURN_IF_ERROR(CheckPorts(t));
    }
    for (int r = 0; r < plan_.registers_size(); ++r) {
      WEFT_RETURN_IF_ERROR(CheckProducer(r));
    }
    for (int t = 0; t < plan_.tasks_size(); ++t) {
      WEFT_RETURN_IF_ERROR(CheckAliasPorts(t));
      WEFT_RETURN_IF_ERROR(CheckKindRules(t));
      WEFT_RETURN_IF_ERROR(CheckOps(t));
    }
    return absl::OkStatus();
  }

 private:
  std::string TaskName(int t) const {
    return absl::StrCat("task '", plan_.tasks(t).name(), "' [", t, "]");
  }
  std::string RegisterName(int r) const {
    const Register& reg = plan_.registers(r);
    return absl::StrCat(
        "register [", r, "]",
        reg.tensors_size() == 0
            ? ""
            : absl::StrCat(" of '", reg.tensors(0).value(), "'"));
  }

  // `what` names the reference; `index` must be below `size`.
  static absl::Status In(const std::string& what, uint64_t index, int size) {
    if (index < static_cast<uint64_t>(size)) return absl::OkStatus();
    return Bad(what, " is ", index, ", but there are only ", size);
  }

  // [offset, offset + bytes) within `size` bytes.
  static absl::Status Fits(const std::string& what, uint64_t offset,
                           uint64_t bytes, uint64_t size) {
    if (bytes <= size && offset <= size - bytes) return absl::OkStatus();
    return Bad(what, ": bytes ", offset, " to ", offset, " + ", bytes,
               " lie outside of ", size, " bytes");
  }

  absl::Status CheckSizes() const {
    if (plan_.devices_size() == 0) return Bad("the plan has no device");
    if (plan_.streams_size() > kMaxStreams) {
      return Bad("the plan has ", plan_.streams_size(), " streams; at most ",
                 kMaxStreams, " are possible");
    }
    if (plan_.tasks_size() > kMaxTasks) {
      return Bad("the plan has ", plan_.tasks_size(), " tasks; at most ",
                 kMaxTasks, " are possible");
    }
    uint64_t acts = 0;
    for (const Task& task : plan_.tasks()) acts += task.acts_per_period();
    if (acts > kMaxActsOfPeriod) {
      return Bad("a period has ", acts, " acts; at most ", kMaxActsOfPeriod,
                 " are possible");
    }
    return absl::OkStatus();
  }

  absl::Status CheckDevicesAndStreams() const {
    for (int d = 0; d < plan_.devices_size(); ++d) {
      const uint32_t a = plan_.devices(d).alignment();
      if (a == 0 || (a & (a - 1)) != 0) {
        return Bad("device '", plan_.devices(d).name(), "' [", d,
                   "] has alignment ", a, ", not a power of two");
      }
    }
    for (int s = 0; s < plan_.streams_size(); ++s) {
      const Stream& stream = plan_.streams(s);
      const std::string name =
          absl::StrCat("stream '", stream.name(), "' [", s, "]");
      WEFT_RETURN_IF_ERROR(In(absl::StrCat("device of ", name), stream.device(),
                              plan_.devices_size()));
      if (stream.worker() >= plan_.workers()) {
        return Bad("worker of ", name, " is ", stream.worker(),
                   ", but there are only ", plan_.workers());
      }
      if (!stream.ordered() && stream.order_size() != 0) {
        return Bad(name, " is not ordered, but has an order");
      }
      for (uint32_t t : stream.order()) {
        WEFT_RETURN_IF_ERROR(In(absl::StrCat("a task in the order of ", name),
                                t, plan_.tasks_size()));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckArenas() const {
    for (int a = 0; a < plan_.arenas_size(); ++a) {
      const Arena& arena = plan_.arenas(a);
      const std::string name = absl::StrCat("arena [", a, "]");
      WEFT_RETURN_IF_ERROR(In(absl::StrCat("device of ", name), arena.device(),
                              plan_.devices_size()));
      if (!Arena::Kind_IsValid(arena.kind())) {
        return Bad(name, " has unknown kind ", static_cast<int>(arena.kind()));
      }
      if (arena.bytes() > kMaxBytes) {
        return Bad(name, " has ", arena.bytes(), " bytes; at most ", kMaxBytes,
                   " are possible");
      }
      WEFT_RETURN_IF_ERROR(CheckOnlyArena(a));
      if (arena.kind() != Arena::SCRATCH) continue;
      WEFT_RETURN_IF_ERROR(In(absl::StrCat("stream of ", name), arena.stream(),
                              plan_.streams_size()));
      if (plan_.streams(arena.stream()).device() != arena.device()) {
        return Bad(name, " is scratch of stream ", arena.stream(),
                   " on device ", plan_.streams(arena.stream()).device(),
                   ", but lies on device ", arena.device());
      }
    }
    return absl::OkStatus();
  }

  // Tasks find their stream's scratch and their device's private arena by what
  // they are for, so there is one of each.
  absl::Status CheckOnlyArena(int a) const {
    const Arena& arena = plan_.arenas(a);
    for (int b = 0; b < a; ++b) {
      const Arena& other = plan_.arenas(b);
      if (other.kind() != arena.kind()) continue;
      if ((arena.kind() == Arena::SCRATCH &&
           other.stream() == arena.stream()) ||
          (arena.kind() == Arena::PRIVATE &&
           other.device() == arena.device())) {
        return Bad("arenas [", b, "] and [", a, "] are for the same");
      }
    }
    return absl::OkStatus();
  }

  // A dtype of 0 is legal where `optional`.
  static absl::Status CheckTensor(const std::string& what,
                                  const TensorDesc& tensor, bool optional) {
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

  absl::Status CheckRegister(int r) const {
    const Register& reg = plan_.registers(r);
    const std::string name = RegisterName(r);
    if (reg.copies() == 0 || reg.copies() > kMaxCopies) {
      return Bad(name, " has ", reg.copies(), " copies; 1 to ", kMaxCopies,
                 " are possible");
    }
    if (reg.bytes() > kMaxBytes)
      return Bad(name, " has ", reg.bytes(), " bytes");
    for (int k = 0; k < reg.tensors_size(); ++k) {
      const std::string what = absl::StrCat("tensor ", k, " of ", name);
      WEFT_RETURN_IF_ERROR(CheckTensor(what, reg.tensors(k), false));
      WEFT_RETURN_IF_ERROR(Fits(what, reg.tensors(k).offset(),
                                TensorBytes(reg.tensors(k)), reg.bytes()));
    }
    if (reg.alias_of() != 0 || reg.bytes() == 0) return absl::OkStatus();
    WEFT_RETURN_IF_ERROR(
        In(absl::StrCat("arena of ", name), reg.arena(), plan_.arenas_size()));
    if (!placed_) return absl::OkStatus();
    return Fits(name, reg.offset(), reg.bytes() * reg.copies(),
                plan_.arenas(reg.arena()).bytes());
  }

  absl::Status CheckAlias(int r) const {
    const Register& reg = plan_.registers(r);
    if (reg.alias_of() == 0) return absl::OkStatus();
    const std::string name = RegisterName(r);
    WEFT_RETURN_IF_ERROR(In(absl::StrCat("what ", name, " aliases"),
                            reg.alias_of() - 1, plan_.registers_size()));
    uint32_t at = r;
    for (int steps = 0; plan_.registers(at).alias_of() != 0; ++steps) {
      if (steps > plan_.registers_size()) return Bad(name, " aliases itself");
      const uint32_t next = plan_.registers(at).alias_of() - 1;
      WEFT_RETURN_IF_ERROR(In(absl::StrCat("what register ", at, " aliases"),
                              next, plan_.registers_size()));
      at = next;
    }
    if (reg.overlay_of() != 0 || reg.acks_per_copy() != 0) {
      return Bad(name, " is an alias, so it has no credits of its own");
    }
    const Register& parent = plan_.registers(reg.alias_of() - 1);
    if (reg.copies() % parent.copies() != 0) {
      return Bad(name, " has ", reg.copies(), " copies, its parent ",
                 parent.copies(), ": not whole slices");
    }
    const uint64_t slices = reg.copies() / parent.copies();
    if (reg.alias_stride() > kMaxBytes || reg.alias_offset() > kMaxBytes) {
      return Bad(name, " lies ", reg.alias_offset(), " + ", reg.alias_stride(),
                 " bytes off");
    }
    return Fits(name, reg.alias_offset() + (slices - 1) * reg.alias_stride(),
                reg.bytes(), parent.bytes());
  }

  absl::Status CheckOverlay(int r) const {
    const Register& reg = plan_.registers(r);
    if (reg.overlay_of() == 0) return absl::OkStatus();
    const std::string name = RegisterName(r);
    WEFT_RETURN_IF_ERROR(In(absl::StrCat("what ", name, " overlays"),
                            reg.overlay_of() - 1, plan_.registers_size()));
    const Register& other = plan_.registers(reg.overlay_of() - 1);
    if (&other == &reg || other.overlay_of() != 0 || other.alias_of() != 0) {
      return Bad(name, " overlays a register that has no memory of its own");
    }
    if (reg.arena() != other.arena() || reg.offset() != other.offset() ||
        reg.bytes() != other.bytes() || reg.copies() != 1 ||
        other.copies() != 1) {
      return Bad(name, " must be the same single copy of memory as register ",
                 reg.overlay_of() - 1, ", which it overlays");
    }
    return absl::OkStatus();
  }

  absl::Status CheckKernel(int k) const {
    const Kernel& kernel = plan_.kernels(k);
    const std::string name = absl::StrCat("kernel [", k, "]");
    WEFT_RETURN_IF_ERROR(In(absl::StrCat("device of ", name), kernel.device(),
                            plan_.devices_size()));
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

  absl::Status CheckConstant(int c) const {
    const Constant& constant = plan_.constants(c);
    const std::string name = absl::StrCat("constant [", c, "]");
    WEFT_RETURN_IF_ERROR(In(absl::StrCat("device of ", name), constant.device(),
                            plan_.devices_size()));
    const TensorDesc tensor = ToDesc(constant);
    WEFT_RETURN_IF_ERROR(CheckTensor(name, tensor, false));
    if (TensorBytes(tensor) != constant.data().size()) {
      return Bad(name, " has ", constant.data().size(), " bytes, its shape ",
                 TensorBytes(tensor));
    }
    return absl::OkStatus();
  }

  static TensorDesc ToDesc(const Constant& constant) {
    TensorDesc tensor;
    tensor.set_dtype(constant.dtype());
    *tensor.mutable_dims() = constant.dims();
    return tensor;
  }

  absl::Status CheckPorts(int t) {
    const Task& task = plan_.tasks(t);
    const std::string name = TaskName(t);
    if (!Task::Kind_IsValid(task.kind())) {
      return Bad(name, " has unknown kind ", static_cast<int>(task.kind()));
    }
    WEFT_RETURN_IF_ERROR(In(absl::StrCat("stream of ", name), task.stream(),
                            plan_.streams_size()));
    if (task.acts_per_period() == 0 || task.acts_per_period() > kMaxActs) {
      return Bad(name, " acts ", task.acts_per_period(),
                 " times a period; 1 to ", kMaxActs, " are possible");
    }
    for (const InputPort& in : task.inputs()) {
      WEFT_RETURN_IF_ERROR(In(absl::StrCat("a register that ", name, " reads"),
                              in.register_(), plan_.registers_size()));
    }
    producer_.resize(plan_.registers_size(), -1);
    for (const OutputPort& out : task.outputs()) {
      WEFT_RETURN_IF_ERROR(In(absl::StrCat("a register that ", name, " gives"),
                              out.register_(), plan_.registers_size()));
      int& producer = producer_[out.register_()];
      if (producer >= 0) {
        return Bad(RegisterName(out.register_()), " is given by ",
                   TaskName(producer), " and by ", name);
      }
      producer = t;
    }
    return absl::OkStatus();
  }

  absl::Status CheckProducer(int r) {
    producer_.resize(plan_.registers_size(), -1);
    if (producer_[r] < 0) return Bad(RegisterName(r), " is given by no task");
    const Register& reg = plan_.registers(r);
    const Task& task = plan_.tasks(producer_[r]);
    if (!reg.state().empty() && task.kind() != Task::VARIABLE) {
      return Bad(RegisterName(r), " is state '", reg.state(),
                 "', but is given by ", TaskName(producer_[r]),
                 ", which is no variable");
    }
    if (reg.overlay_of() != 0 &&
        producer_[reg.overlay_of() - 1] != producer_[r]) {
      return Bad(RegisterName(r), " overlays a register of ",
                 TaskName(producer_[reg.overlay_of() - 1]));
    }
    return absl::OkStatus();
  }

  // An alias is given by a task that reads what it aliases, at a port that says
  // so.
  absl::Status CheckAliasPorts(int t) const {
    const Task& task = plan_.tasks(t);
    for (const InputPort& in : task.inputs()) {
      if (producer_[in.register_()] == t) {
        return Bad(TaskName(t), " reads its own ",
                   RegisterName(in.register_()));
      }
      bool found = false;
      for (const OutputPort& out : task.outputs()) {
        const Register& reg = plan_.registers(out.register_());
        found |= reg.alias_of() == in.register_() + 1;
      }
      if (found != in.aliased()) {
        return Bad(TaskName(t), found ? " has" : " has no", " alias of ",
                   RegisterName(in.register_()), ", but its port says ",
                   in.aliased() ? "aliased" : "not aliased");
      }
    }
    for (const OutputPort& out : task.outputs()) {
      const uint32_t alias_of = plan_.registers(out.register_()).alias_of();
      if (alias_of == 0) continue;
      auto reads = [&](const InputPort& in) {
        return in.register_() == alias_of - 1;
      };
      if (std::none_of(task.inputs().begin(), task.inputs().end(), reads)) {
        return Bad(TaskName(t), " gives an alias of ",
                   RegisterName(alias_of - 1), ", which it does not read");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckKindRules(int t) const {
    const Task& task = plan_.tasks(t);
    const std::string name = TaskName(t);
    if (placed_ && task.private_bytes() != 0) {
      WEFT_RETURN_IF_ERROR(
          Fits(name, task.private_offset(), task.private_bytes(),
               PrivateBytes(plan_.streams(task.stream()).device())));
    }
    switch (task.kind()) {
      case Task::SOURCE:
      case Task::SINK:
        if (task.binding().empty()) return Bad(name, " is bound to nothing");
        return absl::OkStatus();
      case Task::VARIABLE:
        return CheckVariable(task, name);
      case Task::COPY:
        return CheckCopy(task, name);
      case Task::ACCUMULATE:
        return CheckAccumulate(task, name);
      default:
        return absl::OkStatus();
    }
  }

  absl::Status CheckVariable(const Task& task, const std::string& name) const {
    if (task.outputs_size() != 1 && task.outputs_size() != 2) {
      return Bad(name, " has ", task.outputs_size(),
                 " outputs; a variable has one for each phase");
    }
    const uint32_t first = task.outputs(0).register_();
    if (plan_.registers(first).state().empty()) {
      return Bad(name, " has no logical name");
    }
    if (task.outputs_size() == 2 &&
        plan_.registers(task.outputs(1).register_()).overlay_of() !=
            first + 1) {
      return Bad(name, ": its exclusive register does not overlay the shared");
    }
    return absl::OkStatus();
  }

  // Input 0 to output 0; without outputs, to input 1. Sizes are compared as
  // tensors: each device pads its registers in its own way.
  absl::Status CheckCopy(const Task& task, const std::string& name) const {
    const bool write_back = task.outputs_size() == 0;
    if (task.inputs_size() < (write_back ? 2 : 1)) {
      return Bad(name, " copies nothing");
    }
    const Register& from = plan_.registers(task.inputs(0).register_());
    const Register& to = plan_.registers(
        write_back ? task.inputs(1).register_() : task.outputs(0).register_());
    if (from.tensors_size() != to.tensors_size()) {
      return Bad(name, " copies ", from.tensors_size(), " tensors to ",
                 to.tensors_size());
    }
    for (int i = 0; i < from.tensors_size(); ++i) {
      WEFT_RETURN_IF_ERROR(CheckSame(absl::StrCat("what ", name, " copies"),
                                     from.tensors(i), to.tensors(i)));
    }
    return absl::OkStatus();
  }

  absl::Status CheckAccumulate(const Task& task,
                               const std::string& name) const {
    if (task.inputs_size() < 1 || task.outputs_size() < 1 ||
        task.ops_size() != 1) {
      return Bad(name, " needs an input, an output and one Add kernel");
    }
    const Register& in = plan_.registers(task.inputs(0).register_());
    const Register& out = plan_.registers(task.outputs(0).register_());
    if (in.tensors_size() != 1 || out.tensors_size() != 1 ||
        in.tensors(0).dtype() != out.tensors(0).dtype() ||
        TensorBytes(in.tensors(0)) != TensorBytes(out.tensors(0))) {
      return Bad(name, " sums one tensor into one like it");
    }
    uint64_t levels = 1;
    while (task.acts_per_period() >> levels != 0) ++levels;
    if (placed_ && task.private_bytes() / levels < TensorBytes(in.tensors(0))) {
      return Bad(name, " keeps ", levels, " buffers of ",
                 TensorBytes(in.tensors(0)), " bytes in ",
                 task.private_bytes());
    }
    return absl::OkStatus();
  }

  uint64_t ScratchBytes(uint32_t stream) const {
    for (const Arena& arena : plan_.arenas()) {
      if (arena.kind() == Arena::SCRATCH && arena.stream() == stream) {
        return arena.bytes();
      }
    }
    return 0;
  }

  uint64_t PrivateBytes(uint32_t device) const {
    for (const Arena& arena : plan_.arenas()) {
      if (arena.kind() == Arena::PRIVATE && arena.device() == device) {
        return arena.bytes();
      }
    }
    return 0;
  }

  absl::Status CheckOps(int t) const {
    const Task& task = plan_.tasks(t);
    const uint32_t device = plan_.streams(task.stream()).device();
    for (const Op& op : task.ops()) {
      const std::string what =
          absl::StrCat("'", op.node(), "' in ", TaskName(t));
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
            CheckOperand(t, absl::StrCat("operand ", k, " of ", what),
                         op.inputs(k), kernel.inputs(k), /*result=*/false));
      }
      for (int k = 0; k < op.outputs_size(); ++k) {
        WEFT_RETURN_IF_ERROR(
            CheckOperand(t, absl::StrCat("result ", k, " of ", what),
                         op.outputs(k), kernel.outputs(k), /*result=*/true));
      }
      WEFT_RETURN_IF_ERROR(CheckWorkspace(t, what, op, kernel));
    }
    return absl::OkStatus();
  }

  absl::Status CheckWorkspace(int t, const std::string& what, const Op& op,
                              const Kernel& kernel) const {
    const Operand& space = op.workspace();
    if (space.where() == Operand::ABSENT) {
      if (kernel.workspace_bytes() == 0) return absl::OkStatus();
      return Bad(what, " has no workspace, its kernel needs ",
                 kernel.workspace_bytes(), " bytes");
    }
    return CheckPlace(t, absl::StrCat("workspace of ", what), space,
                      kernel.workspace_bytes());
  }

  // An operand without a tensor of its own: scratch or private bytes.
  absl::Status CheckPlace(int t, const std::string& what, const Operand& at,
                          uint64_t bytes) const {
    const uint32_t stream = plan_.tasks(t).stream();
    uint64_t size = 0;
    if (at.where() == Operand::SCRATCH) {
      size = ScratchBytes(stream);
    } else if (at.where() == Operand::PRIVATE) {
      size = PrivateBytes(plan_.streams(stream).device());
    } else {
      return Bad(what, " is neither scratch nor private");
    }
    if (!placed_) return absl::OkStatus();
    return Fits(what, at.offset(), bytes, size);
  }

  absl::Status CheckOperand(int t, const std::string& what, const Operand& at,
                            const TensorDesc& desc, bool result) const {
    const Task& task = plan_.tasks(t);
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
        return CheckPlace(t, what, at, TensorBytes(desc));
    }
  }

  absl::Status CheckTensorOf(const std::string& what, uint32_t r,
                             const Operand& at, const TensorDesc& desc) const {
    const Register& reg = plan_.registers(r);
    WEFT_RETURN_IF_ERROR(
        In(absl::StrCat("tensor of ", what), at.tensor(), reg.tensors_size()));
    return CheckSame(what, reg.tensors(at.tensor()), desc);
  }

  static absl::Status CheckSame(const std::string& what,
                                const TensorDesc& given,
                                const TensorDesc& wanted) {
    if (given.dtype() == wanted.dtype() &&
        TensorBytes(given) == TensorBytes(wanted)) {
      return absl::OkStatus();
    }
    return Bad(what, " is ", DTypeName(static_cast<DType>(given.dtype())),
               " of ", TensorBytes(given), " bytes, its kernel wants ",
               DTypeName(static_cast<DType>(wanted.dtype())), " of ",
               TensorBytes(wanted));
  }

  const Plan& plan_;
  const bool placed_;
  std::vector<int> producer_;  // task, by register
};

}  // namespace

absl::Status ValidateForm(const Plan& plan, Placement placement) {
  return Validator(plan, placement).Run();
}

}  // namespace weft::plan
