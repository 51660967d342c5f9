// What came first: of the ways in which the ranks of a job ended, the one that
// the others followed from.
//
//   FirstCause cause = FindFirstCause(os, error_files, ends, told);
//   for (const std::string& line : ReportLines(cause)) ...
//     rank 2 failed first, on host n1: WEFT-6001: loss is nan at step 13 ...
//     7 other ranks stopped because of it
//     see docs/errors/WEFT-6001.md
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
  enum class Part {
    kFailed,
    kAbsent,  // the others waited for it in vain
    kEnded,   // it lost a rank of another host, perhaps: its message tells
  };

  uint32_t rank = 0;
  Part part = Part::kFailed;
  std::string message;  // "WEFT-6001: loss is nan at step 13"
  std::string where;    // ", on host n1"; with " at step 12" where the message
                        // names none; empty: not known
  // Of the rank, 128 + n for signal n. Of one that this launcher asked to end:
  // of what the coordinator was told, else that of a lost peer. Never 0.
  int exit_code = 1;
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

// What a rank that ended says of it, or else how it did: "WEFT-7001: rank 1 is
// lost: ..".
std::string WhatItSaid(Os& os, const std::string& error_directory,
                       const RankEnd& end);

// It ended only because another one did.
bool LostAPeer(const ChildEnd& end);

// "ended with exit code 7", "was killed by SIGSEGV".
std::string HowItEnded(const ChildEnd& end);

}  // namespace weft::launch

#endif  // WEFT_RUNTIME_LAUNCH_REPORT_H_
