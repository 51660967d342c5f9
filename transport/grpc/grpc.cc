// The plugin `grpc`: ranks of one or several machines send to each other over
// TCP.
#include "plugins/sdk/weft_transport.hpp"
#include "transport/grpc/domain.h"
#include "transport/grpc/options.h"

namespace weft_grpc {
namespace {

struct Grpc {
  static constexpr char kName[] = "grpc";
  static constexpr char kVendor[] = "weft";
  static constexpr char kVersion[] = "1.0";
  static constexpr uint32_t kWireVersion = weft_grpc::kWireVersion;
  static constexpr bool kSharedMemory = false;

  static weft_transport_info Describe() {
    return weft_grpc::Describe(Options(), /*secret=*/false);
  }
  static std::shared_ptr<weft_sdk::TransportDomain> Open(
      const weft_sdk::DomainConfig& config) {
    return std::make_shared<GrpcDomain>(config, Options::Parse(config));
  }
};

}  // namespace
}  // namespace weft_grpc

WEFT_TRANSPORT_PLUGIN(weft_grpc::Grpc, WEFT_ISA_BASELINE)
