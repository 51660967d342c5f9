#include "core/actor/actor.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace weft::actor {

namespace {

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  hash *= 0xbf58476d1ce4e5b9u;
  return hash ^ (hash >> 29);
}

}  // namespace

// Whether the port has what the coming act needs of it.
inline bool ActorTable::Satisfied(const OutPort& port) const {
  if (port.alias) return true;
  if ((port.bits & kAcquire) && acks_left_[port.acks + port.next] != 0) {
    return false;
  }
  return !(port.bits & kHome) || port.home == port.copies;
}

uint32_t ActorTable::ActRegularly(const Actor& a, uint64_t act,
                                  Effects* effects) {
  Effects::Outbox outbox(effects);
  uint32_t blocked = a.leased && a.period >= lease_ ? 1 : 0;
  OutPort* out = out_.data() + a.out_begin;
  for (uint32_t k = 0; k < a.out_count; ++k, ++out) {
    const uint16_t copy = out->next;
    const auto next =
        static_cast<uint16_t>(copy + 1 == out->copies ? 0 : copy + 1);
    out->next = next;
    effects->outputs_[k] = copy;
    const Message* post = posts_.data() + out->posts;
    for (uint32_t r = out->at_launch; r != 0; --r) {
      outbox.AtLaunch(*post++)->Set(copy, act);
    }
    for (uint32_t r = out->at_tick; r != 0; --r) {
      outbox.AtTick(*post++)->Set(copy, act);
    }
    if (out->alias || out->acks_per_copy == 0) continue;
    --out->home;
    ++credits_out_;
    uint16_t* left = acks_left_.data() + out->acks;
    left[copy] = out->acks_per_copy;
    if (left[next] != 0) ++blocked;
  }
  InPort* in = in_.data() + a.in_begin;
  for (uint32_t k = 0; k < a.in_count; ++k, ++in) {
    const uint16_t copy = in->next;
    in->next = static_cast<uint16_t>(copy + 1 == in->copies ? 0 : copy + 1);
    effects->inputs_[k] = copy;
    if (--in->pending == 0) ++blocked;
    if (in->post == kNoPost) continue;
    const Message& post = posts_[in->post];
    (in->at_launch ? outbox.AtLaunch(post) : outbox.AtTick(post))
        ->Set(copy, act);
  }
  return blocked;
}

uint32_t ActorTable::ActByPatterns(const Actor& a, uint64_t act,
                                   Effects* effects) {
  Effects::Outbox outbox(effects);
  uint32_t blocked = 0;
  for (uint32_t k = 0; k < a.out_count; ++k) {
    blocked += ActOutput(&out_[a.out_begin + k], k, act, effects, &outbox);
  }
  for (uint32_t k = 0; k < a.in_count; ++k) {
    blocked += ActInput(&in_[a.in_begin + k], k, act, effects, &outbox);
  }
  return blocked + (a.leased && a.period >= lease_ ? 1 : 0);
}

// Returns 1 where the act after this one lacks something at the port.
inline uint32_t ActorTable::ActOutput(OutPort* port, uint32_t k, uint64_t act,
                                      Effects* effects,
                                      Effects::Outbox* outbox) {
  const bool alias = port->alias;
  const uint8_t bits = port->bits;
  uint16_t held = port->held;
  if ((bits & kAcquire) || (alias && (bits & kGive) && held == kNoCopy)) {
    held = port->next;
    port->next = held + 1 == port->copies ? 0 : held + 1;
    if (!alias) {
      --port->home;
      ++credits_out_;
    }
  }
  effects->outputs_[k] = held;
  if (bits & kGive) {
    const Message* post = posts_.data() + port->posts;
    for (uint32_t r = 0; r < port->at_launch; ++r) {
      outbox->AtLaunch(*post++)->Set(held, act);
    }
    for (uint32_t r = 0; r < port->at_tick; ++r) {
      outbox->AtTick(*post++)->Set(held, act);
    }
    if (!alias) {
      acks_left_[port->acks + held] = port->acks_per_copy;
      if (port->acks_per_copy == 0) {
        ++port->home;
        --credits_out_;
      }
    }
    held = kNoCopy;
  }
  port->held = held;
  if (port->pattern_length != 1) {
    if (++port->pattern_at == port->pattern_length) port->pattern_at = 0;
    port->bits = patterns_[port->pattern + port->pattern_at];
  }
  return Satisfied(*port) ? 0 : 1;
}

