// The options of a shared-memory domain, by their names in weft_domain_config:
//
//   eager_max      largest SEND that is copied when posted         4096
//   eager_credits  such SENDs of an endpoint under way                64
//   max_inflight   RECVs, and larger SENDs, of an endpoint         65536
//   dir            where the directory of the socket is made
//
// Threading: a value.
#ifndef WEFT_TRANSPORT_SHM_OPTIONS_H_
#define WEFT_TRANSPORT_SHM_OPTIONS_H_

#include <cstdint>
#include <string>

#include "plugins/sdk/weft_hello.hpp"
#include "transport/shm/layout.h"

namespace weft_shm {

struct Options {
  uint64_t eager_max = 4096;
  uint32_t eager_credits = 64;
  uint32_t max_inflight = 65536;
  std::string dir;  // empty: the user's run-time directory, else /tmp

  Geometry geometry() const { return {eager_max, eager_credits}; }

  // Throws weft_sdk::Error(WEFT_INVALID) for an unknown key or a bad value.
  static Options Parse(const weft_sdk::DomainConfig& config);
};

}  // namespace weft_shm

#endif  // WEFT_TRANSPORT_SHM_OPTIONS_H_
