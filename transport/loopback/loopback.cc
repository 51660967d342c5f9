// The plugin `loopback`: ranks of one process send to each other.
#include "plugins/sdk/weft_transport.hpp"
#include "transport/loopback/domain.h"
#include "transport/loopback/options.h"

namespace weft_loopback {
namespace {

struct Loopback {
  static constexpr char kName[] = "loopback";
  static constexpr char kVendor[] = "weft";
  static constexpr char kVersion[] = "1.0";
  static constexpr uint32_t kWireVersion = 1;
  static constexpr bool kSharedMemory = true;

  static weft_transport_info Describe() {
    return weft_loopback::Describe(Options());
  }
  static std::shared_ptr<weft_sdk::TransportDomain> Open(
      const weft_sdk::DomainConfig& config) {
    return std::make_shared<LoopbackDomain>(config, Options::Parse(config));
  }
};

}  // namespace
}  // namespace weft_loopback

WEFT_TRANSPORT_PLUGIN(weft_loopback::Loopback, WEFT_ISA_BASELINE)
