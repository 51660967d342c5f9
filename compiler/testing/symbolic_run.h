// SymbolicRun: executes a plan on symbols instead of numbers, under a random
// schedule, and compares with the graph that it was compiled from.
//
//   std::map<...> wanted = EvaluateGraph(graph, micro_batches, periods);
//   auto got = RunPlan(plan, periods, seed);
//   EXPECT_EQ(*got, wanted);
//
// A symbol is a hash of how a value was computed: op, attributes, symbols of
// the operands, or source, period and micro-batch. Memory is modelled byte
// range by byte range, so a value that was overwritten too early, read too
// early or taken from the wrong place gives another symbol at some sink. The
// real actors decide what may act; which of them does, and when messages
// arrive, is random (core/actor/timing.h). Devices that are not inline do their
// work later than the launch, in order, and their ticks come later still.
//
// Threading: free functions, thread-safe. Test only.
#ifndef WEFT_COMPILER_TESTING_SYMBOLIC_RUN_H_
#define WEFT_COMPILER_TESTING_SYMBOLIC_RUN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/proto/plan.pb.h"

namespace weft {

// By sink ("name"), and by variable ("state/name") for the final state: symbols
// in the order of acts.
using Symbols = std::map<std::string, std::vector<uint64_t>>;

// Ops: computing ones, Variable, DataSource, Counter, Constant, Accumulate,
// Output and SgdUpdate-like updates.
absl::StatusOr<Symbols> EvaluateGraph(const Graph &graph, int micro_batches,
                                      int periods);

// kPlanRefuted where the plan stops before `periods` are done.
absl::StatusOr<Symbols> RunPlan(const plan::Plan &plan, int periods,
                                uint64_t seed);

}  // namespace weft

#endif  // WEFT_COMPILER_TESTING_SYMBOLIC_RUN_H_
