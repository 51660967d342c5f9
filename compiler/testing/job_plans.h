// JobPlans: one graph compiled for all ranks of a job, and proved as one.
//
//   auto job = CompileJob(graph, options, where, oracle);
//   ASSERT_TRUE(job.ok()) << job.status();
//   RunPlan(job->joined, periods, seed);      // symbolic_run.h
//
// Threading: free function, thread-safe. Test only.
#ifndef WEFT_COMPILER_TESTING_JOB_PLANS_H_
#define WEFT_COMPILER_TESTING_JOB_PLANS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/capability.h"
#include "compiler/compile.h"
#include "compiler/partition/by_rank.h"
#include "core/graph/graph.h"
#include "core/proto/plan.pb.h"

namespace weft {

struct JobPlans {
  std::vector<plan::Plan> plans;  // by rank
  plan::Plan joined;              // core/plan/job.h
};

// `options` with the ranks, the micro-batches and the pipeline of `where`, and
// without a random order, which is each rank's own. Errors: those of Compile,
// JoinRanks and CheckPlan, of the whole job.
absl::StatusOr<JobPlans> CompileJob(const Graph& graph, CompileOptions options,
                                    const RankAssignment& where,
                                    CapabilityOracle& oracle);

// The same of graphs that are one for each rank already.
absl::StatusOr<JobPlans> CompileGraphs(absl::Span<const Graph> graphs,
                                       CompileOptions options,
                                       CapabilityOracle& oracle);

}  // namespace weft

#endif  // WEFT_COMPILER_TESTING_JOB_PLANS_H_
