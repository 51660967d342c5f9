// DeviceOracle: what opened devices answer when the compiler asks what they can
// run (compiler/capability.h). The one place where the run-time knows the
// compiler.
//
//   DeviceOracle oracle({cpu.get(), sim.get()});   // as CompileOptions.devices
//   WEFT_ASSIGN_OR_RETURN(plan::Plan plan, Compile(graph, options, oracle));
//   WEFT_RETURN_IF_ERROR(oracle.status());         // a device that failed
//
// Threading: thread-compatible. Ownership: borrows the devices.
#ifndef WEFT_RUNTIME_SESSION_DEVICE_ORACLE_H_
#define WEFT_RUNTIME_SESSION_DEVICE_ORACLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "compiler/capability.h"
#include "plugins/host/device.h"

namespace weft::runtime {

class DeviceOracle : public CapabilityOracle {
 public:
  explicit DeviceOracle(std::vector<Device*> devices)
      : devices_(std::move(devices)) {}

  // A device that fails to answer counts as one without the kernel; the first
  // such failure is kept.
  MatchAnswer Match(uint32_t device, const plan::Kernel& kernel) override;

  const absl::Status& status() const { return status_; }

 private:
  const std::vector<Device*> devices_;
  absl::Status status_;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_SESSION_DEVICE_ORACLE_H_
