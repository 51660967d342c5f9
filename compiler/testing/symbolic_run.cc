#include "compiler/testing/symbolic_run.h"

#include <deque>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/placement/kernel_desc.h"
#include "core/actor/actor.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/status_macros.h"
#include "core/graph/rates.h"
#include "core/plan/actor_spec.h"
#include "core/plan/plan.h"

namespace weft {
namespace {

constexpr uint64_t kUndefined = 0xdeadbeef;

uint64_t Combine(uint64_t a, uint64_t b) {
  return StableHash(absl::StrCat(a, ",", b));
}

uint64_t SourceSymbol(absl::string_view value, int period, int micro) {
  return StableHash(absl::StrCat(value, "@", period, ".", micro));
}

uint64_t StateSymbol(absl::string_view name) {
  return StableHash(absl::StrCat("initial ", name));
}

// Of an op's result 0; operands must not name a device.
uint64_t OpSymbol(const plan::Kernel& kernel,
                  const std::vector<uint64_t>& operands) {
  plan::Kernel what;
  what.set_op(kernel.op());
  *what.mutable_attributes() = kernel.attributes();
  uint64_t symbol = StableHash(StableBytes(what));
  for (uint64_t o : operands) symbol = Combine(symbol, o);
  return symbol;
}

// ---- The graph ----

class Evaluator {
 public:
  Evaluator(const Graph& graph, int micro_batches)
      : graph_(graph), micro_batches_(micro_batches) {}

  absl::StatusOr<Symbols> Run(int periods) {
    WEFT_ASSIGN_OR_RETURN(order_, graph_.TopologicalOrder());
    WEFT_ASSIGN_OR_RETURN(rates_, InferRates(graph_));
    for (const Node* node : order_) {
      if (node->Is(OpId::kVariable))
        state_[node->id()] = StateSymbol(node->name());
    }
    for (int p = 0; p < periods; ++p) Period(p);
    for (auto [node, symbol] : state_) {
      if (graph_.Uses({node, 0}).empty()) continue;
      out_[absl::StrCat("state/", graph_.node(node)->name())] = {symbol};
    }
    return std::move(out_);
  }

 private:
  bool IsMicro(const Node& node) const {
    return rates_[node.id()] == Rate::kMicro || node.Is(OpId::kAccumulate) ||
           micro_batches_ == 1;
  }

  void Period(int period) {
    values_.clear();
    sums_.clear();
    std::map<int32_t, uint64_t> next = state_;
    for (const Node* node : order_) {
      if (!IsMicro(*node)) Act(*node, period, 0, &next);
      if (node->Is(OpId::kAccumulate)) {
        for (int k = 0; k < micro_batches_; ++k) Act(*node, period, k, &next);
      } else if (IsMicro(*node)) {
        for (int k = 0; k < micro_batches_; ++k) Act(*node, period, k, &next);
      }
    }
    state_ = std::move(next);
  }

  uint64_t Get(Value v, int micro) const {
    const std::vector<uint64_t>& all = values_.at(v);
    return all[all.size() == 1 ? 0 : micro];
  }

  void Act(const Node& node, int period, int micro,
           std::map<int32_t, uint64_t>* next) {
    std::vector<uint64_t> operands;
    for (Value v : node.inputs()) operands.push_back(Get(v, micro));
    auto put = [&](int i, uint64_t symbol) {
      values_[node.output(i)].push_back(symbol);
    };
    switch (node.schema().id) {
      case OpId::kVariable:
        return put(0, state_.at(node.id()));
      case OpId::kConstant:
        return put(0, StableHash(node.attrs().Find("value")->tensor().bytes()));
      case OpId::kIdentity:
        return put(0, operands[0]);
      case OpId::kDataSource:
      case OpId::kCounter:
        for (int i = 0; i < node.num_outputs(); ++i) {
          put(i, SourceSymbol(
                     i == 0 ? node.name() : absl::StrCat(node.name(), ":", i),
                     period, micro));
        }
        return;
      case OpId::kAccumulate:
        sums_[node.id()] = Combine(sums_[node.id()], operands[0]);
        if (micro + 1 == micro_batches_) put(0, sums_[node.id()]);
        return;
      case OpId::kOutput:
        out_[node.attrs().Find("name")->s()].push_back(operands[0]);
        return;
      default:
        break;
    }
    uint64_t symbol = OpSymbol(DescribeKernel(graph_.View(node)), operands);
    if (node.schema().effect == OpEffect::kUpdate) {
      (*next)[node.input(0).node] = Combine(symbol, 0);
      return;
    }
    for (int i = 0; i < node.num_outputs(); ++i) put(i, Combine(symbol, i));
  }

