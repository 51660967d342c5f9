#include "compiler/placement/device_names.h"

#include <algorithm>

#include "absl/strings/numbers.h"
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

absl::StatusOr<std::pair<int, std::string>> SplitDevice(
    absl::string_view device, absl::string_view node, int ranks) {
  if (device.size() < 2 || device[0] != 'w' || device[1] < '0' ||
      device[1] > '9') {
    return std::make_pair(-1, std::string(device));
  }
  const size_t slash = std::min(device.find('/'), device.size());
  int rank = 0;
  if (!absl::SimpleAtoi(device.substr(1, slash - 1), &rank) || rank >= ranks ||
      slash + 1 == device.size()) {
    return MakeError(
        ErrorCode::kDeviceNotFound,
        absl::StrCat("node '", node, "': '", device,
                     "' is no device of this job, which has the ranks w0 to w",
                     ranks - 1, " (expected for example w0 or w0/cpu:0)"));
  }
  std::string rest(slash == device.size() ? "" : device.substr(slash + 1));
  return std::make_pair(rank, std::move(rest));
}

std::string DeviceList(absl::Span<const plan::Device> devices) {
  return absl::StrJoin(devices, ", ",
                       [](std::string* out, const plan::Device& device) {
                         absl::StrAppend(out, device.name());
                       });
}

}  // namespace weft
