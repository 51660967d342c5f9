// Every number of a plan is compared with what it must lie within before
// anything is reached through it.
#include "core/plan/validate.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/actor/message.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/plan/validate_ops.h"
#include "core/plan/validate_wire.h"
#include "core/types/dtype.h"

namespace weft::plan {

namespace {

// Budgets: what fits into the fields of messages and actor ids.
constexpr int kMaxStreams = 1 << actor::ActorId::kStreamBits;
constexpr int kMaxTasks = 1 << actor::ActorId::kIndexBits;
// Each is a thread of the process.
constexpr uint32_t kMaxWorkers = 1024;
constexpr uint32_t kMaxActs = 65535;
// Patterns of a period are unrolled by the checks: bound the work.
constexpr uint64_t kMaxActsOfPeriod = uint64_t{1} << 24;

class Validator {
 public:
  Validator(const Plan& plan, Placement placement)
      : plan_(plan),
        placed_(placement == Placement::kFinal),
        wire_(plan, &producer_) {}

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
    WEFT_RETURN_IF_ERROR(wire_.CheckChannels());
    WEFT_RETURN_IF_ERROR(ValidateKernels(plan_));
    for (int t = 0; t < plan_.tasks_size(); ++t) {
      WEFT_RETURN_IF_ERROR(CheckPorts(t));
    }
    for (int r = 0; r < plan_.registers_size(); ++r) {
      WEFT_RETURN_IF_ERROR(CheckProducer(r));
    }
    for (int t = 0; t < plan_.tasks_size(); ++t) {
      WEFT_RETURN_IF_ERROR(CheckAliasPorts(t));
      WEFT_RETURN_IF_ERROR(CheckKindRules(t));
      WEFT_RETURN_IF_ERROR(ValidateOps(plan_, t, placed_));
    }
    return wire_.CheckEnds();
  }

