#include "core/plan/explore.h"

#include <utility>

#include "core/base/status_macros.h"
#include "core/plan/actor_spec.h"

namespace weft::plan {

absl::StatusOr<actor::Model> PlanToModel(const PlanView& view) {
  actor::Model model;
  WEFT_ASSIGN_OR_RETURN(model.spec, PlanToActorSpec(view));
  for (uint32_t r = 0; r < view.num_registers(); ++r) {
    if (view.reg(r).bytes() == 0) continue;
    actor::Memory memory;
    memory.arena = view.reg(view.root(r)).arena();
    memory.bytes = view.reg(r).bytes();
    for (uint32_t copy = 0; copy < view.reg(r).copies(); ++copy) {
      memory.offsets.push_back(view.offset(r, copy));
    }
    model.memory.emplace(r, std::move(memory));
  }
  for (uint32_t t = 0; t < view.num_tasks(); ++t) {
    const Task& task = view.task(t);
    for (uint32_t k = 0; k < static_cast<uint32_t>(task.inputs_size()); ++k) {
      if (view.writes_input({t, k})) model.written_inputs.insert({t, k});
    }
    for (uint32_t k = 0; k < static_cast<uint32_t>(task.outputs_size()); ++k) {
      if (!view.writes_output({t, k})) model.views.insert({t, k});
    }
  }
  return model;
}

}  // namespace weft::plan
