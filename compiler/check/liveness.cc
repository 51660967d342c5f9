#include "compiler/check/liveness.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/check/greedy_run.h"
#include "compiler/check/port_events.h"
#include "core/actor/actor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft::check {

namespace {

// More blocked tasks than this are not searched for the shortest cycle; any
// cycle through the first ones will do.
constexpr size_t kMaxStarts = 256;

// Task `from` cannot act before task `to` has.
struct Wait {
  uint32_t from = 0;
  uint32_t to = 0;
  actor::Blocker::Kind kind = actor::Blocker::kInput;
  uint32_t reg = 0;  // kInput, kCredit
};

class Explainer {
 public:
  Explainer(const plan::PlanView& view, const actor::TableSpec& spec,
            uint32_t periods, const GreedyRun& run)
      : view_(view), spec_(spec), periods_(periods), run_(run), regs_(spec) {
    waits_.resize(spec.actors.size());
    for (uint32_t i = 0; i < spec.actors.size(); ++i) AddWaits(i);
  }

  absl::Status Explain() const {
    const std::vector<Wait> cycle = ShortestCycle();
    std::string text = absl::StrCat("deadlock: after ", run_.order.size(),
                                    " acts nothing can act. ");
    for (size_t k = 0; k < cycle.size(); ++k) {
      absl::StrAppend(&text, k == 0 ? "" : "; ", Describe(cycle[k]));
    }
    absl::StrAppend(&text, ". ", SufficientChange(cycle));
    return MakeError(ErrorCode::kPlanRefuted, text);
  }

 private:
  bool Finished(uint32_t i) const {
    return run_.table.acts(i) >=
           uint64_t{spec_.actors[i].acts_per_period} * periods_;
  }

  void AddWaits(uint32_t i) {
    if (Finished(i)) return;
    for (const actor::Blocker& why : run_.table.WhyBlocked(i)) {
      switch (why.kind) {
        case actor::Blocker::kInput: {
          const uint32_t reg = spec_.actors[i].inputs[why.port].reg;
          waits_[i].push_back({i, view_.producer(reg).task, why.kind, reg});
          break;
        }
        case actor::Blocker::kCredit:
          AddCreditWaits(i, why.port);
          break;
        case actor::Blocker::kTurn:
          waits_[i].push_back(
              {i, run_.table.Turn(run_.table.stream(i)), why.kind, 0});
          break;
        default:
          break;
      }
    }
  }

  // Whoever has not acked the copy that actor `i` wants next.
  void AddCreditWaits(uint32_t i, uint32_t port) {
    const uint32_t reg = spec_.actors[i].outputs[port].reg;
    const RegisterEvents* events = regs_.Find(reg);
    const auto acts = static_cast<uint32_t>(run_.table.acts(i));
    const uint32_t acquired = events->acquire.Count(acts);
    const Events home(spec_.actors[i].outputs[port].pattern, actor::kHome);
    const uint32_t needed =
        home.At(acts) ? acquired : acquired + 1 - events->copies;
    for (const Reader& reader : events->final_readers) {
      const auto made = static_cast<uint32_t>(run_.table.acts(reader.actor));
      if (reader.ack.Count(made) < needed * reader.slices) {
        waits_[i].push_back({i, reader.actor, actor::Blocker::kCredit, reg});
      }
    }
  }

  // Breadth first from each blocked task; the shortest way back to it.
  std::vector<Wait> ShortestCycle() const {
    std::vector<Wait> best;
    size_t starts = 0;
    for (uint32_t start = 0; start < waits_.size(); ++start) {
      if (waits_[start].empty()) continue;
      if (++starts > kMaxStarts && !best.empty()) break;
      std::vector<Wait> cycle = CycleFrom(start);
      if (!cycle.empty() && (best.empty() || cycle.size() < best.size())) {
        best = std::move(cycle);
      }
    }
    return best;
  }

  std::vector<Wait> CycleFrom(uint32_t start) const {
    std::vector<const Wait*> came(waits_.size(), nullptr);
    std::vector<uint32_t> queue = {start};
    for (size_t head = 0; head < queue.size(); ++head) {
      for (const Wait& wait : waits_[queue[head]]) {
        if (wait.to == start) {
          std::vector<Wait> cycle = {wait};
          for (uint32_t at = wait.from; at != start; at = came[at]->from) {
            cycle.push_back(*came[at]);
          }
          std::reverse(cycle.begin(), cycle.end());
          return cycle;
        }
        if (wait.to >= waits_.size() || came[wait.to] != nullptr) continue;
        came[wait.to] = &wait;
        queue.push_back(wait.to);
      }
    }
    return {};
  }

  std::string Describe(const Wait& wait) const {
    const std::string from = view_.TaskName(wait.from);
    const std::string to = view_.TaskName(wait.to);
    switch (wait.kind) {
      case actor::Blocker::kInput:
        return absl::StrCat(from, " waits for ", view_.RegisterName(wait.reg),
                            " from ", to);
      case actor::Blocker::kCredit:
        return absl::StrCat(from, " waits for a free copy of ",
                            view_.RegisterName(wait.reg), ", which ", to,
                            " has not acked");
      default:
        return absl::StrCat(from, " waits for its turn on stream '",
                            view_.stream_of(wait.from).name(),
                            "', which is that of ", to);
    }
  }

