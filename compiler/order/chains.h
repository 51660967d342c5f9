// Chains: which kernels become one task. See order.h for the rule.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_ORDER_CHAINS_H_
#define WEFT_COMPILER_ORDER_CHAINS_H_

#include <vector>

#include "absl/types/span.h"
#include "compiler/partition/partition.h"

namespace weft {

// Works that act together, in order. A phase of a variable is a unit of its
// own.
struct Unit {
  std::vector<int> works;
  int stream = 0;
  int acts = 1;
  Section section = Section::kMicro;
  int phase = 0;  // of a pipeline
};

// In the order of their first works. `linear` is a linear order of all works.
std::vector<Unit> FormChains(const Partition& parts,
                             absl::Span<const int> linear, int max_chain_ops);

}  // namespace weft

#endif  // WEFT_COMPILER_ORDER_CHAINS_H_
