// DeviceOracle: the compiler's questions about kernels, asked of open devices.
// The one edge from the run-time to the compiler: this class implements
// compiler/capability.h over kernel_match.
//
//   DeviceOracle oracle({host.get(), sim.get()});
//   absl::StatusOr<plan::Plan> plan = Compile(graph, options, state, oracle);
//   WEFT_RETURN_IF_ERROR(oracle.status());   // a device failed to answer
//
// A kernel that is not deterministic counts as unsupported: equal inputs must
// give equal bits.
//
// Threading: thread-compatible. Ownership: borrows the devices.
#ifndef WEFT_RUNTIME_SESSION_DEVICE_ORACLE_H_
#define WEFT_RUNTIME_SESSION_DEVICE_ORACLE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "compiler/capability.h"
#include "core/proto/plan.pb.h"
#include "plugins/host/device.h"

namespace weft::runtime {

class DeviceOracle : public CapabilityOracle {
 public:
  // In the order of CompileOptions.devices.
  explicit DeviceOracle(std::vector<Device*> devices)
      : devices_(std::move(devices)) {}

  MatchAnswer Match(uint32_t device, const plan::Kernel& kernel) override;

  // The first failure of a device; such questions were answered "unsupported".
  const absl::Status& status() const { return status_; }

 private:
  std::vector<Device*> devices_;
  absl::Status status_;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_SESSION_DEVICE_ORACLE_H_
