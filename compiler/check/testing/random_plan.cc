#include "compiler/check/testing/random_plan.h"

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/check/check.h"
#include "compiler/check/greedy_run.h"
#include "core/actor/spec.h"
#include "core/plan/actor_spec.h"
#include "core/plan/plan.h"
#include "core/plan/testing/plan_builder.h"

namespace weft::check {

namespace {

using plan::Plan;
using plan::PlanBuilder;
using plan::Task;

// Something that later tasks can read.
struct Value {
  std::string reg;
  bool micro = false;  // given at every micro-batch
  bool state = false;
};

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  Plan Run() {
    micro_batches_ = 1 + Pick(2);
    AddStreams();
    AddRoots();
    const uint32_t computes = 2 + Pick(4);
    for (uint32_t k = 0; k < computes; ++k) AddCompute(k);
    AddUpdates();
    AddSinks();
    AddOrderEdges();
    Plan plan = b_.Build();
    OrderStreams(&plan);
    if (Pick(8) == 0) SwapOrder(&plan);
    ShareBytes(&plan);
    return plan;
  }

 private:
  uint32_t Pick(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  std::string AnyStream() {
    return absl::StrCat("s", Pick(b_.plan().streams_size()));
  }

  void AddStreams() {
    const uint32_t count = 1 + Pick(3);
    for (uint32_t s = 0; s < count; ++s) {
      const bool ordered = s == 0 || Pick(2) == 0;
      if (ordered) ordered_.push_back(s);
      b_.Stream(absl::StrCat("s", s), false);  // ordered later
    }
  }

  void AddRoots() {
    const uint32_t sources = 1 + Pick(2);
    for (uint32_t k = 0; k < sources; ++k) {
      const std::string name = absl::StrCat("x", k);
      const bool micro = k == 0 || Pick(2) == 0;
      b_.Task(name, Task::SOURCE, AnyStream(), micro ? micro_batches_ : 1);
      b_.Output(name, {name + "/y", 64, 1 + Pick(2)});
      values_.push_back({name + "/y", micro, false});
    }
    if (Pick(2) == 0) {
      b_.Variable("w", AnyStream());
      has_variable_ = true;
      values_.push_back({"w/shared", false, true});
    }
  }

  std::string TakeOf(const Value& value, bool micro) const {
    return micro && !value.micro ? actor::Held(micro_batches_) : "";
  }

  void AddCompute(uint32_t k) {
    const std::string name = absl::StrCat("f", k);
    // The first operand decides how often it acts; one of a slower rate is
    // held.
    const Value first = values_[Pick(values_.size())];
    const bool micro = first.micro || (!first.state && Pick(4) == 0);
    b_.Task(name, Task::COMPUTE, AnyStream(), micro ? micro_batches_ : 1);
    if (!first.state && first.micro == micro && Pick(3) == 0) {
      b_.InPlace(name, first.reg, name + "/y");
      values_.push_back({name + "/y", micro, false});
      return;
    }
    b_.Edge("", name, {first.reg, 0, 0, "", TakeOf(first, micro)});
    const Value second = values_[Pick(values_.size())];
    if (second.reg != first.reg && (micro || !second.micro)) {
      b_.Edge("", name, {second.reg, 0, 0, "", TakeOf(second, micro)});
    }
    const bool sum = micro && Pick(3) == 0;
    b_.Output(name, {name + "/y", 64, 1 + Pick(2),
                     sum ? actor::Accumulated(micro_batches_) : ""});
    values_.push_back({name + "/y", micro && !sum, false});
  }

  void AddUpdates() {
    if (!has_variable_) return;
    b_.Task("update", Task::COMPUTE, AnyStream());
    b_.Update("update", "w/exclusive");
    b_.Task("watch", Task::SINK, AnyStream());
    b_.Edge("", "watch", {"w/shared"});
    for (const Value& value : values_) {
      if (!value.micro && !value.state && Pick(2) == 0) {
        b_.Edge("", "update", {value.reg});
        return;
      }
    }
  }

  bool IsRead(const std::string& reg) {
    const uint32_t r = b_.FindRegister(reg);
    for (const Task& task : b_.plan().tasks()) {
      for (const plan::InputPort& in : task.inputs()) {
        if (in.register_() == r) return true;
      }
    }
    return false;
  }

  void AddSinks() {
    uint32_t k = 0;
    for (const Value& value : values_) {
      if (IsRead(value.reg) && Pick(3) != 0) continue;
      const std::string name = absl::StrCat("out", k++);
      b_.Task(name, Task::SINK, AnyStream(), value.micro ? micro_batches_ : 1);
      b_.Edge("", name, {value.reg});
    }
  }

  // From an earlier task to a later one of the same rate.
  void AddOrderEdges() {
    const uint32_t tasks = b_.plan().tasks_size();
    for (uint32_t k = Pick(4); k > 0; --k) {
      const uint32_t from = Pick(tasks), to = Pick(tasks);
      const Task& a = b_.plan().tasks(from);
      const Task& z = b_.plan().tasks(to);
      if (from >= to || a.acts_per_period() != z.acts_per_period() ||
          a.kind() == Task::VARIABLE || z.kind() == Task::VARIABLE) {
        continue;
      }
      b_.Edge(a.name(), z.name(), {absl::StrCat("edge", k), 0, 1 + Pick(2)});
    }
  }

  // In an order in which their acts can happen.
  void OrderStreams(Plan* plan) {
    plan::PlanView view = *plan::PlanView::Create(plan);
    absl::StatusOr<GreedyRun> run =
        RunGreedily(*plan::PlanToActorSpec(view), 1);
    if (!run.ok() || !run->complete) return;  // stays unordered
    for (uint32_t s : ordered_) {
      plan->mutable_streams(s)->set_ordered(true);
      for (uint32_t t : run->order) {
        if (plan->tasks(t).stream() == s) {
          plan->mutable_streams(s)->add_order(t);
        }
      }
    }
  }

  void SwapOrder(Plan* plan) {
    plan::Stream* stream = plan->mutable_streams(0);
    if (stream->order_size() < 2) return;
    const auto k = static_cast<int>(Pick(stream->order_size() - 1));
    stream->mutable_order()->SwapElements(k, k + 1);
  }

  // Puts registers onto each other; mostly only where that is right.
  void ShareBytes(Plan* plan) {
    for (uint32_t tries = Pick(6); tries > 0; --tries) {
      const uint32_t a = Pick(plan->registers_size());
      const uint32_t b = Pick(plan->registers_size());
      if (!Movable(plan->registers(a)) || !Movable(plan->registers(b))) {
        continue;
      }
      Plan moved = *plan;
      moved.mutable_registers(a)->set_offset(plan->registers(b).offset());
      FitArenas(&moved);
      if (CheckPlan(moved).ok() || Pick(10) == 0) *plan = moved;
    }
  }

  static bool Movable(const plan::Register& reg) {
    return reg.alias_of() == 0 && reg.bytes() != 0 && reg.state().empty();
  }

  std::mt19937_64 random_;
  PlanBuilder b_;
  uint32_t micro_batches_ = 1;
  bool has_variable_ = false;
  std::vector<uint32_t> ordered_;
  std::vector<Value> values_;
};

}  // namespace

plan::Plan RandomPlan(uint64_t seed) { return Generator(seed).Run(); }

}  // namespace weft::check
