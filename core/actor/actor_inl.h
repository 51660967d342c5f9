// The inline half of ActorTable: what happens once or more per act. Included by
// core/actor/actor.h only; read that first.
//
// Cost is the point of this file: an act with one input and one output touches
// the actor's line, its two ports and their routes, and allocates nothing.
//
// Threading: see ActorTable. Ownership: none.
#ifndef WEFT_CORE_ACTOR_ACTOR_INL_H_
#define WEFT_CORE_ACTOR_ACTOR_INL_H_

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "core/actor/actor.h"

namespace weft::actor {

// Ports of an actor up to this number are searched one by one.
inline constexpr uint32_t kFewPorts = 8;

inline uint32_t ActorTable::Find(ActorId id) const {
  uint32_t k = id.index() - first_index_;
  if (ABSL_PREDICT_TRUE(k < by_index_.size())) {
    uint32_t i = by_index_[k];
    if (ABSL_PREDICT_TRUE(i != kNoActor && actors_[i].id == id)) return i;
  }
  return FindSlow(id);
}

inline ActorTable::InPort* ActorTable::FindInput(uint32_t i, uint32_t reg) {
  const Actor& a = actors_[i];
  if (ABSL_PREDICT_FALSE(a.in_count > kFewPorts)) {
    uint32_t k = FindPortSlow(i, reg, /*input=*/true);
    return k == kNoActor ? nullptr : &in_[k];
  }
  InPort* port = in_.data() + a.in_begin;
  for (InPort* end = port + a.in_count; port != end; ++port) {
    if (port->reg == reg) return port;
  }
  return nullptr;
}

inline ActorTable::OutPort* ActorTable::FindOutput(uint32_t i, uint32_t reg) {
  const Actor& a = actors_[i];
  if (ABSL_PREDICT_FALSE(a.out_count > kFewPorts)) {
    uint32_t k = FindPortSlow(i, reg, /*input=*/false);
    return k == kNoActor ? nullptr : &out_[k];
  }
  OutPort* port = out_.data() + a.out_begin;
  for (OutPort* end = port + a.out_count; port != end; ++port) {
    if (port->reg == reg) return port;
  }
  return nullptr;
}

// Whether the port has what the coming act needs of it.
inline bool ActorTable::Satisfied(const OutPort& port) const {
  if (port.alias) return true;
  if ((port.bits & kAcquire) && acks_left_[port.acks + port.next] != 0) {
    return false;
  }
  return !(port.bits & kHome) || port.home == port.copies;
}

inline uint32_t ActorTable::OnReq(uint32_t i, const Message& message) {
  InPort* port = FindInput(i, message.reg);
  if (ABSL_PREDICT_FALSE(port == nullptr)) {
    return Refuse(message, "its actor does not read that register");
  }
  if (ABSL_PREDICT_FALSE(port->pending >= port->copies)) {
    return Refuse(message, "all copies are pending already");
  }
  uint32_t expected = port->next + port->pending;
  if (expected >= port->copies) expected -= port->copies;
  if (ABSL_PREDICT_FALSE(message.copy != expected)) {
    return Refuse(message, "another copy is next");
  }
  if (port->pending++ == 0 && (port->bits & kTake)) --actors_[i].blocked;
  return i;
}

inline uint32_t ActorTable::OnAck(uint32_t i, const Message& message) {
  OutPort* port = FindOutput(i, message.reg);
  if (ABSL_PREDICT_FALSE(port == nullptr || port->alias)) {
    return Refuse(message, "its actor does not own that register");
  }
  if (ABSL_PREDICT_FALSE(message.copy >= port->copies ||
                         acks_left_[port->acks + message.copy] == 0)) {
    return Refuse(message, "nobody reads that copy");
  }
  uint16_t& left = acks_left_[port->acks + message.copy];
  if (left > 1) {
    --left;
    return i;
  }
  left = 0;
  ++port->home;
  --credits_out_;
  // Was this copy what the port lacked?
  if (ABSL_PREDICT_FALSE(port->bits & kHome)) {
    if (port->home == port->copies) --actors_[i].blocked;
  } else if ((port->bits & kAcquire) && message.copy == port->next) {
    --actors_[i].blocked;
  }
  return i;
}

inline uint32_t ActorTable::OnMessage(const Message& message) {
  if (ABSL_PREDICT_FALSE(message.flags != 0 ||
                         message.kind > MessageKind::kAck)) {
    return OnControl(message);
  }
  uint32_t i = Find(message.destination);
  if (ABSL_PREDICT_FALSE(i == kNoActor)) {
    return Refuse(message, "no such actor here");
  }
  return message.kind == MessageKind::kReq ? OnReq(i, message)
                                           : OnAck(i, message);
}

inline bool ActorTable::CanAct(uint32_t i) const {
  if (i == kNoActor) return false;
  const Actor& a = actors_[i];
  if (a.blocked != 0) return false;
  uint32_t turn = streams_[a.stream].turn;
  return turn == i || turn == kAnybody;
}

inline uint32_t ActorTable::Candidate(uint32_t i) const {
  if (i == kNoActor) return kNoActor;
  uint32_t turn = streams_[actors_[i].stream].turn;
  return turn == kAnybody ? i : turn;
}

// Returns 1 where the act after this one lacks something at the port.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline uint32_t ActorTable::ActOutput(
    OutPort* port, uint32_t k, uint64_t act, Effects* effects) {
  const Route* route = routes_.data() + port->route;
  const Route* routes_end = route + port->route_count;
  if (ABSL_PREDICT_TRUE(port->single)) {
    port->home = 0;
    ++credits_out_;
    acks_left_[port->acks] = port->acks_per_copy;
    effects->outputs_[k] = 0;
    for (; route != routes_end; ++route) {
      effects->Send(MessageKind::kReq, *route, 0, act);
    }
    return 1;
  }
  const uint8_t bits = port->bits;
  uint16_t held = port->held;
  if ((bits & kAcquire) || (port->alias && (bits & kGive) && held == kNoCopy)) {
    held = port->next;
    port->next = held + 1 == port->copies ? 0 : held + 1;
    if (!port->alias) {
      --port->home;
      ++credits_out_;
    }
  }
  effects->outputs_[k] = held;
  if (bits & kGive) {
    for (; route != routes_end; ++route) {
      effects->Send(MessageKind::kReq, *route, held, act);
    }
    if (!port->alias) {
      acks_left_[port->acks + held] = port->acks_per_copy;
      if (port->acks_per_copy == 0) {
        ++port->home;
        --credits_out_;
      }
    }
    held = kNoCopy;
  }
  port->held = held;
  if (ABSL_PREDICT_FALSE(port->pattern_length != 1)) {
    if (++port->pattern_at == port->pattern_length) port->pattern_at = 0;
    port->bits = patterns_[port->pattern + port->pattern_at];
  }
  return Satisfied(*port) ? 0 : 1;
}

