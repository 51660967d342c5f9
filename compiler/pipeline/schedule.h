// Pipeline schedules: in which order the ranks of a pipeline work on the
// micro-batches of a step.
//
//   WEFT_ASSIGN_OR_RETURN(PhaseOrder order, PhaseOrder::Create(
//       {PipelineSchedule::k1F1B, /*stages=*/4, /*ranks=*/4,
//        /*micro_batches=*/8}));
//   order.OfRank(3);       // F3.0 B3.0 F3.1 B3.1 ...
//   order.InFlight(0, 7);  // 4: copies of what F0 leaves to B0
//
// Terms. A model is cut into S *stages*; stage s is on rank s mod R. A
// micro-batch goes forward through the stages and back, so it has 2S *phases*:
// the forward work of stage s is phase s, the backward work phase 2S-1-s. Each
// phase of a micro-batch follows the one before it. Without a pipeline (no
// stages) all work is of phase 0.
//
// Schedules, of rank r:
//   gpipe        all micro-batches forward, then all back
//   1f1b         R-1-r forward, then one forward and one back in turn: stage s
//                keeps what S-s micro-batches left, however many there are
//   interleaved  as 1f1b with several stages a rank: groups of R micro-batches
//                go through the rank's first stage, its second, and so on
//
// One order of all ranks. The orders of the ranks are merged by playing them,
// each rank taking one phase at a time as soon as the phase before it is over.
// What follows from the merged order (which copies of memory are in use at
// once) is the same on all ranks, and plans made by it can follow it, so they
// never wait for each other in a circle.
//
// Threading: free functions, thread-safe; PhaseOrder is a value.
#ifndef WEFT_COMPILER_PIPELINE_SCHEDULE_H_
#define WEFT_COMPILER_PIPELINE_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weft {

enum class PipelineSchedule : uint8_t { kGpipe, k1F1B, kInterleaved };

// "gpipe", "1f1b", "interleaved".
absl::string_view Name(PipelineSchedule schedule);
// kBadJob lists the names.
absl::StatusOr<PipelineSchedule> PipelineScheduleNamed(absl::string_view name);

struct PipelineSpec {
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  int stages = 0;  // 0: no pipeline
  int ranks = 1;
  int micro_batches = 1;

  int phases() const { return stages == 0 ? 1 : 2 * stages; }
  bool IsForward(int phase) const { return phase < stages || stages == 0; }
  int StageOf(int phase) const {
    return IsForward(phase) ? phase : 2 * stages - 1 - phase;
  }
  int RankOf(int phase) const { return StageOf(phase) % ranks; }
};

// kBadJob, naming both numbers, where the stages are no multiple of the ranks,
// where the schedule has another number of stages a rank, and where there are
// fewer micro-batches than ranks to work on them.
absl::Status CheckPipeline(const PipelineSpec& spec);

// A phase of a micro-batch.
struct PhaseAct {
  int phase = 0;
  int micro_batch = 0;
  friend bool operator==(const PhaseAct& a, const PhaseAct& b) {
    return a.phase == b.phase && a.micro_batch == b.micro_batch;
  }
};

// "F2.5": forward through stage 2, micro-batch 5; "B2.5": back.
std::string ToString(const PipelineSpec& spec, const PhaseAct& act);

class PhaseOrder {
 public:
  // Errors: those of CheckPipeline; kBadJob for numbers with which the orders
  // of the ranks would wait for each other.
  static absl::StatusOr<PhaseOrder> Create(const PipelineSpec& spec);

  const PipelineSpec& spec() const { return spec_; }
  // Of all ranks, in the one order. Micro-batches of a phase are in order.
  absl::Span<const PhaseAct> acts() const { return acts_; }
  std::vector<PhaseAct> OfRank(int rank) const;

  // How many micro-batches are at most between the start of phase `from` and
  // the end of phase `to`, `from` <= `to`.
  int InFlight(int from, int to) const;

 private:
  explicit PhaseOrder(const PipelineSpec& spec) : spec_(spec) {}
  absl::Status Merge(const std::vector<std::vector<PhaseAct>>& by_rank);

  PipelineSpec spec_;
  std::vector<PhaseAct> acts_;
  std::vector<std::vector<int>> position_;  // by phase, micro-batch: in acts_
};

}  // namespace weft

#endif  // WEFT_COMPILER_PIPELINE_SCHEDULE_H_
