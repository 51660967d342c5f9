#include "core/actor/explorer.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "core/actor/actor.h"
#include "core/base/error.h"

namespace weft::actor {

namespace {

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) + 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

// Arenas cut at every border of a register copy: equal cells hold equal tokens.
class Cells {
 public:
  explicit Cells(const Model& model) {
    std::set<std::pair<uint32_t, uint64_t>> borders;
    for (const auto& [reg, m] : model.memory) {
      for (uint64_t offset : m.offsets) {
        borders.insert({m.arena, offset});
        borders.insert({m.arena, offset + m.bytes});
      }
    }
    std::vector<std::pair<uint32_t, uint64_t>> sorted(borders.begin(),
                                                      borders.end());
    auto index = [&](uint32_t arena, uint64_t at) {
      return static_cast<uint32_t>(std::lower_bound(sorted.begin(),
                                                    sorted.end(),
                                                    std::make_pair(arena, at)) -
                                   sorted.begin());
    };
    for (const auto& [reg, m] : model.memory) {
      if (m.bytes == 0) continue;
      for (uint64_t offset : m.offsets) {
        ranges_[reg].push_back(
            {index(m.arena, offset), index(m.arena, offset + m.bytes)});
      }
    }
    count_ = sorted.size();
  }

  size_t count() const { return count_; }
  // [first, last) of copy `copy`; empty where it has no bytes.
  std::pair<uint32_t, uint32_t> Of(uint32_t reg, uint32_t copy) const {
    auto it = ranges_.find(reg);
    if (it == ranges_.end() || copy >= it->second.size()) return {0, 0};
    return it->second[copy];
  }

 private:
  absl::flat_hash_map<uint32_t, std::vector<std::pair<uint32_t, uint32_t>>>
      ranges_;
  size_t count_ = 0;
};

// What does not change during a run.
struct Fixed {
  const Model& model;
  Cells cells;
  uint32_t periods;
  std::vector<uint32_t> queue_of;  // by actor
  uint32_t queues = 0;
};

struct Launch {
  uint32_t actor = 0;
  uint64_t act = 0;
  bool started = false;
  std::vector<uint16_t> inputs;
  std::vector<uint16_t> outputs;
  std::vector<uint64_t> reads;  // takes before this act, by input
  std::vector<Message> at_tick;
};

// What a copy of a register was given with.
struct Content {
  uint64_t token = 0;
  uint64_t gives = 0;  // of the register, up to this one
};

enum class Step { kAct, kStart, kFinish, kDeliver };
using Channel = std::tuple<uint64_t, uint32_t, uint8_t, uint32_t>;

struct Choice {
  Step step;
  uint32_t index = 0;  // actor or queue
  Channel channel;
};

class World {
 public:
  World(const Fixed* fixed, ActorTable table)
      : fixed_(fixed),
        table_(std::move(table)),
        queues_(fixed->queues),
        cells_(fixed->cells.count(), 0),
        takes_(table_.size()),
        partial_(table_.size()) {
    table_.SetLease(fixed->periods);
    const TableSpec& spec = fixed->model.spec;
    for (uint32_t i = 0; i < spec.actors.size(); ++i) {
      takes_[i].assign(spec.actors[i].inputs.size(), 0);
      partial_[i].assign(spec.actors[i].outputs.size(), 0);
    }
  }

