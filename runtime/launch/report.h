// What came first: of the ways in which the ranks of a job ended, the one that
// the others followed from.
//
//   FirstCause cause = FindFirstCause(os, error_files, ends, told);
//   for (const std::string& line : ReportLines(cause)) ...
//     rank 2 failed first, on host n1 at step 12: WEFT-6001: loss is nan ...
//     7 other ranks stopped because of it
//
// A rank says itself how it failed, in its error file; of one that could not,
// the coordinator or the way its process ended has to do.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_RUNTIME_LAUNCH_REPORT_H_
#define WEFT_RUNTIME_LAUNCH_REPORT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/os.h"
#include "runtime/launch/attempt.h"
#include "runtime/rendezvous/rendezvous.h"

namespace weft::launch {

struct FirstCause {
  uint32_t rank = 0;
  std::string message;  // "WEFT-6001: loss is nan at step 13"
  std::string where;    // ", on host n1 at step 12"; empty: not known
  int exit_code = 1;    // of the rank, 128 + n for signal n; never 0
  uint32_t others = 0;  // that stopped because of it
  // All would come to the same end if it were started again: what the user
  // asked for cannot be done.
  bool would_come_again = false;
};

// errors/rank_00003.json under `directory`.
std::string ErrorFile(const std::string& directory, uint32_t rank);

// `told`: what the coordinator knows, if anything. It may be of a rank of
// another host. Pre-condition: a rank has failed.
FirstCause FindFirstCause(Os& os, const std::string& error_directory,
                          const std::vector<RankEnd>& ends,
                          const std::optional<runtime::JobFailure>& told);

std::vector<std::string> ReportLines(const FirstCause& cause);

// "ended with exit code 7", "was killed by SIGSEGV".
std::string HowItEnded(const ChildEnd& end);

}  // namespace weft::launch

#endif  // WEFT_RUNTIME_LAUNCH_REPORT_H_
