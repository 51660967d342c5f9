// CoordinatorHub: the launcher's Hub as a Coordinator in its process.
//
//   job.hub = CoordinatorHub;
//
// Threading: that of Coordinator.
#ifndef WEFT_RUNTIME_LAUNCH_COORDINATOR_HUB_H_
#define WEFT_RUNTIME_LAUNCH_COORDINATOR_HUB_H_

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/launch/launcher.h"

namespace weft::launch {

// kBadLaunch where the port is taken.
absl::StatusOr<std::unique_ptr<Hub>> CoordinatorHub(const HubOptions& options);

}  // namespace weft::launch

#endif  // WEFT_RUNTIME_LAUNCH_COORDINATOR_HUB_H_