  const Graph& graph_;
  const int micro_batches_;
  std::vector<const Node*> order_;
  std::vector<Rate> rates_;
  std::map<int32_t, uint64_t> state_;
  std::map<int32_t, uint64_t> sums_;
  std::map<Value, std::vector<uint64_t>> values_;
  Symbols out_;
};

// ---- The plan ----

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
    if (a == arenas_.end()) return kUndefined;
    auto it = a->second.find(offset);
    if (it == a->second.end() || it->second.first != bytes) return kUndefined;
    return it->second.second;
  }

  void Clear(uint32_t arena, uint64_t offset, uint64_t bytes) {
    auto& all = arenas_[arena];
    for (auto it = all.begin(); it != all.end();) {
      bool apart =
          it->first + it->second.first <= offset || offset + bytes <= it->first;
      it = apart ? std::next(it) : all.erase(it);
    }
  }

 private:
  std::map<uint32_t, std::map<uint64_t, std::pair<uint64_t, uint64_t>>> arenas_;
};

// What one act launched: which copies it reads and writes.
struct Launch {
  uint32_t task = 0;
  int period = 0;
  int phase = 0;
  std::vector<uint16_t> inputs;
  std::vector<uint16_t> outputs;
  std::vector<actor::Message> at_tick;
};

class PlanRunner {
 public:
  PlanRunner(const plan::PlanView& view, uint64_t seed)
      : view_(view), plan_(view.proto()), random_(seed) {}

  absl::StatusOr<Symbols> Run(int periods) {
    WEFT_ASSIGN_OR_RETURN(actor::TableSpec spec, plan::PlanToActorSpec(view_));
    WEFT_ASSIGN_OR_RETURN(actor::ActorTable table,
                          actor::ActorTable::Create(spec));
    actor::Effects effects(table.effects_size());
    InitState();
    pending_.resize(plan_.streams_size());
    table.SetLease(static_cast<uint64_t>(periods));
    while (Step(&table, &effects)) {
    }
    if (!table.drained() || table.refused() > 0) {
      return MakeError(
          ErrorCode::kPlanRefuted,
          absl::StrCat("stopped in period ", table.periods_finished(), ": ",
                       table.refusal()));
    }
    SaveState();
    return std::move(out_);
  }

 private:
  uint64_t Random(uint64_t n) {
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    return (random_ >> 33) % n;
  }

  // One random thing that can happen; false where nothing can.
  bool Step(actor::ActorTable* table, actor::Effects* effects) {
    std::vector<std::function<void()>> choices;
    for (uint32_t i = 0; i < table->size(); ++i) {
      if (!table->CanAct(i)) continue;
      choices.push_back([=] { Act(table, effects, i); });
    }
    for (size_t s = 0; s < pending_.size(); ++s) {
      if (pending_[s].empty()) continue;
      choices.push_back([=] { Finish(s); });
    }
    // Messages to one actor arrive in order.
    std::map<uint64_t, size_t> first;
    for (size_t m = 0; m < messages_.size(); ++m) {
      first.try_emplace(messages_[m].destination.value, m);
    }
    for (auto [destination, m] : first) {
      choices.push_back([=, at = m] {
        actor::Message message = messages_[at];
        messages_.erase(messages_.begin() + static_cast<int64_t>(at));
        table->OnMessage(message);
      });
    }
    if (choices.empty()) return false;
    choices[Random(choices.size())]();
    return true;
  }

  void Act(actor::ActorTable* table, actor::Effects* effects, uint32_t i) {
    table->Act(i, effects);
    Launch launch;
    launch.task = i;
    launch.period = static_cast<int>(effects->period());
    launch.phase = static_cast<int>(effects->phase());
    launch.inputs.assign(effects->inputs().begin(), effects->inputs().end());
    launch.outputs.assign(effects->outputs().begin(), effects->outputs().end());
    launch.at_tick.assign(effects->at_tick().begin(), effects->at_tick().end());
    for (const actor::Message& m : effects->at_launch()) {
      messages_.push_back(m);
    }
    const uint32_t stream = view_.task(i).stream();
    pending_[stream].push_back(std::move(launch));
    // A device that is done when the call returns.
    if (plan_.devices(view_.device_of(i)).inline_()) {
      while (!pending_[stream].empty()) Finish(stream);
    }
  }

  void Finish(size_t stream) {
    Launch launch = std::move(pending_[stream].front());
    pending_[stream].pop_front();
    Execute(launch);
    for (const actor::Message& m : launch.at_tick) messages_.push_back(m);
  }

  // ---- Memory ----

  struct Place {
    uint32_t arena = 0;
    uint64_t offset = 0;
  };

  Place TensorPlace(uint32_t reg, uint16_t copy, uint32_t tensor) const {
    return {plan_.registers(view_.root(reg)).arena(),
            view_.offset(reg, copy) +
                plan_.registers(reg).tensors(tensor).offset()};
  }

