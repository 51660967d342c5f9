#include "compiler/check/happens_before.h"

#include <algorithm>

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
  hb.MakeComponents(spec, run.table);
  const uint32_t components = hb.wide_ + hb.narrow_;
  hb.position_.assign(nodes, 0);
  hb.clock_.assign(size_t{nodes} * hb.wide_, 0);
  hb.small_clock_.assign(size_t{nodes} * hb.narrow_, 0);
  hb.order_.reserve(nodes);

  Edges edges(spec);
  std::vector<uint32_t> made(spec.actors.size(), 0);
  std::vector<uint32_t> latest(components, 0);  // 1 + node
  std::vector<uint32_t> count(components, 0);
  for (uint32_t actor : run.order) {
    const ActRef act{actor, made[actor]++};
    const uint32_t node = hb.Node(act);
    const uint32_t component = hb.component_[actor];
    if (latest[component] != 0) hb.Join(latest[component] - 1, node);
    edges.Of(act, [&](ActRef other) {
      if (other.act < hb.acts_[other.actor]) hb.Join(hb.Node(other), node);
    });
    const uint32_t position = hb.position_[node] = ++count[component];
    if (component < hb.wide_) {
      hb.clock_[size_t{node} * hb.wide_ + component] = position;
    } else {
      hb.small_clock_[size_t{node} * hb.narrow_ + component - hb.wide_] =
          static_cast<uint8_t>(position);
    }
    latest[component] = node + 1;
    hb.order_.push_back(act);
  }
  return hb;
}

void HappensBefore::MakeComponents(const actor::TableSpec& spec,
                                   const actor::ActorTable& table) {
  constexpr uint32_t kNone = ~uint32_t{0};
  component_.assign(spec.actors.size(), kNone);
  auto own = [&](uint32_t i) {
    return !spec.streams[table.stream(i)].ordered ||
           actor::RowOf(spec.actors[i].kind).late;
  };
  auto narrow = [&](uint32_t i) { return own(i) && acts_[i] <= 255; };
  std::vector<uint32_t> of_stream(spec.streams.size(), kNone);
  for (uint32_t i = 0; i < spec.actors.size(); ++i) {
    if (narrow(i)) continue;
    uint32_t& stream = of_stream[table.stream(i)];
    if (own(i) || stream == kNone) {
      component_[i] = wide_++;
      if (!own(i)) stream = component_[i];
    } else {
      component_[i] = stream;
    }
  }
  for (uint32_t i = 0; i < spec.actors.size(); ++i) {
    if (narrow(i)) component_[i] = wide_ + narrow_++;
  }
}

void HappensBefore::Join(uint32_t from, uint32_t into) {
  const uint32_t* a = clock_.data() + size_t{from} * wide_;
  uint32_t* b = clock_.data() + size_t{into} * wide_;
  for (uint32_t c = 0; c < wide_; ++c) b[c] = std::max(a[c], b[c]);
  const uint8_t* small_a = small_clock_.data() + size_t{from} * narrow_;
  uint8_t* small_b = small_clock_.data() + size_t{into} * narrow_;
  for (uint32_t c = 0; c < narrow_; ++c) {
    small_b[c] = std::max(small_a[c], small_b[c]);
  }
}

bool HappensBefore::Before(ActRef a, ActRef b) const {
  if (a == b) return false;
  const uint32_t position = position_[Node(a)];
  const uint32_t component = component_[a.actor];
  if (component < wide_) {
    return clock_[size_t{Node(b)} * wide_ + component] >= position;
  }
  return small_clock_[size_t{Node(b)} * narrow_ + component - wide_] >=
         position;
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
