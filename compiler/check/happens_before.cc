#include "compiler/check/happens_before.h"

#include <algorithm>
#include <numeric>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "compiler/check/greedy_run.h"
#include "compiler/check/port_events.h"
#include "core/actor/kinds.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft::check {

namespace {

// The acts that an act waits for, other than by its stream's order.
class Edges {
 public:
  explicit Edges(const actor::TableSpec& spec) : spec_(spec), regs_(spec) {
    for (const actor::ActorSpec& a : spec.actors) {
      takes_.emplace_back();
      for (const actor::InputSpec& in : a.inputs) {
        takes_.back().emplace_back(in.pattern, actor::kTake);
      }
      homes_.emplace_back();
      for (const actor::OutputSpec& out : a.outputs) {
        homes_.back().emplace_back(out.pattern, actor::kHome);
      }
    }
  }

  // Calls visit(ActRef) for each.
  template <typename Visit>
  void Of(ActRef act, const Visit& visit) const {
    const actor::ActorSpec& a = spec_.actors[act.actor];
    for (uint32_t k = 0; k < a.inputs.size(); ++k) {
      const Events& take = takes_[act.actor][k];
      if (!take.At(act.act)) continue;
      const RegisterEvents* reg = regs_.Find(a.inputs[k].reg);
      if (reg == nullptr || reg->give.empty()) continue;
      visit(ActRef{reg->actor, reg->give.Act(take.Count(act.act))});
    }
    for (uint32_t k = 0; k < a.outputs.size(); ++k) {
      const RegisterEvents* reg = regs_.Find(a.outputs[k].reg);
      if (reg == nullptr || reg->alias) continue;
      const uint32_t before = reg->acquire.Count(act.act);
      if (homes_[act.actor][k].At(act.act)) {
        if (before > 0) Freed(*reg, before - 1, visit);
      } else if (reg->acquire.At(act.act) && before >= reg->copies) {
        Freed(*reg, before - reg->copies, visit);
      }
    }
  }

 private:
  // The ACKs that freed what was acquired as number `n`.
  template <typename Visit>
  static void Freed(const RegisterEvents& reg, uint32_t n, const Visit& visit) {
    for (const Reader& reader : reg.final_readers) {
      if (reader.ack.empty()) continue;
      visit(ActRef{reader.actor,
                   reader.ack.Act(n * reader.slices + reader.slices - 1)});
    }
  }

  const actor::TableSpec& spec_;
  RegisterTable regs_;
  std::vector<std::vector<Events>> takes_;
  std::vector<std::vector<Events>> homes_;
};

}  // namespace

uint32_t HappensBefore::PeriodsFor(const actor::TableSpec& spec) {
  uint32_t periods = 1;  // that use every copy once
  for (const actor::ActorSpec& a : spec.actors) {
    for (const actor::OutputSpec& out : a.outputs) {
      if (out.alias) continue;  // slices of a copy come and go with it
      const uint32_t gives = std::max<uint32_t>(
          1, Events(out.pattern, actor::kGive).Count(a.acts_per_period));
      periods = std::max(periods, (out.copies + gives - 1) / gives);
    }
  }
  return 2 * periods + 1;
}

absl::StatusOr<HappensBefore> HappensBefore::Create(
    const actor::TableSpec& spec, uint32_t periods) {
  WEFT_ASSIGN_OR_RETURN(GreedyRun run, RunGreedily(spec, periods));
  return Create(spec, periods, run);
}

