// SymbolicRun, the half of the plan: its memory and what its tasks do there.
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/testing/symbolic_run.h"
#include "compiler/testing/symbols.h"
#include "core/actor/timing.h"
#include "core/base/hash.h"
#include "core/base/status_macros.h"
#include "core/ops/schema.h"
#include "core/plan/actor_spec.h"
#include "core/plan/plan.h"

namespace weft {
namespace {

// Symbols by place. A write destroys whatever it overlaps.
class Memory {
 public:
  void Write(uint32_t arena, uint64_t offset, uint64_t bytes, uint64_t symbol) {
    if (bytes == 0) return;
    Clear(arena, offset, bytes);
    arenas_[arena][offset] = {bytes, symbol};
  }

  uint64_t Read(uint32_t arena, uint64_t offset, uint64_t bytes) const {
    auto a = arenas_.find(arena);
    if (a == arenas_.end()) return kUndefinedSymbol;
    auto it = a->second.find(offset);
    if (it == a->second.end() || it->second.first != bytes)
      return kUndefinedSymbol;
    return it->second.second;
  }

  void Clear(uint32_t arena, uint64_t offset, uint64_t bytes) {
    auto &all = arenas_[arena];
    for (auto it = all.begin(); it != all.end();) {
      bool apart =
          it->first + it->second.first <= offset || offset + bytes <= it->first;
      it = apart ? std::next(it) : all.erase(it);
    }
  }

 private:
  std::map<uint32_t, std::map<uint64_t, std::pair<uint64_t, uint64_t>>> arenas_;
};

class PlanRunner : private actor::Timing::Work {
 public:
  explicit PlanRunner(const plan::PlanView &view)
      : view_(view), plan_(view.proto()) {}

  absl::StatusOr<Symbols> Run(int periods, uint64_t seed) {
    using Timing = actor::Timing;
    WEFT_ASSIGN_OR_RETURN(actor::TableSpec spec, plan::PlanToActorSpec(view_));
    WEFT_ASSIGN_OR_RETURN(
        Timing timing, Timing::Create(&spec, static_cast<uint32_t>(periods)));
    InitState();
    std::vector<Timing::Choice> choices;
    while (!(choices = timing.Choices()).empty()) {
      const Timing::Choice choice =
          choices[actor::PickRandom(&seed, choices.size())];
      timing.Take(choice, this);
      if (choice.step == Timing::Step::kAct && IsInline(choice.index)) {
        timing.FinishAll(choice.index, this);
      }
    }
    WEFT_RETURN_IF_ERROR(timing.Final());
    SaveState();
    return std::move(out_);
  }

 private:
  using Launch = actor::Launch;

  // Whether a device is done when the call returns.
  bool IsInline(uint32_t task) const {
    return plan_.devices(view_.device_of(task)).inline_();
  }

  void Start(const Launch &) override {}
  void Finish(const Launch &launch) override { Execute(launch); }

  // Without the rank that joining put before a name.
  static std::string Logical(const std::string &name) {
    const size_t slash = name.find('/');
    const bool joined =
        name.rfind("rank ", 0) == 0 && slash != std::string::npos;
    return joined ? name.substr(slash + 1) : name;
  }

  // ---- Memory ----

  struct Place {
    uint32_t arena = 0;
    uint64_t offset = 0;
  };

  Place TensorPlace(uint32_t reg, uint16_t copy, uint32_t tensor) const {
    const uint32_t peer_of = plan_.registers(reg).peer_of();
    if (peer_of != 0) {
      const uint32_t copies = plan_.registers(peer_of - 1).copies();
      return TensorPlace(peer_of - 1, copy % copies, tensor);
    }
    const uint64_t offset = plan_.registers(reg).tensors(tensor).offset();
    // In place of what lies at another rank.
    const uint32_t root = view_.root(reg);
    if (root != reg && plan_.registers(root).peer_of() != 0) {
      Place at = TensorPlace(root, copy, 0);
      at.offset += view_.offset(reg, copy) - view_.offset(root, copy) + offset;
      return at;
    }
    return {plan_.registers(root).arena(), view_.offset(reg, copy) + offset};
  }

