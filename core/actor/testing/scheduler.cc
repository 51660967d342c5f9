#include "core/actor/testing/scheduler.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weft::actor {

namespace {

// A test that gives a broken spec fails here, with the reason.
ActorTable CreateOrDie(const TableSpec& spec) {
  return *ActorTable::Create(spec);
}

}  // namespace

Scheduler::Scheduler(const TableSpec& spec)
    : spec_(spec), table_(CreateOrDie(spec)), effects_(table_.effects_size()) {}

uint32_t Scheduler::Find(absl::string_view name) const {
  for (uint32_t i = 0; i < spec_.actors.size(); ++i) {
    if (spec_.actors[i].name == name) return i;
  }
  return kNoActor;
}

std::string Scheduler::Describe(const Message& m) const {
  const uint32_t to = table_.Find(m.destination);
  return absl::StrCat(
      m.kind == MessageKind::kReq ? "REQ" : "ACK", " r", m.reg, "[", m.copy,
      "] -> ",
      to == kNoActor ? ToString(m.destination) : spec_.actors[to].name);
}

void Scheduler::Act(uint32_t i) {
  next_ = table_.Act(i, &effects_);
  acts_.push_back(absl::StrCat(spec_.actors[i].name, ".", effects_.act()));
  log_.push_back(acts_.back());
  for (const Message& m : effects_.at_launch()) {
    log_.push_back(Describe(m));
    queue_.push_back(m);
  }
  for (const Message& m : effects_.at_tick()) {
    log_.push_back(absl::StrCat(Describe(m), " at tick"));
    (hold_ticks_ ? held_ : queue_).push_back(m);
  }
}

uint32_t Scheduler::CompleteTicks() {
  const auto count = static_cast<uint32_t>(held_.size());
  for (const Message& m : held_) queue_.push_back(m);
  held_.clear();
  return count;
}

bool Scheduler::TryAct(absl::string_view name) {
  const uint32_t i = Find(name);
  if (!table_.CanAct(i)) return false;
  Act(i);
  return true;
}

bool Scheduler::DeliverOne() {
  if (queue_.empty()) return false;
  Message m = queue_.front();
  queue_.pop_front();
  table_.OnMessage(m);
  return true;
}

void Scheduler::DeliverAll() {
  while (DeliverOne()) {
  }
}

uint64_t Scheduler::Settle() {
  uint64_t made = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t i = 0; i < table_.size(); ++i) {
      const ActorSpec& a = spec_.actors[i];
      if (a.inputs.empty() && !RowOf(a.kind).leased) continue;
      while (table_.CanAct(i)) {
        Act(i);
        ++made;
        moved = true;
      }
    }
    moved |= DeliverOne();
  }
  return made;
}

std::vector<std::string> Scheduler::TakeLog() {
  acts_.clear();
  return std::exchange(log_, {});
}

std::vector<std::string> Scheduler::TakeActs() {
  log_.clear();
  return std::exchange(acts_, {});
}

int SpecBuilder::Stream(bool ordered, uint32_t rank) {
  StreamSpec stream;
  stream.rank = rank;
  stream.stream = static_cast<uint32_t>(spec_.streams.size());
  stream.ordered = ordered;
  spec_.streams.push_back(stream);
  return static_cast<int>(stream.stream);
}

uint32_t SpecBuilder::Add(const std::string& name, ActorKind kind, int stream,
                          uint32_t acts_per_period) {
  const auto index = static_cast<uint32_t>(spec_.actors.size());
  ActorSpec a;
  const StreamSpec& s = spec_.streams[stream];
  a.id = ActorId::Make(s.rank, s.stream, index);
  a.kind = kind;
  a.name = name;
  a.acts_per_period = acts_per_period;
  spec_.actors.push_back(a);
  return index;
}

OutputSpec* SpecBuilder::FindOutput(uint32_t reg) {
  for (ActorSpec& a : spec_.actors) {
    for (OutputSpec& out : a.outputs) {
      if (out.reg == reg) return &out;
    }
  }
  return nullptr;
}

void SpecBuilder::Output(uint32_t from, uint32_t reg, uint32_t copies,
                         const std::string& give) {
  OutputSpec out;
  out.reg = reg;
  out.copies = copies;
  out.pattern = give;
  spec_.actors[from].outputs.push_back(out);
}

void SpecBuilder::Edge(uint32_t from, uint32_t to, uint32_t reg,
                       const EdgeOptions& options) {
  if (FindOutput(reg) == nullptr) {
    Output(from, reg, options.copies, options.give);
  }
  OutputSpec* out = FindOutput(reg);
  out->readers.push_back(
      {spec_.actors[to].id,
       options.host || RowOf(spec_.actors[to].kind).host_reader});
  auto alias = aliases_.find(reg);
  uint32_t owner = reg, slices = 1;
  if (alias != aliases_.end()) std::tie(owner, slices) = alias->second;
  OutputSpec* owned = FindOutput(owner);
  owned->acks_per_copy += slices;
  InputSpec in;
  in.reg = reg;
  in.copies = out->copies;
  in.ack_register = owner;
  in.ack_divisor = slices;
  in.pattern = options.take;
  for (const ActorSpec& a : spec_.actors) {
    for (const OutputSpec& o : a.outputs) {
      if (o.reg == owner) in.producer = a.id;
    }
  }
  spec_.actors[to].inputs.push_back(in);
}

void SpecBuilder::Alias(uint32_t through, uint32_t reg, uint32_t alias,
                        uint32_t slices) {
  uint32_t from = 0;
  for (uint32_t i = 0; i < spec_.actors.size(); ++i) {
    for (const OutputSpec& o : spec_.actors[i].outputs) {
      if (o.reg == reg) from = i;
    }
  }
  EdgeOptions options;
  if (slices > 1) options.take = Held(slices);
  Edge(from, through, reg, options);
  InputSpec& in = spec_.actors[through].inputs.back();
  in.aliased = true;
  FindOutput(in.ack_register)->acks_per_copy -= in.ack_divisor;
  aliases_[alias] = {in.ack_register, in.ack_divisor * slices};
  Output(through, alias, in.copies * slices, slices > 1 ? Sliced(slices) : "");
  spec_.actors[through].outputs.back().alias = true;
}

void SpecBuilder::Order(int stream, std::vector<uint32_t> order) {
  spec_.streams[stream].order = std::move(order);
}

TableSpec SpecBuilder::Build() const {
  TableSpec spec = spec_;
  for (StreamSpec& stream : spec.streams) {
    if (!stream.ordered || !stream.order.empty()) continue;
    for (uint32_t i = 0; i < spec.actors.size(); ++i) {
      if (spec.actors[i].id.stream() != stream.stream) continue;
      stream.order.insert(stream.order.end(), spec.actors[i].acts_per_period,
                          i);
    }
  }
  return spec;
}

}  // namespace weft::actor
