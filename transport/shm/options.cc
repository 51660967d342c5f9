#include "transport/shm/options.h"

namespace weft_shm {

using weft_sdk::ParseOption;

Options Options::Parse(const weft_sdk::DomainConfig& config) {
  constexpr uint64_t kMany = 1u << 20;
  Options o;
  for (const auto& [key, value] : config.options) {
    if (key == "eager_max") {
      o.eager_max = ParseOption(key, value, 1, kMaxEager);
    } else if (key == "eager_credits") {
      o.eager_credits =
          static_cast<uint32_t>(ParseOption(key, value, 1, kMaxCredits));
    } else if (key == "max_inflight") {
      o.max_inflight = static_cast<uint32_t>(ParseOption(key, value, 1, kMany));
    } else if (key == "dir") {
      if (value.empty() || value[0] != '/') {
        throw weft_sdk::Error(
            WEFT_INVALID, "option dir=" + value + " is not an absolute path");
      }
      o.dir = value;
    } else {
      throw weft_sdk::Error(WEFT_INVALID, "unknown option '" + key + "'");
    }
  }
  return o;
}

}  // namespace weft_shm
