#include "compiler/placement/device_names.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"

namespace weft {

absl::StatusOr<uint32_t> FindDevice(absl::Span<const plan::Device> devices,
                                    absl::string_view name) {
  if (devices.empty()) {
    return MakeError(ErrorCode::kDeviceNotFound,
                     "no devices were given; the first must be the host");
  }
  if (name.empty() || name == kIoDevice) return 0;
  for (uint32_t i = 0; i < devices.size(); ++i) {
    if (devices[i].name() == name) return i;
  }
  for (uint32_t i = 0; i < devices.size(); ++i) {
    if (devices[i].kind() == name) return i;
  }
  return MakeError(
      ErrorCode::kDeviceNotFound,
      absl::StrCat("no device '", name, "'; there are: ", DeviceList(devices)));
}

std::string DeviceList(absl::Span<const plan::Device> devices) {
  return absl::StrJoin(devices, ", ",
                       [](std::string* out, const plan::Device& device) {
                         absl::StrAppend(out, device.name());
                       });
}

}  // namespace weft
