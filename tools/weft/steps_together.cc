#include "tools/weft/steps_together.h"

#include <algorithm>

#include "absl/strings/numbers.h"

namespace weft {

uint64_t StepsTogether(absl::Span<const std::string> said) {
  constexpr uint64_t kMost = 1 << 16;
  constexpr uint64_t kNanoseconds = 1'000'000'000;
  uint64_t slowest = 0;
  for (const std::string& one : said) {
    if (one == kStopWish) return 0;
    uint64_t nanoseconds = 0;
    if (absl::SimpleAtoi(one, &nanoseconds)) {
      slowest = std::max(slowest, nanoseconds);
    }
  }
  if (slowest == 0) return 1;
  return std::clamp<uint64_t>(kNanoseconds / slowest, 1, kMost);
}

}  // namespace weft