  uint32_t ArenaOf(const plan::Task &task, plan::Arena::Kind kind) const {
    const uint32_t device = plan_.streams(task.stream()).device();
    for (int a = 0; a < plan_.arenas_size(); ++a) {
      const plan::Arena &arena = plan_.arenas(a);
      if (arena.kind() != kind || arena.device() != device) continue;
      if (kind == plan::Arena::SCRATCH && arena.stream() != task.stream()) {
        continue;
      }
      return static_cast<uint32_t>(a);
    }
    return ~0u;
  }

  Place OperandPlace(const Launch &launch, const plan::Operand &at) const {
    const plan::Task &task = view_.task(launch.actor);
    switch (at.where()) {
      case plan::Operand::INPUT:
        return TensorPlace(task.inputs(at.index()).register_(),
                           launch.inputs[at.index()], at.tensor());
      case plan::Operand::OUTPUT:
        return TensorPlace(task.outputs(at.index()).register_(),
                           launch.outputs[at.index()], at.tensor());
      case plan::Operand::SCRATCH:
        return {ArenaOf(task, plan::Arena::SCRATCH), at.offset()};
      default:
        return {ArenaOf(task, plan::Arena::PRIVATE), at.offset()};
    }
  }

  uint64_t ReadInput(const Launch &launch, int port) const {
    const plan::Task &task = view_.task(launch.actor);
    const uint32_t reg = task.inputs(port).register_();
    Place at = TensorPlace(reg, launch.inputs[port], 0);
    return memory_.Read(at.arena, at.offset,
                        plan::TensorBytes(plan_.registers(reg).tensors(0)));
  }

  void WriteTensor(uint32_t reg, uint16_t copy, uint32_t tensor,
                   uint64_t symbol) {
    Place at = TensorPlace(reg, copy, tensor);
    memory_.Write(at.arena, at.offset,
                  plan::TensorBytes(plan_.registers(reg).tensors(tensor)),
                  symbol);
  }

  void InitState() {
    for (int r = 0; r < plan_.registers_size(); ++r) {
      const std::string &name = plan_.registers(r).state();
      if (!name.empty()) WriteTensor(r, 0, 0, StateSymbol(Logical(name)));
    }
  }

  void SaveState() {
    for (int r = 0; r < plan_.registers_size(); ++r) {
      const plan::Register &reg = plan_.registers(r);
      if (reg.state().empty()) continue;
      Place at = TensorPlace(r, 0, 0);
      out_[absl::StrCat("state/", Logical(reg.state()))] = {
          memory_.Read(at.arena, at.offset, plan::TensorBytes(reg.tensors(0)))};
    }
  }

  // ---- Acts ----

  void Execute(const Launch &launch) {
    const plan::Task &task = view_.task(launch.actor);
    switch (task.kind()) {
      case plan::Task::SOURCE:
        for (int o = 0; o < task.outputs_size(); ++o) {
          const uint32_t r = task.outputs(o).register_();
          if (plan_.registers(r).tensors_size() == 0) continue;
          WriteTensor(
              r, launch.outputs[o], 0,
              SourceSymbol(Logical(plan_.registers(r).tensors(0).value()),
                           static_cast<int>(launch.period),
                           static_cast<int>(launch.phase)));
        }
        return;
      case plan::Task::SINK:
        out_[task.binding()].push_back(ReadInput(launch, 0));
        return;
      case plan::Task::COPY:
        if (task.outputs_size() == 0) {
          WriteTensor(task.inputs(1).register_(), launch.inputs[1], 0,
                      ReadInput(launch, 0));
        } else {
          WriteTensor(task.outputs(0).register_(), launch.outputs[0], 0,
                      ReadInput(launch, 0));
        }
        return;
      case plan::Task::ACCUMULATE:
        return Accumulate(task, launch);
      case plan::Task::SEND:
      case plan::Task::POST:
      case plan::Task::RECV:
        return Wire(task, launch);
      case plan::Task::COMPUTE:
        for (const plan::Op &op : task.ops()) Compute(launch, op);
        return Forget(task);
      default:
        return;
    }
  }