  uint32_t ArenaOf(const plan::Task& task, plan::Arena::Kind kind) const {
    const uint32_t device = plan_.streams(task.stream()).device();
    for (int a = 0; a < plan_.arenas_size(); ++a) {
      const plan::Arena& arena = plan_.arenas(a);
      if (arena.kind() != kind || arena.device() != device) continue;
      if (kind == plan::Arena::SCRATCH && arena.stream() != task.stream()) {
        continue;
      }
      return static_cast<uint32_t>(a);
    }
    return ~0u;
  }

  Place OperandPlace(const Launch& launch, const plan::Operand& at) const {
    const plan::Task& task = view_.task(launch.task);
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

  uint64_t ReadInput(const Launch& launch, int port) const {
    const plan::Task& task = view_.task(launch.task);
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
      const std::string& name = plan_.registers(r).state();
      if (!name.empty()) WriteTensor(r, 0, 0, StateSymbol(name));
    }
  }

  void SaveState() {
    for (int r = 0; r < plan_.registers_size(); ++r) {
      const plan::Register& reg = plan_.registers(r);
      if (reg.state().empty()) continue;
      Place at = TensorPlace(r, 0, 0);
      out_[absl::StrCat("state/", reg.state())] = {
          memory_.Read(at.arena, at.offset, plan::TensorBytes(reg.tensors(0)))};
    }
  }

  // ---- Acts ----

  void Execute(const Launch& launch) {
    const plan::Task& task = view_.task(launch.task);
    switch (task.kind()) {
      case plan::Task::SOURCE:
        for (int o = 0; o < task.outputs_size(); ++o) {
          const uint32_t r = task.outputs(o).register_();
          if (plan_.registers(r).tensors_size() == 0) continue;
          WriteTensor(r, launch.outputs[o], 0,
                      SourceSymbol(plan_.registers(r).tensors(0).value(),
                                   launch.period, launch.phase));
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
      case plan::Task::COMPUTE:
        for (const plan::Op& op : task.ops()) Compute(launch, op);
        return Forget(task);
      default:
        return;
    }
  }

  void Accumulate(const plan::Task& task, const Launch& launch) {
    uint64_t& sum = sums_[launch.task];
    if (launch.phase == 0) sum = 0;
    sum = Combine(sum, ReadInput(launch, 0));
    if (launch.phase + 1 == static_cast<int>(task.acts_per_period())) {
      WriteTensor(task.outputs(0).register_(), launch.outputs[0], 0, sum);
    }
  }

  void Compute(const Launch& launch, const plan::Op& op) {
    const plan::Kernel& kernel = plan_.kernels(op.kernel());
    if (op.workspace().where() != plan::Operand::ABSENT) {
      Place at = OperandPlace(launch, op.workspace());
      memory_.Clear(at.arena, at.offset, kernel.workspace_bytes());
    }
    std::vector<uint64_t> operands;
    for (int i = 0; i < op.inputs_size(); ++i) {
      const plan::Operand& in = op.inputs(i);
      if (in.where() == plan::Operand::CONSTANT) {
        operands.push_back(StableHash(plan_.constants(in.index()).data()));
        continue;
      }
      Place at = OperandPlace(launch, in);
      operands.push_back(memory_.Read(at.arena, at.offset,
                                      plan::TensorBytes(kernel.inputs(i))));
    }
    uint64_t symbol = OpSymbol(kernel, operands);
    // Renames run as kernels only where a sink needs the shape.
    const bool renames = kernel.op() == static_cast<uint32_t>(OpId::kIdentity);
    for (int i = 0; i < op.outputs_size(); ++i) {
      Place at = OperandPlace(launch, op.outputs(i));
      memory_.Write(at.arena, at.offset, plan::TensorBytes(kernel.outputs(i)),
                    renames ? operands[0] : Combine(symbol, i));
    }
  }

  // Scratch holds nothing after an act.
  void Forget(const plan::Task& task) {
    const uint32_t arena = ArenaOf(task, plan::Arena::SCRATCH);
    if (arena != ~0u) memory_.Clear(arena, 0, plan_.arenas(arena).bytes());
  }

  const plan::PlanView& view_;
  const plan::Plan& plan_;
  uint64_t random_;
  Memory memory_;
  std::map<uint32_t, uint64_t> sums_;
  std::vector<std::deque<Launch>> pending_;  // by stream
  std::deque<actor::Message> messages_;
  Symbols out_;
};

}  // namespace

absl::StatusOr<Symbols> EvaluateGraph(const Graph& graph, int micro_batches,
                                      int periods) {
  return Evaluator(graph, micro_batches).Run(periods);
}

absl::StatusOr<Symbols> RunPlan(const plan::Plan& plan, int periods,
                                uint64_t seed) {
  WEFT_ASSIGN_OR_RETURN(plan::PlanView view, plan::PlanView::Create(&plan));
  return PlanRunner(view, seed).Run(periods);
}

}  // namespace weft