  bool Finishes(const actor::TableSpec& spec) const {
    absl::StatusOr<GreedyRun> run = RunGreedily(spec, periods_);
    return run.ok() && run->complete;
  }

  std::string SufficientChange(const std::vector<Wait>& cycle) const {
    for (const Wait& wait : cycle) {
      std::string change;
      switch (wait.kind) {
        case actor::Blocker::kCredit:
          change = MoreCopies(wait);
          break;
        case actor::Blocker::kTurn:
          change = OtherOrder(wait);
          break;
        default:
          change = WithoutEdge(wait);
          break;
      }
      if (!change.empty()) {
        return absl::StrCat("One change that is enough: ", change);
      }
    }
    return "No single change of copies, launch order or order edges is enough";
  }

  std::string MoreCopies(const Wait& wait) const {
    const uint32_t copies = view_.reg(wait.reg).copies();
    const RegisterEvents* events = regs_.Find(wait.reg);
    const uint32_t gives =
        events->give.Count(spec_.actors[events->actor].acts_per_period);
    for (uint32_t more = 1; more <= std::min<uint32_t>(gives, 16); ++more) {
      actor::TableSpec spec = spec_;
      SetCopies(&spec, wait.reg, copies + more);
      if (Finishes(spec)) {
        return absl::StrCat(copies + more, " copies of ",
                            view_.RegisterName(wait.reg), " instead of ",
                            copies);
      }
    }
    return "";
  }

  // Copies of a register and, in proportion, of its aliases.
  void SetCopies(actor::TableSpec* spec, uint32_t root, uint32_t copies) const {
    for (actor::ActorSpec& a : spec->actors) {
      for (actor::OutputSpec& out : a.outputs) {
        if (view_.root(out.reg) == root) {
          out.copies = copies * view_.slices(out.reg);
        }
      }
      for (actor::InputSpec& in : a.inputs) {
        if (view_.root(in.reg) == root) {
          in.copies = copies * view_.slices(in.reg);
        }
      }
    }
  }

  // Lets the stream run as its acts become ready; where that finishes, the
  // order that came out is one to launch in.
  std::string OtherOrder(const Wait& wait) const {
    actor::TableSpec spec = spec_;
    actor::StreamSpec& stream = spec.streams[run_.table.stream(wait.from)];
    const std::vector<uint32_t> old = stream.order;
    stream.ordered = false;
    stream.order.clear();
    absl::StatusOr<GreedyRun> free = RunGreedily(spec, 1);
    if (!free.ok() || !free->complete) return "";
    stream.ordered = true;
    for (uint32_t i : free->order) {
      if (free->table.stream(i) == run_.table.stream(wait.from)) {
        stream.order.push_back(i);
      }
    }
    if (!Finishes(spec)) return "";
    size_t at = 0;
    while (at < old.size() && stream.order[at] == old[at]) ++at;
    if (at == old.size()) return "";
    return absl::StrCat("launch ", view_.TaskName(stream.order[at]), " before ",
                        view_.TaskName(old[at]), " on stream '",
                        view_.stream_of(wait.from).name(), "' (place ", at,
                        " of ", old.size(), " acts)");
  }

  std::string WithoutEdge(const Wait& wait) const {
    if (view_.reg(wait.reg).tensors_size() != 0) return "";
    actor::TableSpec spec = spec_;
    actor::ActorSpec& to = spec.actors[wait.from];
    auto reads = [&](const actor::InputSpec& in) { return in.reg == wait.reg; };
    to.inputs.erase(std::remove_if(to.inputs.begin(), to.inputs.end(), reads),
                    to.inputs.end());
    const plan::Use from = view_.producer(wait.reg);
    actor::OutputSpec& out = spec.actors[from.task].outputs[from.port];
    auto is_reader = [&](const actor::ReaderSpec& r) {
      return r.actor == to.id;
    };
    out.readers.erase(
        std::remove_if(out.readers.begin(), out.readers.end(), is_reader),
        out.readers.end());
    if (out.acks_per_copy > 0) --out.acks_per_copy;
    if (!Finishes(spec)) return "";
    return absl::StrCat("drop the order edge from ", view_.TaskName(from.task),
                        " to ", view_.TaskName(wait.from));
  }

  const plan::PlanView& view_;
  const actor::TableSpec& spec_;
  const uint32_t periods_;
  const GreedyRun& run_;
  RegisterTable regs_;
  std::vector<std::vector<Wait>> waits_;  // by task
};

}  // namespace

absl::Status ProveLiveness(const plan::PlanView& view,
                           const actor::TableSpec& spec, uint32_t periods,
                           const GreedyRun& run) {
  if (run.complete) return absl::OkStatus();
  return Explainer(view, spec, periods, run).Explain();
}

}  // namespace weft::check
