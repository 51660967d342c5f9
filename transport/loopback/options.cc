#include "transport/loopback/options.h"

namespace weft_loopback {

using weft_sdk::ParseOption;

Options Options::Parse(const weft_sdk::DomainConfig& config) {
  constexpr uint64_t kMany = 1u << 20;
  Options o;
  for (const auto& [key, value] : config.options) {
    const auto number = [&key = key, &value = value](uint64_t least,
                                                     uint64_t most) {
      return ParseOption(key, value, least, most);
    };
    if (key == "eager_max") {
      o.eager_max = number(1, kMany);
    } else if (key == "eager_credits") {
      o.eager_credits = static_cast<uint32_t>(number(1, kMany));
    } else if (key == "max_inflight") {
      o.max_inflight = static_cast<uint32_t>(number(1, kMany));
    } else if (key == "delay_max") {
      o.delay_max = static_cast<uint32_t>(number(0, kMany));
    } else if (key == "delay_seed") {
      o.delay_seed = number(0, UINT64_MAX);
    } else if (key == "lose_peer_after") {
      o.lose_peer_after = number(0, UINT64_MAX);
    } else {
      throw weft_sdk::Error(WEFT_INVALID, "unknown option '" + key + "'");
    }
  }
  return o;
}

}  // namespace weft_loopback
