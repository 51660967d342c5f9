#include "compiler/memory/state_layout.h"

#include "absl/strings/str_cat.h"
#include "compiler/placement/device_names.h"
#include "core/base/align.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

absl::Status AddVariable(const Node& node, const Graph& graph,
                         absl::Span<const plan::Device> devices,
                         uint32_t default_device, StateLayout* layout) {
  uint32_t device = default_device;
  if (!node.device.empty()) {
    auto found = FindDevice(devices, node.device);
    if (!found.ok()) {
      return Annotate(found.status(),
                      absl::StrCat("variable '", node.name(), "'"));
    }
    device = *found;
  }
  const TensorType& type = node.output_type(0);
  auto [it, inserted] = layout->places.try_emplace(node.name());
  StatePlace& place = it->second;
  if (!inserted) {
    if (place.type != type) {
      return MakeError(
          ErrorCode::kBadGraph,
          absl::StrCat("variable '", node.name(), "' is ", type.ToString(),
                       " in program '", graph.name(), "' and ",
                       place.type.ToString(), " in one before"));
    }
    if (place.device != device) {
      return MakeError(
          ErrorCode::kBadGraph,
          absl::StrCat("variable '", node.name(), "' lies on ",
                       devices[device].name(), " in program '", graph.name(),
                       "' and on ", devices[place.device].name(),
                       " in one before"));
    }
    return absl::OkStatus();
  }
  place.type = type;
  place.device = device;
  place.bytes = AlignUp(type.num_bytes(), devices[device].alignment());
  place.offset = layout->arena_bytes[device];
  layout->arena_bytes[device] += place.bytes;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StateLayout> PlanState(absl::Span<const Graph* const> programs,
                                      absl::Span<const plan::Device> devices,
                                      absl::string_view default_device) {
  WEFT_ASSIGN_OR_RETURN(uint32_t device, FindDevice(devices, default_device));
  StateLayout layout;
  layout.arena_bytes.resize(devices.size());
  for (const Graph* graph : programs) {
    for (const Node* node : graph->Nodes()) {
      if (!node->Is(OpId::kVariable)) continue;
      WEFT_RETURN_IF_ERROR(
          AddVariable(*node, *graph, devices, device, &layout));
    }
  }
  return layout;
}

}  // namespace weft
