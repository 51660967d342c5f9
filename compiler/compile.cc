#include "compiler/compile.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "compiler/check/check.h"
#include "compiler/emit/emit.h"
#include "compiler/memory/registers.h"
#include "compiler/order/order.h"
#include "compiler/partition/partition.h"
#include "compiler/placement/capability_cache.h"
#include "compiler/placement/device_names.h"
#include "compiler/placement/group_updates.h"
#include "compiler/placement/placement.h"
#include "compiler/rates/rates.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/graph/verify.h"
#include "core/plan/plan.h"
#include "core/plan/plan_file.h"
#include "core/plan/print.h"
#include "core/types/literal.h"

namespace weft {
namespace {

absl::Status CheckDevices(absl::Span<const plan::Device> devices) {
  if (devices.empty()) {
    return MakeError(ErrorCode::kDeviceNotFound,
                     "no devices were given; the first must be the host");
  }
  if (!HostSees(devices[0])) {
    return MakeError(
        ErrorCode::kDeviceNotFound,
        absl::StrCat("device 0, '", devices[0].name(),
                     "', must be the host: inline and host-mapped"));
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (devices[i].name() != devices[j].name()) continue;
      return MakeError(
          ErrorCode::kBadValue,
          absl::StrCat("device '", devices[i].name(), "' is given twice"));
    }
  }
  return absl::OkStatus();
}

// The first of a constant's elements that is no position of `extent`; negative
// ones count from the end.
template <typename Index>
std::optional<std::string> OutsideOf(absl::Span<const Index> indices,
                                     int64_t extent) {
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] >= -extent && indices[i] < extent) continue;
    return absl::StrCat("index ", indices[i], " (at position ", i, ")");
  }
  return std::nullopt;
}

// A kernel would meet it in the first step, and call it its own failure.
absl::Status CheckConstantIndices(const Graph& graph) {
  for (const Node* node : graph.Nodes()) {
    const bool gather = node->Is(OpId::kGather);
    if (!gather && !node->Is(OpId::kGatherGrad)) continue;
    const Node* indices = graph.node(node->input(1));
    if (!indices->Is(OpId::kConstant)) continue;
    const OpView view = graph.View(*node);
    const Shape& indexed = (gather ? view.input(0) : view.output(0)).shape;
    int64_t axis = view.Int("axis");
    if (axis < 0) axis += indexed.rank();
    const int64_t extent = indexed.dim(axis);
    const Literal& values = indices->attrs().Find("value")->tensor();
    const std::optional<std::string> outside =
        values.type().dtype == DType::kI32
            ? OutsideOf(values.data<int32_t>(), extent)
            : OutsideOf(values.data<int64_t>(), extent);
    if (!outside.has_value()) continue;
    return view.Error(
        ErrorCode::kIndexRange,
        absl::StrCat(*outside, " of '", graph.ValueName(node->input(1)),
                     "' is outside of axis ", axis, " of ", indexed.ToString(),
                     ", which has ", extent, " elements"));
  }
  return absl::OkStatus();
}

// Where nobody reads the text, none is made.
template <typename MakeText>
void Dump(const CompileOptions& options, absl::string_view step,
          const MakeText& text) {
  if (options.dump) options.dump(step, text());
}

void Done(const CompileOptions& options, absl::string_view step) {
  if (options.done) options.done(step);
}

}  // namespace

absl::StatusOr<plan::Plan> Compile(const Graph& graph,
                                   const CompileOptions& options,
                                   const StateLayout& state,
                                   CapabilityOracle& oracle) {
  WEFT_RETURN_IF_ERROR(CheckDevices(options.devices));
  WEFT_RETURN_IF_ERROR(VerifyGraph(graph));
  WEFT_RETURN_IF_ERROR(CheckConstantIndices(graph));
  Done(options, "verify");
  CapabilityCache cache(&oracle);

  PlacementOptions placing;
  placing.devices = options.devices;
  placing.strict = options.strict;
  WEFT_ASSIGN_OR_RETURN(placing.default_device,
                        FindDevice(options.devices, options.default_device));
  WEFT_ASSIGN_OR_RETURN(Placement placement,
                        PlaceNodes(graph.Clone(), placing, state, &cache));
  WEFT_RETURN_IF_ERROR(GroupUpdates(&placement, &cache).status());
  Done(options, "placement");
  Dump(options, "placement",
       [&] { return ToString(placement, options.devices); });

  WEFT_ASSIGN_OR_RETURN(RateTable rates,
                        ClassifyRates(placement.graph, options.micro_batches));
  WEFT_ASSIGN_OR_RETURN(
      Partition parts,
      PartitionGraph(
          placement, rates, options.devices,
          options.micro_batches > 1 ? options.pipeline.phases() : 1));
  Done(options, "partition");
  OrderOptions ordering;
  ordering.register_copies = options.register_copies;
  ordering.io_copies = options.io_copies;
  ordering.launch_order_seed = options.launch_order_seed;
  ordering.max_chain_ops = options.max_chain_ops;
  ordering.pipeline = options.pipeline;
  WEFT_ASSIGN_OR_RETURN(Schedule schedule, OrderWorks(parts, ordering));
  Done(options, "order");
  Dump(options, "order", [&] { return ToString(parts, schedule); });

  EmitOptions emitting;
  emitting.program = options.program;
  emitting.graph = graph.name();
  emitting.devices = options.devices;
  emitting.estimate = options.estimate;
  emitting.rank = options.rank;
  emitting.ranks = options.ranks;
  emitting.pipeline = options.pipeline;
  WEFT_ASSIGN_OR_RETURN(plan::Plan plan,
                        EmitPlan(parts, schedule, state, emitting));
  Done(options, "emit");
  WEFT_RETURN_IF_ERROR(PlaceRegisters(&plan));
  Done(options, "memory");
  plan.set_capabilities(cache.Digest());
  plan.set_hash(plan::PlanHash(plan));
  Dump(options, "plan", [&] { return plan::PrintPlan(plan); });

  Done(options, "hash");
  WEFT_RETURN_IF_ERROR(check::CheckPlan(plan));  // and its form
  Done(options, "check");
  return plan;
}

absl::StatusOr<plan::Plan> Compile(const Graph& graph,
                                   const CompileOptions& options,
                                   CapabilityOracle& oracle) {
  WEFT_ASSIGN_OR_RETURN(StateLayout state, PlanState({&graph}, options.devices,
                                                     options.default_device));
  return Compile(graph, options, state, oracle);
}

}  // namespace weft
