// The devices of a job: the host, which is always the CPU plugin, and the
// device that the job names.
//
//   WEFT_ASSIGN_OR_RETURN(JobDevices devices,
//                         JobDevices::Open("sim:0", {}, env));
//   devices.plan();        // for the compiler: devices[0] is the host
//   devices.pointers();    // for a session
//
// A name is "<kind>" or "<kind>:<index>", optionally with options for the
// plugin: "sim:0?tier=T1&delay_us=5". The kind is a plugin's name, looked for
// as plugins/host/plugin.h says, in the directories that PluginDirectories()
// gives.
//
// Errors: kBadValue for a malformed name, kDeviceNotFound, and those of
// Plugin::Load.
//
// Threading: thread-compatible.
#ifndef WEFT_TOOLS_WEFT_DEVICES_H_
#define WEFT_TOOLS_WEFT_DEVICES_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/proto/plan.pb.h"
#include "plugins/host/device.h"
#include "plugins/host/plugin.h"

namespace weft {

struct DeviceName {
  std::string kind;
  uint32_t index = 0;
  std::vector<std::pair<std::string, std::string>> options;

  std::string text() const;  // "sim:0"
};

// "tier=T1&delay_us=5", as pairs. kBadValue names the option without a value.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>>
ParsePluginOptions(absl::string_view text);

absl::StatusOr<DeviceName> ParseDeviceName(absl::string_view text);

// Where plugins lie: beside this program in a build tree, or in
// lib/weft/plugins of an installation. With the policy that suits such a place.
LoadOptions PluginLoadOptions();

class JobDevices {
 public:
  static absl::StatusOr<JobDevices> Open(absl::string_view device,
                                         const LoadOptions& load);

  const std::vector<plan::Device>& plan() const { return plan_; }
  std::vector<Device*> pointers() const;
  // Name of the device that computes.
  const std::string& compute() const { return plan_.back().name(); }
  // The same with what it says of itself: "cpu:0 (host processor, avx2)".
  std::string Describe() const;

 private:
  absl::Status Add(const DeviceName& name, const LoadOptions& load);

  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<plan::Device> plan_;
};

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_DEVICES_H_
