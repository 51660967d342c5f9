// Bundles: sums over ranks that travel together, so that their number does not
// multiply with that of the messages of a sum.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_SHARDING_BUNDLES_H_
#define WEFT_COMPILER_SHARDING_BUNDLES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
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
};

// By sum, its bundle: in the order of their ids, up to `bytes` and 64 sums.
// With `narrow_wire` those that may travel as bf16 are not with the others.
std::map<int32_t, std::shared_ptr<const Bundle>> MakeBundles(
    const Graph& graph, const std::vector<int32_t>& sums, int64_t bytes,
    bool narrow_wire);

// Operands of a node, as plugins/abi has it, WEFT_MAX_OPERANDS.
inline constexpr size_t kMaxTogether = 64;

// What moves a value between ranks: gets a name and a value of the graph.
using MoveValue =
    std::function<absl::StatusOr<Value>(const std::string&, Value)>;

struct Together {
  std::string name;  // of what is made
  std::string why;
  std::string device;
  int stage = -1;
};

// Joins `parts`, makes `move` of that, and takes it apart again.
absl::StatusOr<std::vector<Value>> TravelTogether(const Together& together,
                                                  absl::Span<const Value> parts,
                                                  Graph* out,
                                                  const MoveValue& move);

// The same with parts that are one for each sum of the bundle.
absl::StatusOr<std::vector<Value>> SumTogether(const Graph& graph,
                                               const Bundle& bundle,
                                               absl::Span<const Value> parts,
                                               Graph* out,
                                               const MoveValue& sum);

}  // namespace weft

#endif  // WEFT_COMPILER_SHARDING_BUNDLES_H_
