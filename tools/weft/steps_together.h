// How far ranks run before they ask each other whether one wants to stop.
//
// Asking takes a round through the coordinator and lets the steps under way run
// out, some milliseconds in all. So they ask once in about a second of the
// slowest rank, which is also how long a request to stop waits, and after the
// first step, of which nobody knows how long it takes.
//
//   all = rendezvous->AllGather(rank, key, stop ? kStopWish : "1200000");
//   steps = StepsTogether(all);   // 833 where the others are faster; 0: stop
//
// Threading: a free function, thread-safe.
#ifndef WEFT_TOOLS_WEFT_STEPS_TOGETHER_H_
#define WEFT_TOOLS_WEFT_STEPS_TOGETHER_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace weft {

inline constexpr char kStopWish[] = "stop";

// `said`: by rank, kStopWish or the nanoseconds that a step took last, 0 where
// there was none. 0 where one wants to stop.
uint64_t StepsTogether(absl::Span<const std::string> said);

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_STEPS_TOGETHER_H_