inline uint32_t ActorTable::ActInput(InPort* port, uint32_t k, uint64_t act,
                                     Effects* effects,
                                     Effects::Outbox* outbox) {
  uint8_t bits = port->bits;
  uint16_t held = port->held;
  if (bits & kTake) {
    held = port->next;
    port->next = held + 1 == port->copies ? 0 : held + 1;
    --port->pending;
  }
  effects->inputs_[k] = held;
  if (bits & kAck) {
    if (port->post != kNoPost) {
      const Message& post = posts_[port->post];
      const uint16_t copy = port->divisor == 1 ? held : held / port->divisor;
      (port->at_launch ? outbox->AtLaunch(post) : outbox->AtTick(post))
          ->Set(copy, act);
    }
    held = kNoCopy;
  }
  port->held = held;
  if (port->pattern_length != 1) {
    if (++port->pattern_at == port->pattern_length) port->pattern_at = 0;
    bits = port->bits = patterns_[port->pattern + port->pattern_at];
  }
  return (bits & kTake) && port->pending == 0 ? 1 : 0;
}

void ActorTable::SetLease(uint64_t period) {
  if (period <= lease_) return;
  ReservePeriods(period);
  for (uint32_t i : leased_) {
    Actor& a = actors_[i];
    if (a.period >= lease_ && a.period < period) --a.blocked;
  }
  lease_ = period;
}

bool ActorTable::Abort() {
  if (aborted_) return false;
  aborted_ = true;
  for (Stream& stream : streams_) {
    stream.turn = kNoActor;
    stream.ordered = true;  // with nobody's turn
  }
  return true;
}

void ActorTable::ReservePeriods(uint64_t period) {
  const uint64_t old_size = unfinished_.size();
  uint64_t size = old_size;
  while (size <= period - periods_finished_) size *= 2;
  if (size == old_size) return;
  std::vector<uint32_t> bigger(size, parts_);
  for (uint64_t k = 0; k < old_size; ++k) {
    uint64_t p = periods_finished_ + k;
    bigger[p & (size - 1)] = unfinished_[p & (old_size - 1)];
  }
  unfinished_ = std::move(bigger);
}

void ActorTable::FinishPeriod(uint64_t period) {
  if (period - periods_finished_ >= unfinished_.size()) {
    // Only actors that the lease does not reach (a Recv) get past the room
    // that SetLease made.
    ReservePeriods(period);
    --unfinished_[period & (unfinished_.size() - 1)];
  }
  const uint64_t mask = unfinished_.size() - 1;
  while (unfinished_[periods_finished_ & mask] == 0) {
    unfinished_[periods_finished_ & mask] = parts_;
    ++periods_finished_;
  }
}

uint32_t ActorTable::OnControl(const Message& message) {
  if (message.flags != 0) return Refuse(message, "unknown flags");
  switch (message.kind) {
    case MessageKind::kStart:
      if (message.sequence > periods_finished_ &&
          message.sequence - periods_finished_ > kMaxLeaseAhead) {
        return Refuse(message, "a lease that far ahead is not possible");
      }
      SetLease(message.sequence);
      return kNoActor;
    case MessageKind::kAbort:
      Abort();
      return kNoActor;
    case MessageKind::kStop:
    case MessageKind::kFinished:
      return kNoActor;
    default:
      return Refuse(message, "unknown kind");
  }
}

