// The smallest load for the protocol alone: a chain of actors on one ordered
// stream, each with one register of one copy, and no effect. An act costs its
// REQ, its ACK, both through the queue, and the act itself.
//
//   ActorTable table = *ActorTable::Create(ChainSpec(1000));
//   uint64_t acts = RunChain(&table, /*periods=*/100);
//
// Threading: thread-compatible. For tests and benchmarks.
#ifndef WEFT_CORE_ACTOR_TESTING_CHAIN_H_
#define WEFT_CORE_ACTOR_TESTING_CHAIN_H_

#include <cstdint>

#include "core/actor/actor.h"
#include "core/actor/spec.h"

namespace weft::actor {

// A Source, `actors` - 2 Computes and a Compute without readers.
TableSpec ChainSpec(uint32_t actors);

// Runs `periods` more periods. Returns the acts made.
uint64_t RunChain(ActorTable* table, uint64_t periods);

}  // namespace weft::actor

#endif  // WEFT_CORE_ACTOR_TESTING_CHAIN_H_
