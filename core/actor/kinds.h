// The kinds of actors, in one table: what is left of an actor once the patterns
// of its ports (core/actor/actor.h) have said what it does at each act. Which
// ports it may have, what it waits for, and whose order its work keeps. A row
// comes before the first use of a kind.
//
// Threading: constants.
#ifndef WEFT_CORE_ACTOR_KINDS_H_
#define WEFT_CORE_ACTOR_KINDS_H_

#include <cstddef>
#include <cstdint>

namespace weft::actor {

// Same numbers as weft.plan.Task.Kind.
enum class ActorKind : uint8_t {
  kCompute = 0,
  kSource = 1,
  kSink = 2,
  kVariable = 3,
  kSend = 4,
  kRecv = 5,
  kCollective = 6,
  kCopy = 7,
  kAccumulate = 8,
  kPost = 9,
};

struct KindRow {
  ActorKind kind;
  const char* name;
  // Acts only in periods that the lease covers.
  bool leased;
  // Its work is not in its stream's order (the session fills or reads it, a
  // wire carries it), so no message from it or to it leaves at launch, but
  // where that is done when the launch has returned (StreamSpec).
  bool late;
  // Looks at its operands on the host: a REQ to it does not, either.
  bool host_reader;
  // May lack inputs: something other than a REQ limits it.
  bool may_lack_inputs;
  uint32_t min_inputs, max_inputs;
  uint32_t min_outputs, max_outputs;
};

inline constexpr uint32_t kAnyNumber = 65535;

inline constexpr KindRow kKinds[] = {
    // Runs a chain of kernels, or nothing.
    {ActorKind::kCompute, "compute", false, false, false, false, 0, kAnyNumber,
     0, kAnyNumber},
    // Filled by the session: data, counters, checkpoints.
    {ActorKind::kSource, "source", true, true, false, true, 0, kAnyNumber, 1,
     kAnyNumber},
    // Read by the session: metrics, checkpoints.
    {ActorKind::kSink, "sink", false, true, true, false, 1, kAnyNumber, 0,
     kAnyNumber},
    // Owns state. SHARED and EXCLUSIVE phases, one output each.
    {ActorKind::kVariable, "variable", true, false, false, true, 0, 0, 1, 2},
    // Gives data to a wire, under a credit of the other end's kPost.
    {ActorKind::kSend, "send", false, true, true, false, 1, kAnyNumber, 0,
     kAnyNumber},
    // Data has come into what a kPost gave.
    {ActorKind::kRecv, "recv", false, true, false, false, 1, kAnyNumber, 0,
     kAnyNumber},
    {ActorKind::kCollective, "collective", false, false, false, false, 1,
     kAnyNumber, 1, kAnyNumber},
    // Between devices or memory kinds: input 0 to output 0, or, without
    // outputs, to input 1 (write-back into a variable).
    {ActorKind::kCopy, "copy", false, false, false, false, 1, kAnyNumber, 0,
     kAnyNumber},
    // Tree sum of input 0 over the acts of a period into output 0.
    {ActorKind::kAccumulate, "accumulate", false, false, false, false, 1,
     kAnyNumber, 1, kAnyNumber},
    // Posts a receive into its output 0 and grants the credit for it.
    {ActorKind::kPost, "post", true, true, false, true, 0, kAnyNumber, 1,
     kAnyNumber},
};

inline constexpr size_t kNumKinds = sizeof(kKinds) / sizeof(kKinds[0]);

// Pre-condition: `kind` is one of the enumerators.
constexpr const KindRow& RowOf(ActorKind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

}  // namespace weft::actor

#endif  // WEFT_CORE_ACTOR_KINDS_H_
