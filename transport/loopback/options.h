// The options of a loopback domain, by their names in weft_domain_config:
//
//   eager_max        largest SEND that is copied when posted      4096
//   eager_credits    such SENDs of an endpoint under way             64
//   max_inflight     RECVs, and larger SENDs, of an endpoint      65536
//   delay_max        polls that an event is held back, at most        0
//   delay_seed       which event is held back how long                0
//   lose_peer_after  successful posts of this domain after which it is lost,
//                    as if its process had died; 0: never             0
//
// Threading: a value.
#ifndef WEFT_TRANSPORT_LOOPBACK_OPTIONS_H_
#define WEFT_TRANSPORT_LOOPBACK_OPTIONS_H_

#include <cstdint>

#include "plugins/sdk/weft_hello.hpp"

namespace weft_loopback {

struct Options {
  uint64_t eager_max = 4096;
  uint32_t eager_credits = 64;
  uint32_t max_inflight = 65536;
  uint32_t delay_max = 0;
  uint64_t delay_seed = 0;
  uint64_t lose_peer_after = 0;

  // Throws weft_sdk::Error(WEFT_INVALID) for an unknown key or a bad value.
  static Options Parse(const weft_sdk::DomainConfig& config);
};

}  // namespace weft_loopback

#endif  // WEFT_TRANSPORT_LOOPBACK_OPTIONS_H_
