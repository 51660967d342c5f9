// Effects: what one act does to the world. ActorTable::Act fills one; the
// caller launches the kernels, then sends the messages:
//
//   MessageQueue queue(table.queue_bound());
//   Effects effects(table.effects_size(), &queue);  // the only allocation
//   table.Act(i, &effects);
//   Launch(effects.actor(), effects.inputs(), effects.outputs());
//   AtTick(stream, effects.at_tick());              // taken after the launch
//
// Messages that may leave at launch go to actors of the same stream, or of the
// same table where all is done when the launch has returned; hence of the same
// worker. With a queue, Act puts them there itself: nobody looks into it before
// the launch has returned. Without one they lie in at_launch().
//
// Threading: thread-compatible. Valid until the next Act on it. Ownership:
// borrows the queue.
#ifndef WEFT_CORE_ACTOR_EFFECTS_H_
#define WEFT_CORE_ACTOR_EFFECTS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/actor/message.h"

namespace weft::actor {

// In place of a copy where a port holds none in this act.
inline constexpr uint16_t kNoCopy = 0xffff;

// The most that any act of a table needs.
struct EffectsSize {
  uint32_t inputs = 0;
  uint32_t outputs = 0;
  uint32_t messages = 0;
};

class Effects {
 public:
  explicit Effects(const EffectsSize& size, MessageQueue* local = nullptr)
      : local_(local),
        zeros_(std::max(size.inputs, size.outputs)),
        inputs_(size.inputs),
        outputs_(size.outputs),
        at_launch_(size.messages),
        at_tick_(size.messages) {}
  Effects(const Effects&) = delete;
  Effects& operator=(const Effects&) = delete;

  uint32_t actor() const { return actor_; }  // index in its table
  // Acts of this actor before this one, over the whole run.
  uint64_t act() const { return act_; }
  // The same within the period.
  uint32_t phase() const { return phase_; }
  uint64_t period() const { return period_; }
  // The last act of its actor in the period.
  bool ends_period() const { return ends_period_; }

  // Which copy of each port's register the act reads or writes. An output that
  // is an alias counts copies of the alias.
  absl::Span<const uint16_t> inputs() const {
    return {(simple_ ? zeros_ : inputs_).data(), num_inputs_};
  }
  absl::Span<const uint16_t> outputs() const {
    return {(simple_ ? zeros_ : outputs_).data(), num_outputs_};
  }

  // For actors of the same table: send after the launch. Empty with a queue.
  absl::Span<const Message> at_launch() const {
    return {at_launch_.data(), num_at_launch_};
  }
  // For all others: send when the stream has done what was submitted up to and
  // with this act. An act without a launch is no exception.
  absl::Span<const Message> at_tick() const {
    return {at_tick_.data(), num_at_tick_};
  }

 private:
  friend class ActorTable;

  // Where the messages of one act go, in registers while it is under way.
  class Outbox {
   public:
    explicit Outbox(Effects* effects)
        : effects_(*effects),
          at_launch_(effects->local_ != nullptr
                         ? effects->local_->BeginPush()
                         : MessageQueue::Writer{effects->at_launch_.data(),
                                                ~uint64_t{0}, 0}),
          at_tick_(effects->at_tick_.data()) {}
    ~Outbox() {
      effects_.num_at_tick_ =
          static_cast<uint32_t>(at_tick_ - effects_.at_tick_.data());
      if (effects_.local_ != nullptr) {
        effects_.local_->EndPush(at_launch_);
      } else {
        effects_.num_at_launch_ = static_cast<uint32_t>(at_launch_.tail);
      }
    }
    // A copy of `m`, to be changed before the next one.
    Message* AtLaunch(const Message& m) { return Put(m, at_launch_.Next()); }
    Message* AtTick(const Message& m) { return Put(m, at_tick_++); }

   private:
    static Message* Put(const Message& m, Message* place) {
      *place = m;
      return place;
    }

    Effects& effects_;
    MessageQueue::Writer at_launch_;
    Message* at_tick_;
  };

  MessageQueue* local_;
  uint32_t actor_ = 0;
  uint32_t phase_ = 0;
  uint64_t act_ = 0;
  uint64_t period_ = 0;
  uint16_t num_inputs_ = 0;
  uint16_t num_outputs_ = 0;
  bool ends_period_ = false;
  bool simple_ = false;  // all ports use copy 0
  uint32_t num_at_launch_ = 0;
  uint32_t num_at_tick_ = 0;
  std::vector<uint16_t> zeros_;
  std::vector<uint16_t> inputs_;
  std::vector<uint16_t> outputs_;
  std::vector<Message> at_launch_;
  std::vector<Message> at_tick_;
};

}  // namespace weft::actor

#endif  // WEFT_CORE_ACTOR_EFFECTS_H_
