// The explorer: runs actors under every timing, or under many, and looks at
// what each act would read. What the plan checker proves, this tries out.
//
//   Model model = ...;                       // core/plan/explore.h makes one
//   Exploration all = ExploreAll(model, /*periods=*/2, /*max_states=*/100000);
//   Exploration one = ExploreRandom(model, 3, seed);
//   if (!one.status.ok()) Replay(model, 3, one.choices);   // the same again
//
// What a timing is, is defined in timing.h: acts, starts and ends of the work
// on devices, and the arrival of messages, in every order that the rules allow.
//
// Memory holds a token per byte range: what wrote it, from what. A reader finds
// the token that its REQ promised, when it starts and still when it finishes,
// or the run fails: read too early, overwritten too early, or overlapping
// memory. The tokens that sinks read and variables keep make the digest, which
// must not depend on the timing.
//
// Also found: deadlock, a refused message, a credit that does not come home.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_ACTOR_EXPLORER_H_
#define WEFT_CORE_ACTOR_EXPLORER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "core/actor/spec.h"

namespace weft::actor {

// Where the copies of a register lie.
struct Memory {
  uint32_t arena = 0;
  uint64_t bytes = 0;
  std::vector<uint64_t> offsets;  // by copy
};

// {actor, port}.
using PortRef = std::pair<uint32_t, uint32_t>;

struct Model {
  TableSpec spec;  // all actors that its ports name
  // By register, aliases too. None, or no bytes: nothing to read.
  absl::flat_hash_map<uint32_t, Memory> memory;
  // Inputs that their actor changes in place.
  absl::flat_hash_set<PortRef> written_inputs;
  // Outputs that give on the bytes of an input unchanged.
  absl::flat_hash_set<PortRef> views;
};

struct Exploration {
  // kPlanRefuted: what went wrong, and where.
  absl::Status status;
  // What was chosen among the possible steps, from the start.
  std::vector<uint32_t> choices;
  uint64_t digest = 0;
  uint64_t states = 0;     // visited
  bool exhausted = false;  // ExploreAll: there are no others
};

// Depth first over all timings, each state once; stops at the first failure,
// or after `max_states`.
Exploration ExploreAll(const Model& model, uint32_t periods,
                       uint64_t max_states);

// One timing.
Exploration ExploreRandom(const Model& model, uint32_t periods, uint64_t seed);

// The timing that `choices` records; any after they end.
Exploration Replay(const Model& model, uint32_t periods,
                   const std::vector<uint32_t>& choices);

}  // namespace weft::actor

#endif  // WEFT_CORE_ACTOR_EXPLORER_H_