 private:
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
    if (plan_.pipeline().stages() > uint32_t{kMaxTasks}) {
      return Bad("the pipeline has ", plan_.pipeline().stages(),
                 " stages; at most ", kMaxTasks, " are possible");
    }
    if (plan_.workers() > kMaxWorkers) {
      return Bad("the plan has ", plan_.workers(), " workers; at most ",
                 kMaxWorkers, " are possible");
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

  absl::Status CheckRegister(int r) const {
    const Register& reg = plan_.registers(r);
    const std::string name = RegisterName(plan_, r);
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
    if (reg.alias_of() != 0 || reg.bytes() == 0) {
      if (reg.lent())
        return Bad(name, " is lent, but has no memory of its own");
      return absl::OkStatus();
    }
    WEFT_RETURN_IF_ERROR(
        In(absl::StrCat("arena of ", name), reg.arena(), plan_.arenas_size()));
    if (reg.lent() && plan_.arenas(reg.arena()).kind() != Arena::PEER) {
      return Bad(name, " is lent, but does not lie at another rank");
    }
    if (!placed_ || plan_.arenas(reg.arena()).kind() == Arena::PEER) {
      return absl::OkStatus();
    }
    return Fits(name, reg.offset(), reg.bytes() * reg.copies(),
                plan_.arenas(reg.arena()).bytes());
  }

  absl::Status CheckAlias(int r) const {
    const Register& reg = plan_.registers(r);
    if (reg.alias_of() == 0) return absl::OkStatus();
    const std::string name = RegisterName(plan_, r);
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
    const std::string name = RegisterName(plan_, r);
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

  absl::Status CheckPorts(int t) {
    const Task& task = plan_.tasks(t);
    const std::string name = TaskName(plan_, t);
    if (!Task::Kind_IsValid(task.kind())) {
      return Bad(name, " has unknown kind ", static_cast<int>(task.kind()));
    }
    WEFT_RETURN_IF_ERROR(In(absl::StrCat("stream of ", name), task.stream(),
                            plan_.streams_size()));
    if (task.acts_per_period() == 0 || task.acts_per_period() > kMaxActs) {
      return Bad(name, " acts ", task.acts_per_period(),
                 " times a period; 1 to ", kMaxActs, " are possible");
    }
    if (task.phase() > 2 * uint64_t{plan_.pipeline().stages()}) {
      return Bad(name, " is of phase ", task.phase(), ", the pipeline has ",
                 plan_.pipeline().stages(), " stages");
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
        return Bad(RegisterName(plan_, out.register_()), " is given by ",
                   TaskName(plan_, producer), " and by ", name);
      }
      producer = t;
    }
    return absl::OkStatus();
  }

  absl::Status CheckProducer(int r) {
    producer_.resize(plan_.registers_size(), -1);
    if (producer_[r] < 0)
      return Bad(RegisterName(plan_, r), " is given by no task");
    const Register& reg = plan_.registers(r);
    const Task& task = plan_.tasks(producer_[r]);
    if (!reg.state().empty() && task.kind() != Task::VARIABLE) {
      return Bad(RegisterName(plan_, r), " is state '", reg.state(),
                 "', but is given by ", TaskName(plan_, producer_[r]),
                 ", which is no variable");
    }
    if (reg.overlay_of() != 0 &&
        producer_[reg.overlay_of() - 1] != producer_[r]) {
      return Bad(RegisterName(plan_, r), " overlays a register of ",
                 TaskName(plan_, producer_[reg.overlay_of() - 1]));
    }
    return absl::OkStatus();
  }

  // An alias is given by a task that reads what it aliases, at a port that says
  // so.
  absl::Status CheckAliasPorts(int t) const {
    const Task& task = plan_.tasks(t);
    for (const InputPort& in : task.inputs()) {
      if (producer_[in.register_()] == t) {
        return Bad(TaskName(plan_, t), " reads its own ",
                   RegisterName(plan_, in.register_()));
      }
      bool found = false;
      for (const OutputPort& out : task.outputs()) {
        const Register& reg = plan_.registers(out.register_());
        found |= reg.alias_of() == in.register_() + 1;
      }
      if (found != in.aliased()) {
        return Bad(TaskName(plan_, t), found ? " has" : " has no", " alias of ",
                   RegisterName(plan_, in.register_()), ", but its port says ",
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
        return Bad(TaskName(plan_, t), " gives an alias of ",
                   RegisterName(plan_, alias_of - 1),
                   ", which it does not read");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckKindRules(int t) {
    const Task& task = plan_.tasks(t);
    const std::string name = TaskName(plan_, t);
    const bool wire = task.kind() == Task::SEND || task.kind() == Task::RECV ||
                      task.kind() == Task::POST;
    if (task.channel() != 0 && !wire) {
      return Bad(name, " is at a channel, but neither sends nor receives");
    }
    if (placed_ && task.private_bytes() != 0) {
      WEFT_RETURN_IF_ERROR(
          Fits(name, task.private_offset(), task.private_bytes(),
               PrivateBytes(plan_, plan_.streams(task.stream()).device())));
    }
    switch (task.kind()) {
      case Task::SOURCE:
        return CheckSource(task, name);
      case Task::SINK:
        if (task.binding().empty()) return Bad(name, " is bound to nothing");
        return absl::OkStatus();
      case Task::VARIABLE:
        return CheckVariable(task, name);
      case Task::COPY:
        return CheckCopy(task, name);
      case Task::ACCUMULATE:
        return CheckAccumulate(task, name);
      case Task::SEND:
      case Task::RECV:
      case Task::POST:
        return wire_.CheckTask(task, name);
      default:
        return absl::OkStatus();
    }
  }

  // Which data sources there are, the session knows; the counters are built in.
  absl::Status CheckSource(const Task& task, const std::string& name) const {
    const std::string& binding = task.binding();
    if (binding.empty()) return Bad(name, " is bound to nothing");
    if (!absl::StartsWith(binding, "counter:")) return absl::OkStatus();
    if (binding != "counter:micro" && binding != "counter:step") {
      return Bad(name, " is bound to '", binding,
                 "'; there are counter:micro and counter:step");
    }
    for (const OutputPort& out : task.outputs()) {
      for (const TensorDesc& t : plan_.registers(out.register_()).tensors()) {
        if (static_cast<DType>(t.dtype()) == DType::kI64 &&
            t.dims_size() == 1 && t.dims(0) == 2) {
          continue;
        }
        return Bad(name, " is a counter, but gives '", t.value(),
                   "', which is not i64[2]");
      }
    }
    return absl::OkStatus();
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
    const plan::Register& last =
        plan_.registers(task.outputs(task.outputs_size() - 1).register_());
    if (last.state() != plan_.registers(first).state()) {
      return Bad(name, ": its phases are of the states '",
                 plan_.registers(first).state(), "' and '", last.state(), "'");
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
    const uint32_t levels = NumAccumulators(task.acts_per_period());
    if (placed_ && task.private_bytes() / levels < TensorBytes(in.tensors(0))) {
      return Bad(name, " keeps ", levels, " buffers of ",
                 TensorBytes(in.tensors(0)), " bytes in ",
                 task.private_bytes());
    }
    return absl::OkStatus();
  }

  const Plan& plan_;
  const bool placed_;
  std::vector<int> producer_;  // task, by register
  WireValidator wire_;
};

}  // namespace

absl::Status ValidateForm(const Plan& plan, Placement placement) {
  return Validator(plan, placement).Run();
}

}  // namespace weft::plan
