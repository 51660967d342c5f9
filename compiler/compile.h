// Compile: Graph + devices + capability answers -> Plan of one program. A pure
// function: equal arguments give the same plan, byte for byte.
//
//   CompileOptions options;
//   options.program = "train";
//   options.devices = {cpu, sim};           // 0 is the host
//   options.default_device = "sim:0";
//   options.micro_batches = 4;
//   WEFT_ASSIGN_OR_RETURN(
//       StateLayout state, PlanState({&train, &eval}, options.devices,
//                                    options.default_device));
//   WEFT_ASSIGN_OR_RETURN(plan::Plan plan,
//                         Compile(train, options, state, oracle));
//
// The graph is a finished logical program: gradients, accumulation and updates
// are in it (compiler/training), passes have run (compiler/pass). A node's
// device is "" (the default device), a device's name or kind, or "io": on the
// host's I/O stream, where data is decoded ahead of the computation.
//
// The steps, each with a header of its own, in the order in which they run:
//   rates/       how often a node acts; legal mixes of micro-batch and step
//   placement/   which device runs a node; decomposition and host fallback
//   partition/   nodes, variables, copies and order edges as items of work
//   order/       streams, one linear order, chains of items = tasks
//   memory/      places of registers, scratch, accumulators and state
//   emit/        the plan message
// Every plan is validated (core/plan) and proven (compiler/check) before it is
// returned.
//
// Threading: thread-safe as long as the oracle is. Ownership: none is kept.
#ifndef WEFT_COMPILER_COMPILE_H_
#define WEFT_COMPILER_COMPILE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/capability.h"
#include "compiler/memory/state_layout.h"
#include "compiler/pipeline/schedule.h"
#include "core/graph/graph.h"
#include "core/proto/plan.pb.h"

namespace weft {

struct CompileOptions {
  std::string program = "train";
  std::vector<plan::Device> devices;  // 0 is the host
  std::string default_device;         // name or kind; "" = the host
  int micro_batches = 1;              // acts of micro nodes in a period
  uint32_t rank = 0;                  // whose plan it is, of
  uint32_t ranks = 1;                 // so many
  // None, or the one that the ranks are: then the stages of micro-batch nodes
  // are phases (AssignRanks). Its micro_batches are those above.
  PipelineSpec pipeline;
  // Of registers between streams.
  int register_copies = 2;
  // At least, of those that I/O fills: what comes next is read meanwhile.
  int io_copies = 2;
  // Other values give other legal launch orders of the same work; results must
  // not depend on it.
  uint64_t launch_order_seed = 0;
  // Ops that a device has no kernel for are refused (kNoKernel) instead of run
  // on the host.
  bool strict = false;
  bool estimate = false;    // the oracle assumes, nobody asked the devices
  int max_chain_ops = 128;  // kernels of one task at most
  // Called with the state after each step that has a text form: "placement",
  // "order", "plan".
  std::function<void(absl::string_view step, absl::string_view text)> dump;
  // Called when a step is done: "verify", "placement", "partition", "order",
  // "emit", "memory", "hash", "check". For who measures them.
  std::function<void(absl::string_view step)> done;
};

// Errors: kBadGraph, kIndexRange (a constant index that no axis has), kNoKernel
// (names op, node and devices), kDeviceNotFound, kBadPlan and kPlanRefuted for
// defects of the compiler itself.
absl::StatusOr<plan::Plan> Compile(const Graph& graph,
                                   const CompileOptions& options,
                                   const StateLayout& state,
                                   CapabilityOracle& oracle);

// The state layout of this one program alone.
absl::StatusOr<plan::Plan> Compile(const Graph& graph,
                                   const CompileOptions& options,
                                   CapabilityOracle& oracle);

}  // namespace weft

#endif  // WEFT_COMPILER_COMPILE_H_
