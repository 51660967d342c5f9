// A rank that is a process: it meets the others at a coordinator, agrees with
// them on what must be the same, and trains its part.
//
//   options.worker = spec;      // worker_spec.h
//   WEFT_ASSIGN_OR_RETURN(TrainResult result, TrainProcessRank(options));
//
// What virtual ranks do as threads of one process (virtual_ranks.h), each does
// in its own here; the plans, the protocol and the bits are the same. Rank 0
// makes the run directory and tells the others; where no launcher has started a
// coordinator, it runs in the process of rank 0.
//
// Errors. The rank that fails ends with its own error; the others with
// kPeerLost, which names it and says why, within moments, wherever they are.
// What is wrong with the launch as such (kBadLaunch) is the error of all.
//
// Threading: one run at a time.
#ifndef WEFT_TOOLS_WEFT_PROCESS_RANK_H_
#define WEFT_TOOLS_WEFT_PROCESS_RANK_H_

#include "absl/status/statusor.h"
#include "tools/weft/trainer.h"

namespace weft {

// Pre-condition: options.worker has a value.
absl::StatusOr<TrainResult> TrainProcessRank(const TrainOptions& options);

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_PROCESS_RANK_H_