// Returns 1 where the act after this one lacks something at the port.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline uint32_t ActorTable::ActInput(
    InPort* port, uint32_t k, uint64_t act, Effects* effects) {
  if (ABSL_PREDICT_TRUE(port->single)) {
    port->pending = 0;
    effects->inputs_[k] = 0;
    effects->Send(MessageKind::kAck, routes_[port->route], 0, act);
    return 1;
  }
  uint8_t bits = port->bits;
  uint16_t held = port->held;
  if (bits & kTake) {
    held = port->next;
    port->next = held + 1 == port->copies ? 0 : held + 1;
    --port->pending;
  }
  effects->inputs_[k] = held;
  if (bits & kAck) {
    if (!port->aliased) {
      const uint16_t copy = port->divisor == 1 ? held : held / port->divisor;
      effects->Send(MessageKind::kAck, routes_[port->route], copy, act);
    }
    held = kNoCopy;
  }
  port->held = held;
  if (ABSL_PREDICT_FALSE(port->pattern_length != 1)) {
    if (++port->pattern_at == port->pattern_length) port->pattern_at = 0;
    bits = port->bits = patterns_[port->pattern + port->pattern_at];
  }
  return (bits & kTake) && port->pending == 0 ? 1 : 0;
}

inline void ActorTable::Act(uint32_t i, Effects* effects) {
  Actor& a = actors_[i];
  const uint64_t act = a.acts++;
  effects->actor_ = i;
  effects->act_ = act;
  effects->phase_ = a.phase;
  effects->period_ = a.period;
  effects->num_inputs_ = a.in_count;
  effects->num_outputs_ = a.out_count;
  effects->num_at_launch_ = 0;
  effects->num_at_tick_ = 0;

  uint32_t blocked = act + 1 >= a.limit ? 1 : 0;
  OutPort* out = out_.data() + a.out_begin;
  for (uint32_t k = 0, n = a.out_count; k < n; ++k) {
    blocked += ActOutput(out + k, k, act, effects);
  }
  InPort* in = in_.data() + a.in_begin;
  for (uint32_t k = 0, n = a.in_count; k < n; ++k) {
    blocked += ActInput(in + k, k, act, effects);
  }
  a.blocked = blocked;

  Stream& stream = streams_[a.stream];
  if (stream.ordered) {
    uint32_t position = stream.position + 1;
    if (position == stream.count) position = 0;
    stream.position = position;
    stream.turn = order_[stream.begin + position];
  }
  effects->ends_period_ = ++a.phase == a.acts_per_period;
  if (effects->ends_period_) {
    a.phase = 0;
    const uint64_t period = a.period++;
    if (ABSL_PREDICT_FALSE(period - periods_finished_ >= unfinished_.size()) ||
        --unfinished_[period & (unfinished_.size() - 1)] == 0) {
      FinishPeriod(period);
    }
  }
}

}  // namespace weft::actor

#endif  // WEFT_CORE_ACTOR_ACTOR_INL_H_
