#include "core/actor/testing/chain.h"

#include <string>

#include "core/actor/effects.h"
#include "core/actor/testing/scheduler.h"

namespace weft::actor {

TableSpec ChainSpec(uint32_t actors) {
  SpecBuilder b;
  const int stream = b.Stream(/*ordered=*/true);
  b.Add("x", ActorKind::kSource, stream);
  for (uint32_t i = 1; i < actors; ++i) {
    b.Add("y" + std::to_string(i), ActorKind::kCompute, stream);
    // Not SpecBuilder::Edge, whose searches would be quadratic here.
    OutputSpec out;
    out.reg = i - 1;
    out.acks_per_copy = 1;
    out.readers = {{b.spec().actors[i].id, false}};
    b.spec().actors[i - 1].outputs.push_back(out);
    InputSpec in;
    in.reg = i - 1;
    in.producer = b.spec().actors[i - 1].id;
    b.spec().actors[i].inputs.push_back(in);
  }
  return b.Build();
}

uint64_t RunChain(ActorTable* table, uint64_t periods) {
  MessageQueue queue(table->queue_bound());
  Effects effects(table->effects_size(), &queue);
  uint64_t acts = 0;
  table->SetLease(table->lease() + periods);
  queue.Push(Message::Start(table->lease()));
  while (!queue.empty()) {
    uint32_t i = table->OnMessage(queue.Pop());
    if (i == kNoActor) i = table->leased()[0];
    while (table->CanAct(i)) {
      i = table->Act(i, &effects);
      ++acts;
      for (const Message& m : effects.at_tick()) queue.Push(m);
    }
  }
  return acts;
}

}  // namespace weft::actor
