// Where the state of a session lies: one place per logical variable, the same
// in each of its programs (init, train, eval, save, load).
//
//   WEFT_ASSIGN_OR_RETURN(StateLayout layout,
//                         PlanState({&train, &eval, &init}, devices, "cpu:0"));
//   layout.Find("fc1/weight")->offset;
//
// The logical name is the name of the weft.Variable node. Variables of the same
// name must agree in type and device. They lie in the order of their first
// appearance, each aligned as its device wants it; nothing is shared.
//
// Threading: thread-compatible value types. Ownership: none.
#ifndef WEFT_COMPILER_MEMORY_STATE_LAYOUT_H_
#define WEFT_COMPILER_MEMORY_STATE_LAYOUT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/proto/plan.pb.h"
#include "core/types/shape.h"

namespace weft {

struct StatePlace {
  TensorType type;
  uint32_t device = 0;
  uint64_t offset = 0;  // in the device's state arena
  uint64_t bytes = 0;   // padded to the device's alignment
};

struct StateLayout {
  std::map<std::string, StatePlace, std::less<>> places;
  std::vector<uint64_t> arena_bytes;  // by device

  const StatePlace* Find(absl::string_view name) const {  // null where absent
    auto it = places.find(name);
    return it == places.end() ? nullptr : &it->second;
  }
};

// A variable without a device of its own lies on `default_device` ("" = the
// first). Errors: kBadGraph where two programs disagree (naming both types or
// devices), kDeviceNotFound.
absl::StatusOr<StateLayout> PlanState(absl::Span<const Graph* const> programs,
                                      absl::Span<const plan::Device> devices,
                                      absl::string_view default_device);

}  // namespace weft

#endif  // WEFT_COMPILER_MEMORY_STATE_LAYOUT_H_
