#include "runtime/execute/accumulate.h"

#include <cstddef>

namespace weft::runtime {

std::vector<AccumulateStep> AccumulateSteps(uint32_t act, uint32_t acts) {
  const bool last = act + 1 == acts;
  const int buffers = static_cast<int>(NumAccumulators(acts));
  // Buffer j is in use before this act exactly where bit j of `act` is set.
  auto used = [act](int j) { return (act >> j & 1) != 0; };
  // Only the trailing one bits are added, but for the last act.
  std::vector<int> operands;
  for (int j = 0; j < buffers && (last || used(j)); ++j) {
    if (used(j)) operands.push_back(j);
  }
  const int result =
      last ? kAccumulateOutput : static_cast<int>(operands.size());
  if (operands.empty()) {
    return {{kAccumulateNothing, kAccumulateInput, result}};
  }
  // Where the first sum in between goes: a buffer that is free, or else the
  // place of the result. From the second one on the first two buffers, which
  // were added, are free.
  int spare = result;
  for (int j = 0; j < buffers; ++j) {
    if (!used(j) && j != result) spare = j;
  }
  std::vector<AccumulateStep> steps;
  int sum = kAccumulateInput;
  for (size_t k = 0; k < operands.size(); ++k) {
    int to = k == 0 ? spare : operands[(k - 1) % 2];
    if (k + 1 == operands.size() && sum != result) to = result;
    steps.push_back({operands[k], sum, to});
    sum = to;
  }
  if (sum != result) steps.push_back({kAccumulateNothing, sum, result});
  return steps;
}

}  // namespace weft::runtime
