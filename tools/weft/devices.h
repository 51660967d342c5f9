// The devices of a rank of a job: the host, which is always the CPU plugin, and
// those that the job names (device_list.h). The first of these computes.
//
//   WEFT_ASSIGN_OR_RETURN(JobDevices devices,
//                         JobDevices::Open("sim:0", load));
//   devices.plan();        // for the compiler: devices[0] is the host
//   devices.pointers();    // for a session
//
// A kind is a plugin's name, looked for as plugins/host/plugin.h says, in the
// directories that PluginLoadOptions() gives.
//
// Errors: those of device_list.h, kDeviceNotFound, and those of Plugin::Load.
//
// Threading: thread-compatible.
#ifndef WEFT_TOOLS_WEFT_DEVICES_H_
#define WEFT_TOOLS_WEFT_DEVICES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/proto/plan.pb.h"
#include "plugins/host/device.h"
#include "plugins/host/plugin.h"
#include "tools/weft/device_list.h"

namespace weft {

// Where plugins lie: beside this program in a build tree, or in
// lib/weft/plugins of an installation. With the policy that suits such a place.
LoadOptions PluginLoadOptions();

class JobDevices {
 public:
  // Those of one rank of several: no other rank's.
  static absl::StatusOr<JobDevices> Open(absl::string_view devices,
                                         const LoadOptions& load,
                                         uint32_t rank = 0, uint32_t ranks = 1);

  const std::vector<plan::Device>& plan() const { return plan_; }
  std::vector<Device*> pointers() const;
  // Name of the device that computes.
  const std::string& compute() const { return plan_[compute_].name(); }
  const DeviceInfo& compute_info() const { return devices_[compute_]->info(); }
  // The same with what it says of itself: "cpu:0 (host processor, avx2)".
  std::string Describe() const;

 private:
  absl::Status Add(const DeviceName& name, const LoadOptions& load);

  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<plan::Device> plan_;
  size_t compute_ = 0;
};

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_DEVICES_H_
