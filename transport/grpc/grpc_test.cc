// The suite of every transport, and what a transport between machines needs.
#include "absl/strings/str_cat.h"
#include "transport/testing/transport_test.h"

namespace weft {
namespace {

using Kind = TransportEventKind;

TransportCase Case(const std::string& name, TransportCase::Options options) {
  return {name, "grpc", "transport/grpc", options, nullptr};
}

INSTANTIATE_TEST_SUITE_P(Grpc, TransportTest,
                         testing::Values(Case("plain", {}),
                                         Case("small",
                                              {{"eager_max", "64"},
                                               {"eager_credits", "4"},
                                               {"max_inflight", "200"}})),
                         TransportCase::Name);

}  // namespace
}  // namespace weft
