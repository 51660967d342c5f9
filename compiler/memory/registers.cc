#include "compiler/memory/registers.h"

#include <algorithm>
#include <numeric>

#include "compiler/check/happens_before.h"
#include "compiler/memory/conflicts.h"
#include "compiler/memory/packing.h"
#include "core/base/align.h"
#include "core/base/status_macros.h"
#include "core/plan/actor_spec.h"
#include "core/plan/plan.h"

namespace weft {
namespace {

// Registers that lie in arena `arena` on their own.
std::vector<uint32_t> RegistersOf(const plan::Plan& plan, uint32_t arena) {
  std::vector<uint32_t> out;
  for (int r = 0; r < plan.registers_size(); ++r) {
    const plan::Register& reg = plan.registers(r);
    if (reg.arena() == arena && reg.alias_of() == 0 && reg.bytes() > 0) {
      out.push_back(static_cast<uint32_t>(r));
    }
  }
  return out;
}

void PlaceArena(const check::LiveRanges& live, const check::HappensBefore& hb,
                uint32_t arena, plan::Plan* plan) {
  const std::vector<uint32_t> registers = RegistersOf(*plan, arena);
  std::vector<uint32_t> copies;
  for (uint32_t r : registers) copies.push_back(plan->registers(r).copies());
  const RegisterConflicts found = FindConflicts(live, hb, registers, copies);
  std::vector<uint64_t> bytes;
  for (uint32_t r : found.registers) {
    const plan::Register& reg = plan->registers(r);
    bytes.push_back(reg.bytes() * reg.copies());
  }
  std::vector<int> order(registers.size());  // rows, by register
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return found.registers[a] < found.registers[b];
  });
  const uint32_t device = plan->arenas(arena).device();
  Packing packing = PackConflicting(bytes, plan->devices(device).alignment(),
                                    found.matrix, order);
  for (size_t i = 0; i < registers.size(); ++i) {
    plan->mutable_registers(found.registers[i])->set_offset(packing.offsets[i]);
  }
  plan->mutable_arenas(arena)->set_bytes(packing.bytes);
}

}  // namespace

absl::Status PlaceRegisters(plan::Plan* plan) {
  WEFT_ASSIGN_OR_RETURN(
      plan::PlanView view,
      plan::PlanView::Create(plan, plan::Placement::kIgnored));
  WEFT_ASSIGN_OR_RETURN(actor::TableSpec spec, plan::PlanToActorSpec(view));
  WEFT_ASSIGN_OR_RETURN(check::HappensBefore hb,
                        check::HappensBefore::Create(
                            spec, check::HappensBefore::PeriodsFor(spec)));
  check::LiveRanges live(spec, hb);
  for (int a = 0; a < plan->arenas_size(); ++a) {
    const plan::Arena::Kind kind = plan->arenas(a).kind();
    if (kind != plan::Arena::ACTIVATIONS && kind != plan::Arena::SHARED) {
      continue;
    }
    PlaceArena(live, hb, static_cast<uint32_t>(a), plan);
  }
  return absl::OkStatus();
}

std::vector<uint64_t> PlannedBytes(const plan::Plan& plan) {
  std::vector<uint64_t> out(plan.devices_size(), 0);
  for (const plan::Arena& arena : plan.arenas()) {
    out[arena.device()] += arena.bytes();
  }
  for (const plan::Constant& constant : plan.constants()) {
    out[constant.device()] += AlignUp(
        constant.data().size(), plan.devices(constant.device()).alignment());
  }
  return out;
}

}  // namespace weft
