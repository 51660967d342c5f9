// Virtual ranks: a job of several ranks in one process, each a thread with its
// own session, joined by the loopback transport. For trying jobs out, and for
// tests: the plans, the protocol and the bits are those of as many processes.
//
//   options.virtual_ranks = 4;
//   WEFT_ASSIGN_OR_RETURN(TrainResult result,
//                         TrainVirtualRanks(options, job,
//                         std::move(directory)));
//
// The result is that of rank 0. Of failures the first counts that is more than
// the loss of another rank. What all ranks would refuse leaves no directory.
//
// Threading: one run at a time.
#ifndef WEFT_TOOLS_WEFT_VIRTUAL_RANKS_H_
#define WEFT_TOOLS_WEFT_VIRTUAL_RANKS_H_

#include "absl/status/statusor.h"
#include "core/proto/job.pb.h"
#include "runtime/observe/run_directory.h"
#include "tools/weft/trainer.h"

namespace weft {

// Pre-condition: `job` is resolved, options.virtual_ranks > 1.
absl::StatusOr<TrainResult> TrainVirtualRanks(const TrainOptions& options,
                                              const job::Job& job,
                                              observe::RunDirectory directory);

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_VIRTUAL_RANKS_H_
