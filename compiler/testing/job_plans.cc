#include "compiler/testing/job_plans.h"

#include <utility>

#include "compiler/check/check.h"
#include "core/base/status_macros.h"
#include "core/plan/job.h"

namespace weft {

absl::StatusOr<JobPlans> CompileGraphs(absl::Span<const Graph> graphs,
                                       CompileOptions options,
                                       CapabilityOracle& oracle) {
  options.launch_order_seed = 0;
  options.ranks = static_cast<uint32_t>(graphs.size());
  JobPlans job;
  for (size_t rank = 0; rank < graphs.size(); ++rank) {
    options.rank = static_cast<uint32_t>(rank);
    WEFT_ASSIGN_OR_RETURN(plan::Plan plan,
                          Compile(graphs[rank], options, oracle));
    job.plans.push_back(std::move(plan));
  }
  std::vector<const plan::Plan*> plans;
  for (const plan::Plan& plan : job.plans) plans.push_back(&plan);
  WEFT_ASSIGN_OR_RETURN(job.joined, plan::JoinRanks(plans));
  WEFT_RETURN_IF_ERROR(check::CheckPlan(job.joined));
  return job;
}

absl::StatusOr<JobPlans> CompileJob(const Graph& graph, CompileOptions options,
                                    const RankAssignment& where,
                                    CapabilityOracle& oracle) {
  options.micro_batches = where.micro_batches;
  options.pipeline = where.pipeline;
  std::vector<Graph> graphs;
  for (int rank = 0; rank < where.ranks; ++rank) {
    WEFT_ASSIGN_OR_RETURN(Graph mine, GraphOfRank(graph, where, rank));
    graphs.push_back(std::move(mine));
  }
  return CompileGraphs(graphs, options, oracle);
}

}  // namespace weft
