// InterpretJob: runs the graphs of all ranks of a job together, node by node
// with the reference of each op: a weft.Recv gives what the weft.Send of its
// channel took. It is what a job over several ranks means; see interpreter.h
// for one.
//
//   std::vector<RankProgram> job(2);
//   job[0] = {&graph0, {{"x", {x0}}}, {}};
//   job[1] = {&graph1, {{"x", {x1}}}, {}};
//   WEFT_ASSIGN_OR_RETURN(std::vector<InterpretResult> r, InterpretJob(job));
//   r[1].outputs["y"][0];
//
// Threading: a free function, thread-safe.
#ifndef WEFT_CORE_REFERENCE_JOB_INTERPRETER_H_
#define WEFT_CORE_REFERENCE_JOB_INTERPRETER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/reference/interpreter.h"

namespace weft {

// One rank. Ownership: refers to the graph.
struct RankProgram {
  const Graph* graph = nullptr;
  Feeds feeds;                     // as Interpret()
  std::vector<Feeds> micro_feeds;  // as Interpret()
};

enum class JobOrder : uint8_t {
  kReady,  // a rank does whatever it can
  // A rank does its nodes in the order of Graph::TopologicalOrder and waits in
  // each weft.Recv, as it does where all lie on one ordered stream. Sends do
  // not wait.
  kInOrder,
};

// `ranks` by rank number. Errors: what MatchChannels (core/graph/channels.h)
// and Interpret() say, with the rank; kBadValue where one side of a channel has
// other micro-batches than the other; kBadGraph where ranks wait for each other
// (names what each waits for) and, with kById, for a node before its operand.
absl::StatusOr<std::vector<InterpretResult>> InterpretJob(
    absl::Span<const RankProgram> ranks, JobOrder order = JobOrder::kReady);

}  // namespace weft

#endif  // WEFT_CORE_REFERENCE_JOB_INTERPRETER_H_