  std::vector<Choice> Choices() const {
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

  void Take(const Choice& choice) {
    switch (choice.step) {
      case Step::kAct:
        return Act(choice.index);
      case Step::kStart:
        return Start(&queues_[choice.index].front());
      case Step::kFinish: {
        Launch launch = std::move(queues_[choice.index].front());
        queues_[choice.index].pop_front();
        return Finish(launch);
      }
      case Step::kDeliver:
        return Deliver(choice.channel);
    }
  }

  // Nothing is left to choose: is everything done?
  absl::Status Final() const {
    if (!failure_.ok()) return failure_;
    for (uint32_t i = 0; i < table_.size(); ++i) {
      if (table_.acts(i) != Target(i)) {
        return Fail(absl::StrCat("deadlock: ", Name(i), " has acted ",
                                 table_.acts(i), " times of ", Target(i)));
      }
    }
    if (!table_.credits_home()) {
      return Fail(
          absl::StrCat(table_.credits_out(), " copies never came home"));
    }
    return absl::OkStatus();
  }

  const absl::Status& failure() const { return failure_; }

  uint64_t Digest() const {
    uint64_t digest = digest_;
    for (uint64_t state : StateTokens()) digest = Mix(digest, state);
    return digest;
  }

  uint64_t Hash() const {
    uint64_t hash = Mix(table_.StateHash(), digest_);
    for (uint64_t token : cells_) hash = Mix(hash, token);
    for (const auto& queue : queues_) {
      hash = Mix(hash, queue.size());
      for (const Launch& l : queue) {
        hash = Mix(hash, uint64_t{l.actor} << 1 | (l.started ? 1 : 0));
      }
    }
    for (const auto& [channel, messages] : channels_) {
      hash = Mix(hash, std::get<0>(channel));
      hash =
          Mix(hash, uint64_t{std::get<1>(channel)} << 8 | std::get<2>(channel));
      hash = Mix(hash, std::get<3>(channel));
      hash = Mix(hash, messages.size());
    }
    return hash;
  }

 private:
  const ActorSpec& Spec(uint32_t i) const {
    return fixed_->model.spec.actors[i];
  }
  std::string Name(uint32_t i) const {
    return absl::StrCat("'", Spec(i).name, "' [actor ", i, "]");
  }
  uint64_t Target(uint32_t i) const {
    return uint64_t{table_.acts_per_period(i)} * fixed_->periods;
  }
  static absl::Status Fail(const std::string& what) {
    return MakeError(ErrorCode::kPlanRefuted, what);
  }
  void SetFailure(const std::string& what) {
    if (failure_.ok()) failure_ = Fail(what);
  }

  void Send(uint32_t from, const Message& m) {
    channels_[{m.destination.value, m.reg, static_cast<uint8_t>(m.kind), from}]
        .push_back(m);
  }

  void Act(uint32_t i) {
    Effects effects(table_.effects_size());
    table_.Act(i, &effects);
    Launch launch;
    launch.actor = i;
    launch.act = effects.act();
    launch.inputs.assign(effects.inputs().begin(), effects.inputs().end());
    launch.outputs.assign(effects.outputs().begin(), effects.outputs().end());
    launch.at_tick.assign(effects.at_tick().begin(), effects.at_tick().end());
    for (uint32_t k = 0; k < launch.inputs.size(); ++k) {
      if (PatternBits(Spec(i).inputs[k].pattern, launch.act) & kTake)
        ++takes_[i][k];
      launch.reads.push_back(takes_[i][k]);
    }
    queues_[fixed_->queue_of[i]].push_back(std::move(launch));
    for (const Message& m : effects.at_launch()) Send(i, m);
  }

  bool InPlace(const Launch& l, uint32_t input) const {
    return fixed_->model.written_inputs.contains({l.actor, input});
  }

  // Whether the act writes the bytes of its output `k`.
  bool Writes(const Launch& l, uint32_t k) const {
    return Spec(l.actor).kind != ActorKind::kVariable &&
           l.outputs[k] != kNoCopy &&
           !fixed_->model.views.contains({l.actor, k});
  }

  void Start(Launch* l) {
    l->started = true;
    CheckReads(*l, "starts");
    CheckKept(*l);
    const uint64_t busy = Mix(Mix(~uint64_t{0}, l->actor), l->act);
    ForEachWrite(*l,
                 [&](uint32_t reg, uint16_t copy) { Fill(reg, copy, busy); });
  }

  // What it has accumulated so far is as it left it.
  void CheckKept(const Launch& l) {
    for (uint32_t k = 0; k < l.outputs.size(); ++k) {
      const OutputSpec& out = Spec(l.actor).outputs[k];
      if (!Writes(l, k) || out.alias ||
          (PatternBits(out.pattern, l.act) & kAcquire)) {
        continue;
      }
      auto [first, last] = fixed_->cells.Of(out.reg, l.outputs[k]);
      for (uint32_t c = first; c < last; ++c) {
        if (cells_[c] == partial_[l.actor][k]) continue;
        SetFailure(absl::StrCat("overwritten: r", out.reg, " between acts of ",
                                Name(l.actor)));
      }
    }
  }

  template <typename Visit>
  void ForEachWrite(const Launch& l, const Visit& visit) {
    for (uint32_t k = 0; k < l.inputs.size(); ++k) {
      if (l.inputs[k] != kNoCopy && InPlace(l, k)) {
        visit(Spec(l.actor).inputs[k].reg, l.inputs[k]);
      }
    }
    for (uint32_t k = 0; k < l.outputs.size(); ++k) {
      if (Writes(l, k)) visit(Spec(l.actor).outputs[k].reg, l.outputs[k]);
    }
  }

  void Fill(uint32_t reg, uint16_t copy, uint64_t token) {
    auto [first, last] = fixed_->cells.Of(reg, copy);
    std::fill(cells_.begin() + first, cells_.begin() + last, token);
  }

  // The input is overwritten by this act itself, so it is checked only at the
  // start.
  bool OverwritesInput(const Launch& l, uint32_t input) const {
    if (InPlace(l, input)) return true;
    if (!Spec(l.actor).inputs[input].aliased) return false;
    for (uint32_t k = 0; k < l.outputs.size(); ++k) {
      if (Spec(l.actor).outputs[k].alias && Writes(l, k)) return true;
    }
    return false;
  }

  void CheckReads(const Launch& l, const char* when) {
    for (uint32_t k = 0; k < l.inputs.size(); ++k) {
      if (l.inputs[k] == kNoCopy) continue;
      const uint32_t reg = Spec(l.actor).inputs[k].reg;
      const Content& content = contents_[{reg, l.inputs[k]}];
      const std::string what =
          absl::StrCat("r", reg, "[", l.inputs[k], "] when act ", l.act, " of ",
                       Name(l.actor), " ", when);
      if (content.gives != l.reads[k]) {
        SetFailure(absl::StrCat("not written yet: ", what));
      }
      auto [first, last] = fixed_->cells.Of(reg, l.inputs[k]);
      for (uint32_t c = first; c < last; ++c) {
        if (cells_[c] != content.token) {
          SetFailure(absl::StrCat("overwritten: ", what));
        }
      }
    }
  }

  void Finish(const Launch& l) {
    uint64_t token = Mix(Mix(1, l.actor), l.act);
    for (uint32_t k = 0; k < l.inputs.size(); ++k) {
      if (l.inputs[k] == kNoCopy) continue;
      token = Mix(token,
                  contents_[{Spec(l.actor).inputs[k].reg, l.inputs[k]}].token);
    }
    CheckStillThere(l);
    for (uint32_t k = 0; k < l.inputs.size(); ++k) {
      if (l.inputs[k] == kNoCopy || !InPlace(l, k)) continue;
      const uint32_t reg = Spec(l.actor).inputs[k].reg;
      const uint64_t updated = Mix(token, k);
      Fill(reg, l.inputs[k], updated);
      contents_[{reg, l.inputs[k]}].token = updated;
    }
    for (uint32_t k = 0; k < l.outputs.size(); ++k) Give(l, k, token);
    if (Spec(l.actor).kind == ActorKind::kSink) digest_ += token;
    for (const Message& m : l.at_tick) Send(l.actor, m);
  }

  // What it reads is as it was when it started, except what it changes itself.
  void CheckStillThere(const Launch& l) {
    Launch rest = l;
    for (uint32_t k = 0; k < rest.inputs.size(); ++k) {
      if (OverwritesInput(l, k)) rest.inputs[k] = kNoCopy;
    }
    CheckReads(rest, "finishes");
    const uint64_t busy = Mix(Mix(~uint64_t{0}, l.actor), l.act);
    ForEachWrite(l, [&](uint32_t reg, uint16_t copy) {
      auto [first, last] = fixed_->cells.Of(reg, copy);
      for (uint32_t c = first; c < last; ++c) {
        if (cells_[c] == busy) continue;
        SetFailure(absl::StrCat("two write at once: r", reg, "[", copy,
                                "] in act ", l.act, " of ", Name(l.actor)));
      }
    });
  }

  void Give(const Launch& l, uint32_t k, uint64_t token) {
    if (l.outputs[k] == kNoCopy) return;
    const OutputSpec& out = Spec(l.actor).outputs[k];
    uint64_t& partial = partial_[l.actor][k];
    if (PatternBits(out.pattern, l.act) & kAcquire) partial = 0;
    partial = Mix(Mix(token, k), partial);
    if (Writes(l, k)) Fill(out.reg, l.outputs[k], partial);
    if (!(PatternBits(out.pattern, l.act) & kGive)) return;
    Content& content = contents_[{out.reg, l.outputs[k]}];
    content.gives = ++gives_[out.reg];
    content.token = partial;
    if (Spec(l.actor).kind == ActorKind::kVariable) {
      auto [first, last] = fixed_->cells.Of(out.reg, l.outputs[k]);
      content.token = first == last ? 0 : cells_[first];
    } else if (fixed_->model.views.contains({l.actor, k})) {
      for (uint32_t in = 0; in < l.inputs.size(); ++in) {
        if (!Spec(l.actor).inputs[in].aliased) continue;
        content.token =
            contents_[{Spec(l.actor).inputs[in].reg, l.inputs[in]}].token;
      }
    }
  }

  void Deliver(const Channel& channel) {
    auto it = channels_.find(channel);
    const Message m = it->second.front();
    it->second.pop_front();
    if (it->second.empty()) channels_.erase(it);
    table_.OnMessage(m);
    if (table_.refused() != 0) {
      SetFailure(absl::StrCat("message refused: ", table_.refusal()));
    }
  }

  // What variables hold.
  std::vector<uint64_t> StateTokens() const {
    std::vector<uint64_t> tokens;
    for (uint32_t i = 0; i < table_.size(); ++i) {
      if (Spec(i).kind != ActorKind::kVariable) continue;
      for (const OutputSpec& out : Spec(i).outputs) {
        auto [first, last] = fixed_->cells.Of(out.reg, 0);
        if (first != last) tokens.push_back(cells_[first]);
      }
    }
    return tokens;
  }

  const Fixed* fixed_;
  ActorTable table_;
  std::map<Channel, std::deque<Message>> channels_;
  std::vector<std::deque<Launch>> queues_;
  std::vector<uint64_t> cells_;
  std::map<std::pair<uint32_t, uint16_t>, Content> contents_;
  std::map<uint32_t, uint64_t> gives_;
  std::vector<std::vector<uint64_t>> takes_;
  std::vector<std::vector<uint64_t>> partial_;
  uint64_t digest_ = 0;
  absl::Status failure_;
};

Fixed MakeFixed(const Model& model, uint32_t periods, const ActorTable& table) {
  Fixed fixed{model, Cells(model), periods, {}, 0};
  std::vector<uint32_t> of_stream;
  for (size_t s = 0; s < model.spec.streams.size(); ++s) {
    of_stream.push_back(fixed.queues++);
  }
  for (uint32_t i = 0; i < table.size(); ++i) {
    fixed.queue_of.push_back(RowOf(table.kind(i)).late
                                 ? fixed.queues++
                                 : of_stream[table.stream(i)]);
  }
  return fixed;
}

// One timing; `choose(n)` picks one of n steps.
template <typename Choose>
Exploration RunOnce(const Model& model, uint32_t periods,
                    const Choose& choose) {
  Exploration result;
  absl::StatusOr<ActorTable> table = ActorTable::Create(model.spec);
  if (!table.ok()) {
    result.status = table.status();
    return result;
  }
  const Fixed fixed = MakeFixed(model, periods, *table);
  World world(&fixed, *std::move(table));
  for (;;) {
    std::vector<Choice> choices = world.Choices();
    ++result.states;
    if (choices.empty() || !world.failure().ok()) break;
    const auto pick = choose(static_cast<uint32_t>(choices.size()));
    result.choices.push_back(pick);
    world.Take(choices[pick]);
  }
  result.status = world.Final();
  result.digest = world.Digest();
  return result;
}

}  // namespace

Exploration ExploreRandom(const Model& model, uint32_t periods, uint64_t seed) {
  uint64_t state = Mix(0, seed);
  return RunOnce(model, periods, [&](uint32_t n) {
    state = Mix(state, 1);
    return static_cast<uint32_t>(state % n);
  });
}

Exploration Replay(const Model& model, uint32_t periods,
                   const std::vector<uint32_t>& choices) {
  size_t at = 0;
  return RunOnce(model, periods, [&](uint32_t n) {
    return at < choices.size() ? std::min(choices[at++], n - 1) : 0;
  });
}

Exploration ExploreAll(const Model& model, uint32_t periods,
                       uint64_t max_states) {
  Exploration result;
  absl::StatusOr<ActorTable> table = ActorTable::Create(model.spec);
  if (!table.ok()) {
    result.status = table.status();
    return result;
  }
  const Fixed fixed = MakeFixed(model, periods, *table);
  struct Frame {
    World world;
    std::vector<Choice> choices;
    uint32_t next = 0;
  };
  absl::flat_hash_set<uint64_t> seen;
  std::vector<Frame> stack;
  bool has_digest = false;
  World first(&fixed, *std::move(table));
  std::vector<Choice> choices = first.Choices();
  stack.push_back({std::move(first), std::move(choices), 0});
  auto stop = [&](absl::Status status) {
    result.status = std::move(status);
    for (const Frame& frame : stack) {
      if (frame.next > 0) result.choices.push_back(frame.next - 1);
    }
    return result;
  };
  while (!stack.empty()) {
    Frame& top = stack.back();
    if (top.choices.empty()) {
      absl::Status status = top.world.Final();
      if (!status.ok()) return stop(status);
      if (has_digest && top.world.Digest() != result.digest) {
        return stop(MakeError(ErrorCode::kPlanRefuted,
                              "two timings give different results"));
      }
      result.digest = top.world.Digest();
      has_digest = true;
    }
    if (top.next == top.choices.size()) {
      stack.pop_back();
      continue;
    }
    if (result.states >= max_states) return result;
    World world = top.world;
    world.Take(top.choices[top.next++]);
    if (!world.failure().ok()) return stop(world.failure());
    if (!seen.insert(world.Hash()).second) continue;
    ++result.states;
    std::vector<Choice> after = world.Choices();
    stack.push_back({std::move(world), std::move(after), 0});
  }
  result.exhausted = true;
  return result;
}

}  // namespace weft::actor
