#include "runtime/execute/accumulate.h"

#include <cstddef>

namespace weft::runtime {

uint32_t NumAccumulators(uint32_t acts) {
  uint32_t n = 1;
  while (acts >>= 1) ++n;
  return n;
}

std::vector<AccumulateStep> AccumulateSteps(uint32_t act, uint32_t acts) {
  const bool last = act + 1 == acts;
  // Buffer j is in use before this act exactly where bit j of `act` is set.
  std::vector<int> operands;
  int free = -1;  // one that is not in use, for the last act
  for (int j = 0; j < static_cast<int>(NumAccumulators(acts)); ++j) {
    bool used = act >> j & 1;
    if (!used && free < 0) free = j;
    if (used) operands.push_back(j);
    if (!used && !last) break;  // only the trailing one bits are added
  }
  const int result =
      last ? kAccumulateOutput : static_cast<int>(operands.size());
  if (operands.empty()) {
    return {{kAccumulateNothing, kAccumulateInput, result}};
  }
  // Results in between go by turns to a place that is free in this act and to
  // the first buffer, which is free once it was added.
  const int spare = last ? free : kAccumulateOutput;
  std::vector<AccumulateStep> steps;
  int sum = kAccumulateInput;
  for (size_t k = 0; k < operands.size(); ++k) {
    int to = k + 1 == operands.size() ? result
             : k % 2 == 0             ? spare
                                      : operands[0];
    steps.push_back({operands[k], sum, to});
    sum = to;
  }
  return steps;
}

}  // namespace weft::runtime
