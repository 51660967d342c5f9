// The additions of an accumulation, act by act: a binary counter whose digit j
// is a buffer with the sum of 2^j neighbouring operands.
//
//   for (const AccumulateStep& s : AccumulateSteps(act, acts)) ...
//
// The sum over n operands is the balanced binary tree over their index, older
// operand on the left; where n is no power of two the parts that are left over
// are added lowest first. No step reads the memory that it writes, so devices
// need no in-place Add; and none but those of the last act touch the output,
// whose memory may be somebody else's until then.
//
// Threading: pure functions.
#ifndef WEFT_RUNTIME_EXECUTE_ACCUMULATE_H_
#define WEFT_RUNTIME_EXECUTE_ACCUMULATE_H_

#include <cstdint>
#include <vector>

#include "core/plan/plan.h"

namespace weft::runtime {

// Buffers are 0, 1, ...; these name what else a step reads or writes.
inline constexpr int kAccumulateInput = -1;
inline constexpr int kAccumulateOutput = -2;
inline constexpr int kAccumulateNothing = -3;

// result = left + right, or result = right where left is kAccumulateNothing.
struct AccumulateStep {
  int left;
  int right;
  int result;
};

// How many buffers there are.
using plan::NumAccumulators;

// Pre-condition: act < acts.
std::vector<AccumulateStep> AccumulateSteps(uint32_t act, uint32_t acts);

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_EXECUTE_ACCUMULATE_H_
