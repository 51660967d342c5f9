#include "runtime/session/device_oracle.h"

#include <memory>
#include <optional>

#include "runtime/execute/op_desc.h"

namespace weft::runtime {

MatchAnswer DeviceOracle::Match(uint32_t device, const plan::Kernel& kernel) {
  MatchAnswer answer;
  // What the ABI cannot describe (too many operands) no device can run.
  absl::StatusOr<std::unique_ptr<OpDesc>> desc = DescribeKernel(kernel);
  if (!desc.ok() || device >= devices_.size()) return answer;
  absl::StatusOr<std::optional<KernelMatch>> match =
      devices_[device]->Match((*desc)->desc());
  if (!match.ok()) {
    if (status_.ok()) status_ = match.status();
    return answer;
  }
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