absl::StatusOr<HappensBefore> HappensBefore::Create(
    const actor::TableSpec& spec, uint32_t periods, const GreedyRun& run) {
  if (!run.complete) {
    return MakeError(
        ErrorCode::kPlanRefuted,
        absl::StrCat("deadlock after ", run.order.size(), " acts"));
  }
  HappensBefore hb;
  hb.periods_ = periods;
  uint32_t nodes = 0;
  for (const actor::ActorSpec& a : spec.actors) {
    hb.acts_.push_back(a.acts_per_period * periods);
    hb.first_.push_back(nodes);
    nodes += hb.acts_.back();
  }
  hb.FindStreams(spec, run.table);
  hb.index_.assign(nodes, 0);
  hb.position_.assign(nodes, 0);
  hb.clock_.assign(size_t{nodes} * hb.streams_, 0);
  hb.order_.reserve(nodes);

  Edges edges(spec);
  std::vector<uint32_t> made(spec.actors.size(), 0);
  std::vector<uint32_t> latest(hb.streams_, 0);  // 1 + node
  std::vector<Edge> from_loose;
  for (uint32_t actor : run.order) {
    const ActRef act{actor, made[actor]++};
    const uint32_t node = hb.Node(act);
    const uint32_t stream = hb.stream_[actor];
    if (stream == kLoose && act.act > 0) {
      hb.Join(node - 1, node);
      from_loose.emplace_back(node - 1, node);
    } else if (stream != kLoose && latest[stream] != 0) {
      hb.Join(latest[stream] - 1, node);
    }
    edges.Of(act, [&](ActRef other) {
      if (other.act >= hb.acts_[other.actor]) return;
      hb.Join(hb.Node(other), node);
      if (hb.stream_[other.actor] == kLoose) {
        from_loose.emplace_back(hb.Node(other), node);
      }
    });
    hb.index_[node] = static_cast<uint32_t>(hb.order_.size());
    hb.order_.push_back(act);
    if (stream == kLoose) continue;
    hb.position_[node] =
        latest[stream] == 0 ? 1 : hb.position_[latest[stream] - 1] + 1;
    hb.clock_[size_t{node} * hb.streams_ + stream] = hb.position_[node];
    latest[stream] = node + 1;
  }
  hb.FollowLoose(std::move(from_loose));
  return hb;
}

void HappensBefore::FindStreams(const actor::TableSpec& spec,
                                const actor::ActorTable& table) {
  std::vector<uint32_t> number(spec.streams.size(), kLoose);
  for (uint32_t i = 0; i < spec.actors.size(); ++i) {
    const uint32_t stream = table.stream(i);
    const bool loose =
        !spec.streams[stream].ordered || actor::RowOf(spec.actors[i].kind).late;
    if (!loose && number[stream] == kLoose) number[stream] = streams_++;
    stream_.push_back(loose ? kLoose : number[stream]);
  }
}

void HappensBefore::Join(uint32_t from, uint32_t into) {
  const uint32_t* a = clock_.data() + size_t{from} * streams_;
  uint32_t* b = clock_.data() + size_t{into} * streams_;
  for (uint32_t s = 0; s < streams_; ++s) b[s] = std::max(a[s], b[s]);
}

void HappensBefore::FollowLoose(std::vector<Edge> edges) {
  std::sort(edges.begin(), edges.end());
  next_begin_.assign(index_.size() + 1, 0);
  entry_.assign(index_.size() * size_t{streams_}, kNever);
  next_.reserve(edges.size());
  for (const auto& [from, to] : edges) {
    ++next_begin_[from + 1];
    next_.push_back(to);
  }
  std::partial_sum(next_begin_.begin(), next_begin_.end(), next_begin_.begin());
  // Backwards: what follows an act has its entries by then.
  for (auto act = order_.rbegin(); act != order_.rend(); ++act) {
    const uint32_t from = Node(*act);
    uint32_t* entry = entry_.data() + size_t{from} * streams_;
    for (uint32_t to : Next(from)) {
      const uint32_t stream = StreamOf(to);
      if (stream != kLoose) {
        entry[stream] = std::min(entry[stream], position_[to]);
        continue;
      }
      const uint32_t* later = entry_.data() + size_t{to} * streams_;
      for (uint32_t s = 0; s < streams_; ++s) {
        entry[s] = std::min(entry[s], later[s]);
      }
    }
  }
}

bool HappensBefore::Before(ActRef a, ActRef b) const {
  if (a.actor == b.actor) return a.act < b.act;
  const uint32_t from = Node(a), to = Node(b);
  if (index_[from] > index_[to]) return false;
  if (BeforeClock(a, clock(b))) return true;
  return stream_[a.actor] == kLoose && stream_[b.actor] == kLoose &&
         LooselyBefore(from, to);
}

