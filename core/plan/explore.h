// A plan as the explorer's model (core/actor/explorer.h): its actors, and what
// each of their acts reads and writes.
//
//   WEFT_ASSIGN_OR_RETURN(actor::Model model, PlanToModel(view));
//   actor::Exploration run = actor::ExploreRandom(model, 3, seed);
//
// Threading: free function, thread-safe.
#ifndef WEFT_CORE_PLAN_EXPLORE_H_
#define WEFT_CORE_PLAN_EXPLORE_H_

#include "absl/status/statusor.h"
#include "core/actor/explorer.h"
#include "core/plan/plan.h"

namespace weft::plan {

absl::StatusOr<actor::Model> PlanToModel(const PlanView& view);

}  // namespace weft::plan

#endif  // WEFT_CORE_PLAN_EXPLORE_H_
