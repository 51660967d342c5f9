// Device names of a job: "cpu:0" is a device, "cpu" the first of its kind, ""
// the default, "io" the host's I/O stream (the host, too).
//
// "w1/cpu:0" is one of rank 1, "w1" any of its.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_COMPILER_PLACEMENT_DEVICE_NAMES_H_
#define WEFT_COMPILER_PLACEMENT_DEVICE_NAMES_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/proto/plan.pb.h"

namespace weft {

inline constexpr char kIoDevice[] = "io";

// Index in `devices`. "" is 0. Errors: kDeviceNotFound lists what there is.
absl::StatusOr<uint32_t> FindDevice(absl::Span<const plan::Device> devices,
                                    absl::string_view name);

// "w1/sim:0" as {1, "sim:0"}, "sim:0" as {-1, "sim:0"}. kDeviceNotFound names
// what is no rank of `ranks`; `node` is for messages.
absl::StatusOr<std::pair<int, std::string>> SplitDevice(
    absl::string_view device, absl::string_view node, int ranks);

// "cpu:0, sim:0".
std::string DeviceList(absl::Span<const plan::Device> devices);

// True where the host may read and write the device's memory directly, and its
// work is done when a call returns: operands "in host memory" need no copy.
inline bool HostSees(const plan::Device& device) {
  return device.host_mapped() && device.inline_();
}

}  // namespace weft

#endif  // WEFT_COMPILER_PLACEMENT_DEVICE_NAMES_H_
