#include "compiler/order/order.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/order/acts.h"
#include "compiler/order/chains.h"
#include "compiler/order/linear.h"
#include "core/base/channel_name.h"
#include "core/base/status_macros.h"
#include "core/plan/plan.h"

namespace weft {
namespace {

using Kind = Work::Kind;

bool IsPhase(const Work& work) {
  return work.kind == Kind::kShared || work.kind == Kind::kExclusive;
}

// The last phase in which `buffer` is read.
int LastPhase(const Partition& parts, const Buffer& buffer) {
  int last = parts.works[buffer.producer].phase;
  for (int r : buffer.readers) last = std::max(last, parts.works[r].phase);
  return last;
}

bool IsReadByAnotherWorker(const Partition& parts, const Buffer& buffer) {
  const auto worker_of = [&](int work) {
    return parts.streams[parts.works[work].stream].worker;
  };
  const uint32_t own = worker_of(buffer.producer);
  return std::any_of(buffer.readers.begin(), buffer.readers.end(),
                     [&](int r) { return worker_of(r) != own; });
}

// Registers within one ordered stream need one copy: the stream's order already
// keeps writer and readers apart. Between streams copies let the writer run
// ahead, between workers as far as between ranks; what acts once a step does so
// only where it waits for the outside world.
int CopiesInAPhase(const Partition& parts, const Buffer& buffer,
                   const OrderOptions& options) {
  const Work& producer = parts.works[buffer.producer];
  int wanted = options.register_copies;
  if (IsReadByAnotherWorker(parts, buffer)) {
    wanted = std::max(
        wanted, static_cast<int>(RunsAhead(buffer.type, GivesOf(producer))));
  }
  if (!parts.streams[producer.stream].ordered) {
    return std::max(options.io_copies, wanted);
  }
  if (GivesOf(producer) == 1 && parts.micro_batches > 1) return 1;
  for (int r : buffer.readers) {
    const Work& reader = parts.works[r];
    // What is sent once a step has a step's time, and some for micro-batches
    // has one's.
    if (reader.kind == Work::Kind::kSend &&
        (parts.micro_batches == 1 ||
         parts.channels[reader.channel].copies() == 1)) {
      continue;
    }
    if (reader.stream != producer.stream) return std::max(1, wanted);
  }
  return 1;
}

class Orderer {
 public:
  Orderer(const Partition& parts, const OrderOptions& options,
          const PhaseOrder& phases)
      : parts_(parts), options_(options), phases_(phases) {}

  absl::StatusOr<Schedule> Run() {
    for (const Buffer& buffer : parts_.buffers) {
      out_.copies.push_back(CopiesOf(buffer));
    }
    CountControlCopies();
    WEFT_ASSIGN_OR_RETURN(std::vector<int> linear,
                          LinearOrder(parts_, options_.launch_order_seed));
    units_ = FormChains(parts_, linear, options_.max_chain_ops);
    unit_of_.assign(parts_.works.size(), -1);
    for (size_t u = 0; u < units_.size(); ++u) {
      for (int w : units_[u].works) unit_of_[w] = static_cast<int>(u);
    }
    ScheduleReceives();
    ScheduleReleases();
    std::vector<bool> shared;
    for (const Unit& unit : units_) {
      shared.push_back(parts_.works[unit.works[0]].kind == Kind::kShared);
    }
    WEFT_ASSIGN_OR_RETURN(std::vector<int> acts,
                          OrderActs(units_, UnitEdges(), shared, phases_,
                                    options_.launch_order_seed));
    MakeTasks(acts);
    return std::move(out_);
  }

 private:
  int CopiesOf(const Buffer& buffer) const {
    const Work& producer = parts_.works[buffer.producer];
    if (IsPhase(producer)) return 1;
    if (buffer.copies > 0) return buffer.copies;
    if (producer.channel >= 0) {
      return static_cast<int>(parts_.channels[producer.channel].copies());
    }
    const int one_phase = CopiesInAPhase(parts_, buffer, options_);
    // A step's value is there for all of them.
    if (GivesOf(producer) == 1) return one_phase;
    const int in_flight =
        phases_.InFlight(producer.phase, LastPhase(parts_, buffer));
    const bool runs_ahead = !parts_.streams[producer.stream].ordered;
    return runs_ahead ? one_phase + in_flight - 1
                      : std::max(one_phase, in_flight);
  }

  void CountControlCopies() {
    for (size_t w = 0; w < parts_.works.size(); ++w) {
      const Work& work = parts_.works[w];
      for (int before : work.after) {
        const Work& from = parts_.works[before];
        if (from.kind == Kind::kPost) {
          out_.control_copies[{before, static_cast<int>(w)}] =
              static_cast<int>(parts_.channels[from.channel].copies());
          continue;
        }
        if (from.section != work.section || from.phase >= work.phase) continue;
        out_.control_copies[{before, static_cast<int>(w)}] =
            phases_.InFlight(from.phase, work.phase);
      }
    }
  }

  // Registers of several copies have bytes of their own whenever they are used.
  bool HoldsSharedMemory(const Work& post) const {
    const plan::Channel& channel = parts_.channels[post.channel];
    return channel.copies() == 1 && plan::CarriedBytes(channel) != 0;
  }

  // The collective that a channel belongs to: all that
  // its ranks agreed on. Empty: none.
  std::string CollectiveOf(const Work& end) const {
    if (end.kind != Kind::kPost && end.kind != Kind::kSend) return "";
    const ChannelParts name = PartsOf(parts_.channels[end.channel].name());
    return name.agreed.empty() ? "" : absl::StrCat(name.stem, "#", name.agreed);
  }