bool HappensBefore::BeforeClock(ActRef a,
                                absl::Span<const uint32_t> clock) const {
  const uint32_t node = Node(a);
  if (const uint32_t stream = stream_[a.actor]; stream != kLoose) {
    return clock[stream] >= position_[node];
  }
  const uint32_t* entry = entry_.data() + size_t{node} * streams_;
  for (uint32_t s = 0; s < streams_; ++s) {
    if (entry[s] <= clock[s]) return true;
  }
  return false;
}

bool HappensBefore::LooselyBefore(uint32_t from, uint32_t to) const {
  std::vector<uint32_t> open = {from};
  absl::flat_hash_set<uint32_t> seen;
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    for (uint32_t next : Next(at)) {
      if (next == to) return true;
      if (StreamOf(next) == kLoose && index_[next] < index_[to] &&
          seen.insert(next).second) {
        open.push_back(next);
      }
    }
  }
  return false;
}

LiveRanges::LiveRanges(const actor::TableSpec& spec, const HappensBefore& hb)
    : hb_(&hb) {
  RegisterTable regs(spec);
  for (const auto& [id, reg] : regs.all()) {
    if (reg.alias || reg.acquire.empty() || reg.give.empty()) continue;
    auto& copies = ranges_[id];
    copies.resize(reg.copies);
    const uint32_t times = reg.acquire.Count(hb.acts(reg.actor));
    for (uint32_t n = 0; n < times; ++n) {
      Range range;
      range.begin = {reg.actor, reg.acquire.Act(n)};
      range.give = {reg.actor, reg.give.Act(n)};
      for (const Reader& reader : reg.final_readers) {
        if (reader.ack.empty()) continue;
        const uint32_t act =
            reader.ack.Act(n * reader.slices + reader.slices - 1);
        if (act < hb.acts(reader.actor)) {
          range.ends.push_back({reader.actor, act});
        }
      }
      if (range.ends.empty()) range.ends.push_back(range.give);
      copies[n % reg.copies].push_back(std::move(range));
    }
  }
}

absl::Span<const LiveRanges::Range> LiveRanges::Of(uint32_t reg,
                                                   uint32_t copy) const {
  auto it = ranges_.find(reg);
  if (it == ranges_.end() || copy >= it->second.size()) return {};
  return it->second[copy];
}

bool LiveRanges::Ordered(const Range& a, const Range& b) const {
  for (ActRef end : a.ends) {
    if (!hb_->Before(end, b.begin)) return false;
  }
  return true;
}

std::optional<std::pair<LiveRanges::Range, LiveRanges::Range>>
LiveRanges::Conflict(uint32_t reg_a, uint32_t copy_a, uint32_t reg_b,
                     uint32_t copy_b) const {
  absl::Span<const Range> a = Of(reg_a, copy_a);
  absl::Span<const Range> b = Of(reg_b, copy_b);
  // Ranges of one copy follow one another, so what ends before the next range
  // of the other copy ends before all later ones too.
  size_t i = 0, k = 0;
  while (i < a.size() && k < b.size()) {
    if (Ordered(a[i], b[k])) {
      ++i;
    } else if (Ordered(b[k], a[i])) {
      ++k;
    } else {
      return std::make_pair(a[i], b[k]);
    }
  }
  return std::nullopt;
}

bool LiveRanges::NeverTogether(uint32_t reg_a, uint32_t copy_a, uint32_t reg_b,
                               uint32_t copy_b) const {
  if (reg_a == reg_b && copy_a == copy_b) return false;
  return !Conflict(reg_a, copy_a, reg_b, copy_b).has_value();
}

bool LiveRanges::NeverTogether(uint32_t reg_a, uint32_t reg_b) const {
  if (reg_a == reg_b) return false;
  auto a = ranges_.find(reg_a);
  auto b = ranges_.find(reg_b);
  if (a == ranges_.end() || b == ranges_.end()) return true;
  for (uint32_t i = 0; i < a->second.size(); ++i) {
    for (uint32_t k = 0; k < b->second.size(); ++k) {
      if (!NeverTogether(reg_a, i, reg_b, k)) return false;
    }
  }
  return true;
}

}  // namespace weft::check
