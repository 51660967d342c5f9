// The inline half of ActorTable: what happens once or more per act. Included by
// core/actor/actor.h only; read that first.
//
// Cost is the point of this file. A simple act (one copy everywhere, every act
// alike; most are) touches the actor's line, its ports, and the messages that
// it sends, which lie ready but for the number of the act. A regular act counts
// copies besides; whatever else there is follows patterns, both in actor.cc.
// Nothing allocates.
//
// Threading: see ActorTable. Ownership: none.
#ifndef WEFT_CORE_ACTOR_ACTOR_INL_H_
#define WEFT_CORE_ACTOR_ACTOR_INL_H_

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "core/actor/actor.h"

namespace weft::actor {

template <typename Port>
ABSL_ATTRIBUTE_ALWAYS_INLINE inline bool ActorTable::HintFits(
    const Message& message, const std::vector<Port>& ports,
    uint32_t count) const {
  const Port* const port = ports.data() + message.port;
  return ABSL_PREDICT_TRUE(message.port < count && port->reg == message.reg &&
                           actors_[port->actor].id == message.destination);
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline uint32_t ActorTable::InputOf(
    const Message& message) const {
  return HintFits(message, in_, num_in_) ? message.port : FindInput(message);
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline uint32_t ActorTable::OutputOf(
    const Message& message) const {
  return HintFits(message, out_, num_out_) ? message.port : FindOutput(message);
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline uint32_t ActorTable::OnReq(
    const Message& message) {
  const uint32_t p = InputOf(message);
  if (ABSL_PREDICT_FALSE(p == kNoPort)) return RefusePort(message);
  InPort* const port = in_.data() + p;
  const uint32_t copies = port->copies, pending = port->pending;
  if (ABSL_PREDICT_FALSE(pending >= copies)) {
    return Refuse(message, "all copies are pending already");
  }
  uint32_t expected = port->next + pending;
  if (expected >= copies) expected -= copies;
  if (ABSL_PREDICT_FALSE(message.copy != expected)) {
    return Refuse(message, "another copy is next");
  }
  if (ABSL_PREDICT_FALSE(expected == port->held)) {
    return Refuse(message, "that copy is held");
  }
  const uint32_t i = port->actor;
  port->pending = static_cast<uint16_t>(pending + 1);
  if (pending == 0 && (port->bits & kTake)) --actors_[i].blocked;
  return i;
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline uint32_t ActorTable::OnAck(
    const Message& message) {
  const uint32_t p = OutputOf(message);
  if (ABSL_PREDICT_FALSE(p == kNoPort)) return RefusePort(message);
  OutPort* const port = out_.data() + p;
  if (ABSL_PREDICT_FALSE(port->alias)) {
    return RefusePort(message);
  }
  if (ABSL_PREDICT_FALSE(message.copy >= port->copies)) {
    return Refuse(message, "nobody reads that copy");
  }
  uint16_t& left = acks_left_[port->acks + message.copy];
  if (ABSL_PREDICT_FALSE(left == 0)) {
    return Refuse(message, "nobody reads that copy");
  }
  const uint32_t i = port->actor;
  if (--left != 0) return i;
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

ABSL_ATTRIBUTE_ALWAYS_INLINE inline uint32_t ActorTable::OnMessage(
    const Message& message) {
  if (ABSL_PREDICT_FALSE(message.flags != 0 ||
                         message.kind > MessageKind::kAck)) {
    return OnControl(message);
  }
  return message.kind == MessageKind::kReq ? OnReq(message) : OnAck(message);
}

inline bool ActorTable::CanAct(uint32_t i) const {
  if (i == kNoActor) return false;
  const Actor& a = actors_[i];
  if (a.blocked != 0) return false;
  uint32_t turn = streams_[a.stream].turn;
  return turn == i || turn == kAnybody;
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline uint32_t ActorTable::ActSimply(
    const Actor& a, uint64_t act, Effects* effects) {
  const uint32_t outputs = a.out_count, inputs = a.in_count;
  OutPort* out = out_.data() + a.out_begin;
  for (uint32_t k = 0; k < outputs; ++k, ++out) {
    out->home = 0;
    acks_left_[out->acks] = out->acks_per_copy;
  }
  credits_out_ += outputs;
  InPort* in = in_.data() + a.in_begin;
  for (uint32_t k = 0; k < inputs; ++k, ++in) {
    in->pending = 0;
  }
  Effects::Outbox outbox(effects);
  const Message* post = posts_.data() + a.posts;
  for (uint32_t k = a.at_launch; k != 0; --k) {
    outbox.AtLaunch(*post++)->sequence = act;
  }
  for (uint32_t k = a.at_tick; k != 0; --k) {
    outbox.AtTick(*post++)->sequence = act;
  }
  return outputs + inputs;
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline uint32_t ActorTable::Act(uint32_t i,
                                                             Effects* effects) {
  Actor& a = actors_[i];
  const uint64_t act = a.acts++;
  const uint64_t period = a.period;
  effects->actor_ = i;
  effects->act_ = act;
  effects->phase_ = a.phase;
  effects->period_ = period;
  effects->num_inputs_ = a.in_count;
  effects->num_outputs_ = a.out_count;
  const bool ends_period = ++a.phase == a.acts_per_period;
  if (ends_period) {
    a.phase = 0;
    a.period = period + 1;
  }
  effects->ends_period_ = ends_period;
  effects->simple_ = a.simple;
  a.blocked = ABSL_PREDICT_TRUE(a.simple) ? ActSimply(a, act, effects)
              : a.regular                 ? ActRegularly(a, act, effects)
                                          : ActByPatterns(a, act, effects);
  Stream& stream = streams_[a.stream];
  if (ABSL_PREDICT_TRUE(stream.ordered)) {
    uint32_t position = stream.position + 1;
    if (ABSL_PREDICT_FALSE(position == stream.count)) {
      position = 0;
      FinishPart(period);
    }
    stream.position = position;
    return stream.turn = order_[stream.begin + position];
  }
  if (ends_period) FinishPart(period);
  return i;
}

inline void ActorTable::FinishPart(uint64_t period) {
  if (period - periods_finished_ >= unfinished_.size() ||
      --unfinished_[period & (unfinished_.size() - 1)] == 0) {
    FinishPeriod(period);
  }
}

}  // namespace weft::actor

#endif  // WEFT_CORE_ACTOR_ACTOR_INL_H_
