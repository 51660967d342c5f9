// Testing: a collective among the ranks of a job, from values to values, whose
// values are mapped or sent, compiled into plans, and these run.
//
//   const Case at = {CollectiveKind::kAllReduce, 2, HowOften::kStep};
//   JobPlans sent = MustCompile(at, CollectiveAlgorithm::kDirect, 0);
//   JobPlans mapped = MustCompile(at, CollectiveAlgorithm::kDirect, 1);
//   ExpectSame(mapped.joined, sent.joined, 12);  // under so many timings
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_COLLECTIVES_MAPPED_TESTING_H_
#define WEFT_COMPILER_COLLECTIVES_MAPPED_TESTING_H_

#include <cstdint>
#include <vector>

#include "compiler/collectives/collective.h"
#include "compiler/testing/job_plans.h"
#include "core/graph/graph.h"

namespace weft {

constexpr int kMicroBatches = 3;
constexpr int kPeriods = 3;

// How often the operand is made, and the collective done.
enum class HowOften { kStep, kMicro, kStepInMicro };

// x * 2 + 1, through the collective, times 0.25.
struct Case {
  CollectiveKind kind;
  int ranks;
  HowOften rate;
  int64_t elements = 0;    // of the operand; 0: 6 for each rank
  bool also_read = false;  // the operand has another reader
};

// An all-reduce of so many ranks, large enough to be done in place.
Case InPlaceCase(int ranks, HowOften rate, bool also_read = false);

std::vector<Graph> MakeGraphs(const Case& at, CollectiveAlgorithm algorithm,
                              int64_t mapped_bytes);
// The same nodes, but every value is sent.
std::vector<Graph> Sent(std::vector<Graph> graphs);

JobPlans MustCompile(const Case& at, const std::vector<Graph>& graphs);
JobPlans MustCompile(const Case& at, CollectiveAlgorithm algorithm,
                     int64_t mapped_bytes);

// Channels of the plan whose values are read, or written, where they lie.
int Mapped(const plan::Plan& plan);
// The first task of the kind at such a channel, or at another one.
int FindTask(const plan::Plan& plan, plan::Task::Kind kind, bool mapped);

// Both plans give the same, the one under so many timings.
void ExpectSame(const plan::Plan& mapped, const plan::Plan& sent,
                uint64_t timings);

}  // namespace weft

#endif  // WEFT_COMPILER_COLLECTIVES_MAPPED_TESTING_H_