uint32_t ActorTable::Refuse(const Message& message, absl::string_view why) {
  ++refused_;
  refusal_ = absl::StrCat(ToString(message), ": ", why);
  return kNoActor;
}

uint32_t ActorTable::Find(ActorId id) const {
  const uint32_t k = id.index() - first_index_;
  if (k < by_index_.size()) {
    const uint32_t i = by_index_[k];
    if (i != kNoActor && actors_[i].id == id) return i;
  }
  auto it = by_id_.find(id.value);
  return it == by_id_.end() ? kNoActor : it->second;
}

template <typename Port>
uint32_t ActorTable::FindPort(uint32_t i, uint32_t reg, uint32_t begin,
                              uint32_t count, const PortMap& many,
                              const std::vector<Port>& ports) {
  if (count > kFewPorts) {
    auto it = many.find({i, reg});
    return it == many.end() ? kNoPort : it->second;
  }
  for (uint32_t k = begin; k < begin + count; ++k) {
    if (ports[k].reg == reg) return k;
  }
  return kNoPort;
}

uint32_t ActorTable::FindInput(const Message& message) const {
  const uint32_t i = Find(message.destination);
  if (i == kNoActor) return kNoPort;
  const Actor& a = actors_[i];
  return FindPort(i, message.reg, a.in_begin, a.in_count, many_in_, in_);
}

uint32_t ActorTable::FindOutput(const Message& message) const {
  const uint32_t i = Find(message.destination);
  if (i == kNoActor) return kNoPort;
  const Actor& a = actors_[i];
  return FindPort(i, message.reg, a.out_begin, a.out_count, many_out_, out_);
}

void ActorTable::Hint(Message* m) {
  const bool req = m->kind == MessageKind::kReq;
  const uint32_t port = req ? FindInput(*m) : FindOutput(*m);
  if (port != kNoPort) m->port = port;
}

uint32_t ActorTable::RefusePort(const Message& message) {
  if (Find(message.destination) == kNoActor) {
    return Refuse(message, "no such actor here");
  }
  return Refuse(message, message.kind == MessageKind::kReq
                             ? "its actor does not read that register"
                             : "its actor does not own that register");
}

bool ActorTable::Awaits(const Message& req) const {
  const uint32_t p = InputOf(req);
  if (p == kNoPort || aborted_) return false;
  const InPort& port = in_[p];
  return (port.bits & kTake) && port.pending == 0 &&
         actors_[port.actor].blocked == 1;
}

std::vector<Blocker> ActorTable::WhyBlocked(uint32_t i) const {
  const Actor& a = actors_[i];
  std::vector<Blocker> result;
  if (aborted_) result.push_back({Blocker::kAborted});
  for (uint32_t k = 0; k < a.in_count; ++k) {
    const InPort& port = in_[a.in_begin + k];
    if ((port.bits & kTake) && port.pending == 0) {
      result.push_back({Blocker::kInput, k});
    }
  }
  for (uint32_t k = 0; k < a.out_count; ++k) {
    if (!Satisfied(out_[a.out_begin + k])) {
      result.push_back({Blocker::kCredit, k});
    }
  }
  if (a.leased && a.period >= lease_) result.push_back({Blocker::kLease});
  const Stream& stream = streams_[a.stream];
  if (!aborted_ && stream.ordered && stream.turn != i) {
    result.push_back({Blocker::kTurn});
  }
  return result;
}

uint64_t ActorTable::StateHash() const {
  uint64_t hash = aborted_ ? 1 : 0;
  for (const Actor& a : actors_) hash = Mix(hash, a.acts);
  for (const InPort& port : in_) {
    hash = Mix(hash, uint64_t{port.pending} << 32 | port.held);
  }
  for (uint16_t left : acks_left_) hash = Mix(hash, left);
  for (const Stream& stream : streams_) hash = Mix(hash, stream.position);
  return Mix(hash, lease_);
}

}  // namespace weft::actor
