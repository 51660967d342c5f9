// Agreement: members that should have the same value but computed it with other
// bits, as different devices do, take that of the first member.
//
//   std::vector<OwnValue> own = {{lr, &mesh, node.device, node.stage}};
//   WEFT_ASSIGN_OR_RETURN(std::vector<Value> agreed,
//                         TakeFromFirst(own, options, &graph));
//
// All members call it with the same list but for their own values. Values of
// one dtype and place travel together, up to `bundle_bytes`, by broadcasts
// (compiler/collectives). What the other members computed is not read.
//
// Threading: a free function; as the graph.
#ifndef WEFT_COMPILER_SHARDING_AGREE_H_
#define WEFT_COMPILER_SHARDING_AGREE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/collectives/cost.h"
#include "core/graph/graph.h"
#include "core/mesh/mesh.h"

namespace weft {

struct OwnValue {
  Value value;                 // of `out`, of the step rate
  const Mesh* mesh = nullptr;  // whose members agree
  std::string device;          // where it is read
  int stage = -1;
};

struct AgreeOptions {
  int member = 0;
  // By mesh: nodes of `out` that members act before they wait for the first.
  // Among them have to be all that the first waits for.
  std::map<const Mesh*, std::vector<int32_t>> after;
  Topology topology;
  std::vector<std::vector<int>> hosts;
  int64_t bundle_bytes = 0;
};

// One for each, in their order.
absl::StatusOr<std::vector<Value>> TakeFromFirst(
    absl::Span<const OwnValue> values, const AgreeOptions& options, Graph* out);

}  // namespace weft

#endif  // WEFT_COMPILER_SHARDING_AGREE_H_
