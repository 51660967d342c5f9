#include "runtime/wire/ahead.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/plan/plan.h"

namespace weft::runtime {

std::vector<uint32_t> SendsAhead(
    const plan::Plan& plan,
    absl::FunctionRef<EagerBounds(const plan::Channel&)> bounds_of) {
  const auto channel = [&](uint32_t c) -> const plan::Channel& {
    return plan.channels(static_cast<int>(c));
  };
  std::vector<uint32_t> ahead(static_cast<size_t>(plan.channels_size()), 0);
  std::vector<uint32_t> by_id(ahead.size());
  std::iota(by_id.begin(), by_id.end(), 0);
  std::sort(by_id.begin(), by_id.end(), [&](uint32_t a, uint32_t b) {
    return channel(a).id() < channel(b).id();
  });
  // By peer and direction.
  std::map<std::pair<uint32_t, bool>, uint64_t> used;
  for (uint32_t c : by_id) {
    const plan::Channel& of = channel(c);
    const EagerBounds bounds = bounds_of(of);
    const uint64_t wanted = uint64_t{of.copies()} + 1;
    uint64_t& taken = used[{of.peer(), of.receives()}];
    if (plan::CarriedBytes(of) > bounds.max_bytes ||
        taken + wanted > bounds.credits / 2) {
      continue;
    }
    taken += wanted;
    ahead[c] = static_cast<uint32_t>(wanted);
  }
  return ahead;
}

}  // namespace weft::runtime
