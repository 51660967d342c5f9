// Bundles: sums over ranks that travel together, so that their number does not
// multiply with that of the messages of a sum.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_SHARDING_BUNDLES_H_
#define WEFT_COMPILER_SHARDING_BUNDLES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace weft {

// Sums (weft.Accumulate) of one type but for their shape. None waits for
// another: what acts for each micro-batch reads no sum over all of them.
struct Bundle {
  std::vector<int32_t> sums;
  int64_t elements = 0;
  size_t complete = 0;  // the place of its last one among all sums
};

// Operands of a node, as plugins/abi has it, WEFT_MAX_OPERANDS.
inline constexpr size_t kMaxTogether = 64;

// Whether a sum of `type` is a bundle of its own: it has more than half of
// `bytes`, and keeps no other waiting.
bool GoesAlone(const TensorType& type, int64_t bytes);

// Those of `sums`, in this order, up to `bytes` and 64 sums each; bundles in
// the order in which they are complete. With `narrow_wire` those that may
// travel as bf16 are not with the others.
std::vector<Bundle> MakeBundles(const Graph& graph,
                                const std::vector<int32_t>& sums, int64_t bytes,
                                bool narrow_wire);

// What becomes one value.
struct Together {
  std::string name;  // of what is made
  std::string why;
  std::string device;
  int stage = -1;
};

Together TogetherOf(const Graph& graph, const Bundle& bundle);

// All elements of `parts`, in a row.
absl::StatusOr<Value> Join(const Together& together,
                           absl::Span<const Value> parts, Graph* out);

// `total`, with the elements of a join of `parts`, as values of their shapes.
absl::StatusOr<std::vector<Value>> TakeApart(const Together& together,
                                             absl::Span<const Value> parts,
                                             Value total, Graph* out);

}  // namespace weft

#endif  // WEFT_COMPILER_SHARDING_BUNDLES_H_