  // Of joined ranks (core/plan/job.h): the register without bytes that SEND
  // gives and RECV takes last stands for the data.
  void Wire(const plan::Task &task, const Launch &launch) {
    if (task.kind() == plan::Task::POST) {
      const uint32_t r = task.outputs(0).register_();
      // From now on the data may come.
      if (plan_.registers(r).tensors_size() == 0) return;
      return WriteTensor(r, launch.outputs[0], 0, kUndefinedSymbol);
    }
    if (task.kind() == plan::Task::SEND) {
      const int last = task.outputs_size() - 1;
      const uint32_t read = task.inputs(0).register_();
      if (plan_.registers(read).tensors_size() == 0) return;
      wire_[{task.outputs(last).register_(), launch.outputs[last]}] =
          ReadInput(launch, 0);
      return;
    }
    const int last = task.inputs_size() - 1;
    if (task.outputs_size() == 0) return;
    const uint32_t given = task.outputs(0).register_();
    if (plan_.registers(given).tensors_size() == 0) return;
    if (plan_.registers(given).peer_of() != 0) return;  // it stays there
    // What lands in a value that was lent is there already.
    const uint32_t in = plan_.registers(given).alias_of();
    if (in != 0 &&
        view_.task(view_.producer(in - 1).task).kind() != plan::Task::POST) {
      return;
    }
    WriteTensor(given, launch.outputs[0], 0,
                wire_[{task.inputs(last).register_(), launch.inputs[last]}]);
  }

  void Accumulate(const plan::Task &task, const Launch &launch) {
    uint64_t &sum = sums_[launch.actor];
    if (launch.phase == 0) sum = 0;
    sum = Combine(sum, ReadInput(launch, 0));
    if (launch.phase + 1 == task.acts_per_period()) {
      WriteTensor(task.outputs(0).register_(), launch.outputs[0], 0, sum);
    }
  }

  void Compute(const Launch &launch, const plan::Op &op) {
    const plan::Kernel &kernel = plan_.kernels(op.kernel());
    if (op.workspace().where() != plan::Operand::ABSENT) {
      Place at = OperandPlace(launch, op.workspace());
      memory_.Clear(at.arena, at.offset, kernel.workspace_bytes());
    }
    std::vector<uint64_t> operands;
    for (int i = 0; i < op.inputs_size(); ++i) {
      const plan::Operand &in = op.inputs(i);
      if (in.where() == plan::Operand::CONSTANT) {
        operands.push_back(StableHash(plan_.constants(in.index()).data()));
        continue;
      }
      Place at = OperandPlace(launch, in);
      operands.push_back(memory_.Read(at.arena, at.offset,
                                      plan::TensorBytes(kernel.inputs(i))));
    }
    const std::vector<uint64_t> symbols =
        OpSymbols(kernel, operands, op.outputs_size());
    // Renames run as kernels only where a sink needs the shape.
    const bool renames = kernel.op() == static_cast<uint32_t>(OpId::kIdentity);
    for (int i = 0; i < op.outputs_size(); ++i) {
      Place at = OperandPlace(launch, op.outputs(i));
      memory_.Write(at.arena, at.offset, plan::TensorBytes(kernel.outputs(i)),
                    renames ? operands[0] : symbols[i]);
    }
  }

  // Scratch holds nothing after an act.
  void Forget(const plan::Task &task) {
    const uint32_t arena = ArenaOf(task, plan::Arena::SCRATCH);
    if (arena != ~0u) memory_.Clear(arena, 0, plan_.arenas(arena).bytes());
  }

  const plan::PlanView &view_;
  const plan::Plan &plan_;
  Memory memory_;
  std::map<uint32_t, uint64_t> sums_;
  // By register and copy: what is under way between ranks.
  std::map<std::pair<uint32_t, uint16_t>, uint64_t> wire_;
  Symbols out_;
};

}  // namespace

absl::StatusOr<Symbols> RunPlan(const plan::Plan &plan, int periods,
                                uint64_t seed) {
  WEFT_ASSIGN_OR_RETURN(plan::PlanView view, plan::PlanView::Create(&plan));
  return PlanRunner(view).Run(periods, seed);
}

}  // namespace weft
