#include "core/actor/timing.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/actor/pattern.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft::actor {
namespace {

absl::Status Fail(const std::string& what) {
  return MakeError(ErrorCode::kPlanRefuted, what);
}

}  // namespace

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) + 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

uint64_t PickRandom(uint64_t* state, uint64_t n) {
  *state = Mix(*state, 1);
  return *state % n;
}

absl::StatusOr<Timing> Timing::Create(const TableSpec* spec, uint32_t periods) {
  WEFT_ASSIGN_OR_RETURN(ActorTable table, ActorTable::Create(*spec));
  return Timing(spec, periods, std::move(table));
}

Timing::Timing(const TableSpec* spec, uint32_t periods, ActorTable table)
    : spec_(spec), periods_(periods), table_(std::move(table)) {
  table_.SetLease(periods);
  queues_.resize(spec->streams.size());
  for (uint32_t i = 0; i < table_.size(); ++i) {
    takes_.emplace_back(spec->actors[i].inputs.size(), 0);
    const bool late = RowOf(table_.kind(i)).late;
    queue_of_.push_back(late ? static_cast<uint32_t>(queues_.size())
                             : table_.stream(i));
    if (late) queues_.emplace_back();
  }
}

std::vector<Timing::Choice> Timing::Choices() const {
  std::vector<Choice> choices;
  for (uint32_t i = 0; i < table_.size(); ++i) {
    if (table_.CanAct(i) && table_.acts(i) < Target(i)) {
      choices.push_back({Step::kAct, i, {}});
    }
  }
  for (uint32_t q = 0; q < queues_.size(); ++q) {
    if (queues_[q].empty()) continue;
    choices.push_back(
        {queues_[q].front().started ? Step::kFinish : Step::kStart, q, {}});
  }
  for (const auto& [channel, messages] : channels_) {
    choices.push_back({Step::kDeliver, 0, channel});
  }
  return choices;
}

void Timing::Take(const Choice& choice, Work* work) {
  switch (choice.step) {
    case Step::kAct:
      return Act(choice.index);
    case Step::kStart: {
      Launch& launch = queues_[choice.index].front();
      launch.started = true;
      return work->Start(launch);
    }
    case Step::kFinish:
      return Finish(choice.index, work);
    case Step::kDeliver:
      return Deliver(choice.channel);
  }
}

void Timing::FinishAll(uint32_t actor, Work* work) {
  const uint32_t queue = queue_of_[actor];
  while (!queues_[queue].empty()) {
    Launch& launch = queues_[queue].front();
    if (!launch.started) {
      launch.started = true;
      work->Start(launch);
    }
    Finish(queue, work);
  }
}

absl::Status Timing::Final() const {
  if (table_.refused() != 0) {
    return Fail(absl::StrCat("message refused: ", table_.refusal()));
  }
  for (uint32_t i = 0; i < table_.size(); ++i) {
    if (table_.acts(i) != Target(i)) {
      return Fail(absl::StrCat("deadlock: ", Name(i), " has acted ",
                               table_.acts(i), " times of ", Target(i)));
    }
  }
  if (!table_.credits_home()) {
    return Fail(absl::StrCat(table_.credits_out(), " copies never came home"));
  }
  return absl::OkStatus();
}

std::string Timing::Name(uint32_t actor) const {
  return absl::StrCat("'", spec_->actors[actor].name, "' [actor ", actor, "]");
}

uint64_t Timing::Hash() const {
  uint64_t hash = table_.StateHash();
  for (const auto& queue : queues_) {
    hash = Mix(hash, queue.size());
    for (const Launch& l : queue) {
      hash = Mix(hash, uint64_t{l.actor} << 1 | (l.started ? 1 : 0));
    }
  }
  for (const auto& [channel, messages] : channels_) {
    const auto [destination, reg, kind, from] = channel;
    hash = Mix(hash, destination);
    hash = Mix(hash, uint64_t{reg} << 8 | kind);
    hash = Mix(hash, from);
    hash = Mix(hash, messages.size());
  }
  return hash;
}

void Timing::Send(uint32_t from, const Message& m) {
  channels_[{m.destination.value, m.reg, static_cast<uint8_t>(m.kind), from}]
      .push_back(m);
}

void Timing::Act(uint32_t i) {
  Effects effects(table_.effects_size());
  table_.Act(i, &effects);
  Launch launch;
  launch.actor = i;
  launch.act = effects.act();
  launch.period = effects.period();
  launch.phase = effects.phase();
  launch.inputs.assign(effects.inputs().begin(), effects.inputs().end());
  launch.outputs.assign(effects.outputs().begin(), effects.outputs().end());
  launch.at_tick.assign(effects.at_tick().begin(), effects.at_tick().end());
  for (size_t k = 0; k < launch.inputs.size(); ++k) {
    const std::string& pattern = spec_->actors[i].inputs[k].pattern;
    if (PatternBits(pattern, launch.act) & kTake) ++takes_[i][k];
  }
  launch.takes = takes_[i];
  queues_[queue_of_[i]].push_back(std::move(launch));
  for (const Message& m : effects.at_launch()) Send(i, m);
}

void Timing::Finish(uint32_t queue, Work* work) {
  const Launch launch = std::move(queues_[queue].front());
  queues_[queue].pop_front();
  work->Finish(launch);
  for (const Message& m : launch.at_tick) Send(launch.actor, m);
}

void Timing::Deliver(const Channel& channel) {
  auto it = channels_.find(channel);
  const Message m = it->second.front();
  it->second.pop_front();
  if (it->second.empty()) channels_.erase(it);
  table_.OnMessage(m);
}

}  // namespace weft::actor