  void ScheduleReceives() {
    // The last chains so far, by the last work of each; of the sections before,
    // too.
    int last = -1, before_last = -1, of_section = -1;
    // The last chain but one before a collective's first end.
    std::map<std::string, int> begins;
    Section section = Section::kBefore;
    for (const Unit& unit : units_) {
      const Work& first = parts_.works[unit.works[0]];
      if (unit.section != section) of_section = last;
      section = unit.section;
      const std::string collective = CollectiveOf(first);
      if (!collective.empty()) begins.try_emplace(collective, before_last);
      if (first.kind == Kind::kPost) {
        int after = first.late ? before_last : of_section;
        if (!collective.empty()) after = begins.at(collective);
        if (after >= 0 && HoldsSharedMemory(first)) {
          out_.receives.push_back({after, unit.works[0]});
        }
      } else if (IsChain(unit)) {
        before_last = last;
        last = unit.works.back();
      }
    }
  }

  // A chain, or what else acts in the order of its stream.
  bool IsChain(const Unit& unit) const {
    return parts_.streams[unit.stream].ordered &&
           !IsPhase(parts_.works[unit.works[0]]);
  }

  // Whether memory that peers read is worth waiting for: of one copy, large,
  // and a kernel's.
  bool IsWorthARelease(const Work& work) const {
    if (work.kind != Kind::kRecv || !work.results.empty()) return false;
    int b = work.paced_by.empty() ? -1 : work.paced_by[0];
    while (b >= 0 && parts_.buffers[b].in >= 0) b = parts_.buffers[b].in;
    if (b < 0) return false;
    const Buffer& buffer = parts_.buffers[b];
    return buffer.where == Buffer::Where::kShared && out_.copies[b] == 1 &&
           buffer.type.num_bytes() >= kLargeValue &&
           parts_.works[buffer.producer].kind == Kind::kCompute;
  }

  // Of which step of a collective the channel of `end` is one
  // (CollectiveEmission): its name up to there. Empty: of none.
  absl::string_view StepOf(const Work& end) const {
    const absl::string_view name = parts_.channels[end.channel].name();
    if (PartsOf(name).agreed.empty()) return "";
    return name.substr(0, name.find('.', name.rfind('/')));
  }

  // By step, the last chain here that reads what comes in it.
  std::map<absl::string_view, int> LastReaders() const {
    std::map<absl::string_view, int> last;
    for (const Work& work : parts_.works) {
      if (work.kind != Kind::kRecv || work.results.empty()) continue;
      for (int reader : parts_.buffers[work.results[0]].readers) {
        const int unit = unit_of_[reader];
        if (!IsChain(units_[unit])) continue;
        int& of_it = last.try_emplace(StepOf(work), unit).first->second;
        of_it = std::max(of_it, unit);
      }
    }
    last.erase("");
    return last;
  }

  // Of those that act on the stream of `unit`; -1: there is none.
  int NextChainButOne(int unit) const {
    int passed = 0;
    for (size_t u = unit + 1; u < units_.size(); ++u) {
      const Kind kind = parts_.works[units_[u].works[0]].kind;
      if (units_[u].stream != units_[unit].stream || !IsChain(units_[u]) ||
          kind == Kind::kSink) {
        continue;
      }
      if (++passed == 2) return static_cast<int>(u);
    }
    return -1;
  }

  void ScheduleReleases() {
    if (parts_.phases > 1) return;
    const std::map<absl::string_view, int> last = LastReaders();
    for (size_t w = 0; w < parts_.works.size(); ++w) {
      const Work& work = parts_.works[w];
      if (!IsWorthARelease(work)) continue;
      const auto read = last.find(StepOf(work));
      // What is made later is no partner of what was read.
      if (read == last.end() || read->second < unit_of_[w]) continue;
      const int next = NextChainButOne(read->second);
      if (next < 0 || units_[next].acts != work.acts) continue;
      out_.releases.push_back({static_cast<int>(w), units_[next].works[0]});
    }
  }

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
      // Along one ordered stream there is no control register, and nothing
      // flows back.
      for (int p : work.after) {
        bool stream = parts_.works[p].stream == work.stream &&
                      parts_.streams[work.stream].ordered;
        add(unit_of_[p], to,
            stream ? 0 : ControlCopies(out_, p, static_cast<int>(w)));
      }
      for (int p : work.implied_after) add(unit_of_[p], to, 0);
    }
    for (auto [before, post] : out_.receives) {
      add(unit_of_[before], unit_of_[post], 1);
    }
    for (auto [read, chain] : out_.releases) {
      add(unit_of_[read], unit_of_[chain], 1);
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
  const PhaseOrder& phases_;
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

int ControlCopies(const Schedule& schedule, int before, int work) {
  auto it = schedule.control_copies.find({before, work});
  return it == schedule.control_copies.end() ? 1 : it->second;
}

absl::StatusOr<Schedule> OrderWorks(const Partition& parts,
                                    const OrderOptions& options) {
  PipelineSpec pipeline;  // none
  if (parts.phases > 1) pipeline = options.pipeline;
  pipeline.micro_batches = parts.micro_batches;
  WEFT_ASSIGN_OR_RETURN(PhaseOrder phases, PhaseOrder::Create(pipeline));
  return Orderer(parts, options, phases).Run();
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
