#include "compiler/check/greedy_run.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/actor/effects.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft::check {

absl::StatusOr<GreedyRun> RunGreedily(const actor::TableSpec& spec,
                                      uint32_t periods) {
  WEFT_ASSIGN_OR_RETURN(actor::ActorTable created,
                        actor::ActorTable::Create(spec));
  GreedyRun run{std::move(created), {}, false};
  actor::ActorTable& table = run.table;
  table.SetLease(periods);
  uint64_t total = 0;
  for (uint32_t i = 0; i < table.size(); ++i) {
    total += uint64_t{table.acts_per_period(i)} * periods;
  }
  run.order.reserve(total);
  actor::Effects effects(table.effects_size());
  actor::MessageQueue queue(table.queue_bound());
  // Whoever needs no lease and no REQ (a Recv) still stops after its periods.
  auto can_act = [&](uint32_t i) {
    return table.CanAct(i) &&
           table.acts(i) < uint64_t{table.acts_per_period(i)} * periods;
  };
  auto act = [&](uint32_t i) {
    while (can_act(i)) {
      run.order.push_back(i);
      i = table.Act(i, &effects);
      for (const actor::Message& m : effects.at_launch()) queue.Push(m);
      for (const actor::Message& m : effects.at_tick()) queue.Push(m);
    }
  };
  for (uint32_t i = 0; i < table.size(); ++i) act(i);
  while (!queue.empty()) act(table.OnMessage(actor::Message(queue.Pop())));
  if (table.refused() != 0) {
    return MakeError(ErrorCode::kBadPlan,
                     absl::StrCat("message refused: ", table.refusal()));
  }
  run.complete = run.order.size() == total;
  return run;
}

}  // namespace weft::check
