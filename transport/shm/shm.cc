// The plugin `shm`: ranks of one machine send to each other through memory.
#include "plugins/sdk/weft_transport.hpp"
#include "transport/shm/domain.h"
#include "transport/shm/options.h"

namespace weft_shm {
namespace {

struct Shm {
  static constexpr char kName[] = "shm";
  static constexpr char kVendor[] = "weft";
  static constexpr char kVersion[] = "1.0";
  static constexpr uint32_t kWireVersion = weft_shm::kWireVersion;
  static constexpr bool kSharedMemory = true;
  static constexpr bool kSleeps = true;

  static weft_transport_info Describe() {
    return weft_shm::Describe(Options());
  }
  static std::shared_ptr<weft_sdk::TransportDomain> Open(
      const weft_sdk::DomainConfig& config) {
    return std::make_shared<ShmDomain>(config, Options::Parse(config));
  }
};

}  // namespace
}  // namespace weft_shm

WEFT_TRANSPORT_PLUGIN(weft_shm::Shm, WEFT_ISA_BASELINE)
