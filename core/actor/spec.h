// TableSpec: what an ActorTable is built from. The compiler's plan is turned
// into one by core/plan/actor_spec.h; tests write it by hand:
//
//   TableSpec spec;
//   spec.streams = {{/*rank=*/0, /*stream=*/0, /*ordered=*/true, {0, 1}}};
//   ActorId x = ActorId::Make(0, 0, 0), y = ActorId::Make(0, 0, 1);
//   spec.actors = {{x, ActorKind::kSource, "x"}, {y, ActorKind::kSink, "y"}};
//   spec.actors[0].outputs = {{/*reg=*/7, /*copies=*/2, /*acks_per_copy=*/1}};
//   spec.actors[0].outputs[0].readers = {{y, /*host=*/true}};
//   spec.actors[1].inputs = {{/*reg=*/7, /*copies=*/2, /*producer=*/x}};
//
// Threading: plain data.
#ifndef WEFT_CORE_ACTOR_SPEC_H_
#define WEFT_CORE_ACTOR_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/actor/kinds.h"
#include "core/actor/message.h"
#include "core/actor/pattern.h"

namespace weft::actor {

struct InputSpec {
  uint32_t reg = 0;  // that the REQs carry
  uint32_t copies = 1;
  // Whom to ack, and under which register: the owner of the memory, which is
  // `reg` itself unless `reg` is an alias.
  ActorId producer;
  uint32_t ack_register = ~uint32_t{0};  // default: reg
  // Copies of `reg` within one copy of `ack_register` (slices); else 1.
  uint32_t ack_divisor = 1;
  std::string pattern;  // of pattern.h; empty: every act
  // An output of this actor aliases `reg`: never acks.
  bool aliased = false;
};

struct ReaderSpec {
  ActorId actor;
  // Looks at the data on the host; counts as another stream.
  bool host = false;
};

struct OutputSpec {
  uint32_t reg = 0;
  uint32_t copies = 1;
  // ACKs that free a copy. 0: a copy is free as soon as it is given.
  uint32_t acks_per_copy = 0;
  std::string pattern;  // empty: every act
  // The memory belongs to another actor: no credits here.
  bool alias = false;
  std::vector<ReaderSpec> readers;
};

struct ActorSpec {
  ActorId id;
  ActorKind kind = ActorKind::kCompute;
  std::string name;  // the user's name, for messages to people
  uint32_t acts_per_period = 1;
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
};

struct StreamSpec {
  uint32_t rank = 0;
  uint32_t stream = 0;
  // Ordered: acts happen in `order`, cyclically; an actor appears in it as
  // often as it acts in a period. Otherwise acts happen as they become ready.
  bool ordered = false;
  std::vector<uint32_t> order;  // indices into TableSpec::actors
  // What its actors launch is done when the launch has returned, and nobody
  // looks at a message before.
  bool done_at_launch = false;
};

struct TableSpec {
  std::vector<StreamSpec> streams;
  std::vector<ActorSpec> actors;
};

}  // namespace weft::actor

#endif  // WEFT_CORE_ACTOR_SPEC_H_
