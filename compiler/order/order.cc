#include "compiler/order/order.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/order/acts.h"
#include "compiler/order/chains.h"
#include "compiler/order/linear.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

using Kind = Work::Kind;

bool IsPhase(const Work& work) {
  return work.kind == Kind::kShared || work.kind == Kind::kExclusive;
}

// Registers within one ordered stream need one copy: the stream's order already
// keeps writer and readers apart. Between streams copies let the writer run
// ahead; what acts once a step does so only where it waits for the outside
// world.
int CopiesOf(const Partition& parts, const Buffer& buffer, int wanted) {
  const Work& producer = parts.works[buffer.producer];
  if (IsPhase(producer)) return 1;
  if (producer.channel >= 0) {
    return static_cast<int>(parts.channels[producer.channel].copies());
  }
  if (!parts.streams[producer.stream].ordered) return std::max(2, wanted);
  if (GivesOf(producer) == 1 && parts.micro_batches > 1) return 1;
  for (int r : buffer.readers) {
    if (parts.works[r].stream != producer.stream) return std::max(1, wanted);
  }
  return 1;
}

class Orderer {
 public:
  Orderer(const Partition& parts, const OrderOptions& options)
      : parts_(parts), options_(options) {}

  absl::StatusOr<Schedule> Run() {
    for (const Buffer& buffer : parts_.buffers) {
      out_.copies.push_back(CopiesOf(parts_, buffer, options_.register_copies));
    }
    WEFT_ASSIGN_OR_RETURN(std::vector<int> linear,
                          LinearOrder(parts_, options_.launch_order_seed));
    units_ = FormChains(parts_, linear, options_.max_chain_ops);
    unit_of_.assign(parts_.works.size(), -1);
    for (size_t u = 0; u < units_.size(); ++u) {
      for (int w : units_[u].works) unit_of_[w] = static_cast<int>(u);
    }
    std::vector<bool> phases;
    for (const Unit& unit : units_) {
      phases.push_back(parts_.works[unit.works[0]].kind == Kind::kShared);
    }
    WEFT_ASSIGN_OR_RETURN(
        std::vector<int> acts,
        OrderActs(units_, UnitEdges(), phases, parts_.micro_batches,
                  options_.launch_order_seed));
    MakeTasks(acts);
    return std::move(out_);
  }

 private:
  std::vector<UnitEdge> UnitEdges() const {
    std::map<std::pair<int, int>, int> copies;  // (from, to) -> the fewest
    auto add = [&](int from, int to, int n) {
      if (from == to) return;
      auto [it, inserted] = copies.try_emplace({from, to}, n);
      if (!inserted && n > 0)
        it->second = it->second == 0 ? n : std::min(it->second, n);
    };
    for (size_t w = 0; w < parts_.works.size(); ++w) {
      const Work& work = parts_.works[w];
      const int to = unit_of_[w];
      auto reads = [&](int b) {
        add(unit_of_[parts_.buffers[b].producer], to, out_.copies[b]);
      };
      for (const WorkOperand& o : work.operands) {
        if (o.buffer >= 0) reads(o.buffer);
      }
      for (int b : work.paced_by) reads(b);
      // A control register has one copy; along one ordered stream there is
      // none, and nothing flows back.
      for (int p : work.after) {
        bool stream = parts_.works[p].stream == work.stream &&
                      parts_.streams[work.stream].ordered;
        add(unit_of_[p], to, stream ? 0 : 1);
      }
      for (int p : work.implied_after) add(unit_of_[p], to, 0);
    }
    std::vector<UnitEdge> edges;
    for (const auto& [pair, n] : copies) {
      edges.push_back({pair.first, pair.second, n});
    }
    return edges;
  }

  void MakeTasks(const std::vector<int>& acts) {
    out_.task_of.assign(parts_.works.size(), -1);
    out_.orders.resize(parts_.streams.size());
    std::map<std::string, int> variables;
    for (int u : acts) {
      const Unit& unit = units_[u];
      int task = out_.task_of[unit.works[0]];
      if (task < 0) task = TaskOf(unit, &variables);
      if (parts_.streams[unit.stream].ordered) {
        out_.orders[unit.stream].push_back(static_cast<uint32_t>(task));
      }
    }
  }

  int TaskOf(const Unit& unit, std::map<std::string, int>* variables) {
    const Work& first = parts_.works[unit.works[0]];
    int task = static_cast<int>(out_.tasks.size());
    bool second_phase = false;
    if (IsPhase(first)) {
      auto [it, inserted] = variables->try_emplace(first.state, task);
      second_phase = !inserted;
      task = it->second;
    }
    if (second_phase) {
      TaskDraft& draft = out_.tasks[task];
      draft.works.push_back(unit.works[0]);
      draft.acts = 2;
    } else {
      out_.tasks.push_back({unit.works, unit.stream, unit.acts});
    }
    for (int w : unit.works) out_.task_of[w] = task;
    return task;
  }

  const Partition& parts_;
  const OrderOptions& options_;
  Schedule out_;
  std::vector<Unit> units_;
  std::vector<int> unit_of_;
};

}  // namespace

bool NeedsControlRegister(const Partition& parts, const Schedule& schedule,
                          int before, int work) {
  const Work& from = parts.works[before];
  const Work& to = parts.works[work];
  if (schedule.task_of[before] == schedule.task_of[work]) return false;
  return from.stream != to.stream || !parts.streams[to.stream].ordered;
}

absl::StatusOr<Schedule> OrderWorks(const Partition& parts,
                                    const OrderOptions& options) {
  return Orderer(parts, options).Run();
}

std::string ToString(const Partition& parts, const Schedule& schedule) {
  std::string out;
  for (const TaskDraft& task : schedule.tasks) {
    absl::StrAppend(&out, parts.streams[task.stream].name, " x", task.acts,
                    ":");
    for (int w : task.works) absl::StrAppend(&out, " ", parts.works[w].name);
    absl::StrAppend(&out, "\n");
  }
  return out;
}

}  // namespace weft
