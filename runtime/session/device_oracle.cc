#include "runtime/session/device_oracle.h"

#include <memory>
#include <optional>

#include "runtime/execute/op_desc.h"

namespace weft::runtime {

MatchAnswer DeviceOracle::Match(uint32_t device, const plan::Kernel& kernel) {
  MatchAnswer answer;
  if (device >= devices_.size()) return answer;
  // What cannot be described to a device (a tensor as attribute) it cannot run.
  absl::StatusOr<std::unique_ptr<OpDesc>> desc = DescribeKernel(kernel);
  if (!desc.ok()) return answer;
  absl::StatusOr<std::optional<KernelMatch>> match =
      devices_[device]->Match((*desc)->desc());
  if (!match.ok()) {
    if (status_.ok()) status_ = match.status();
    return answer;
  }
  // Kernels that may give other bits for equal inputs are not used.
  if (!match->has_value() || !(*match)->deterministic) return answer;
  answer.supported = true;
  answer.workspace_bytes = (*match)->workspace_bytes;
  answer.host_in = (*match)->host_in;
  answer.host_out = (*match)->host_out;
  answer.in_place = (*match)->in_place;
  answer.cost_ns = (*match)->cost_ns;
  return answer;
}

}  // namespace weft::runtime
