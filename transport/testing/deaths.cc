#include "transport/testing/deaths.h"

#include <string>

namespace weft {
namespace {

constexpr uint64_t kToFlooder = 2, kFromFlooder = 3, kSmall = 4, kNobodys = 9;
constexpr uint64_t kSmallBytes = 100;

std::string OfFlooder(uint64_t large) { return Pattern(7, large); }

}  // namespace

void Flood(Node& node, uint32_t peer, uint64_t large) {
  const std::string ours = OfFlooder(large);
  std::string into(large, '\0');
  for (uint64_t i = 0; Up(node); ++i) {
    const uint64_t recv = node.Recv(peer, kToFlooder, &into);
    node.Send(peer, kFromFlooder, ours);
    node.Send(peer, kSmall, Pattern(i, kSmallBytes), /*urgent=*/true);
    PumpThese({&node}, [&] { return node.done(recv) || !Up(node); });
  }
}

void OutliveFlood(Node& node, uint32_t peer, uint64_t large, int rounds,
                  const std::function<void()>& kill) {
  const std::string ours = Pattern(8, large);
  std::string into(large, '\0');
  std::string small(kSmallBytes, '\0');
  for (int i = 0; i < rounds; ++i) {
    const uint64_t send = node.Send(peer, kToFlooder, ours);
    const uint64_t recv = node.Recv(peer, kFromFlooder, &into);
    const uint64_t urgent = node.Recv(peer, kSmall, &small);
    PumpThese({&node}, [&] {
      return node.done(send) && node.done(recv) && node.done(urgent);
    });
    EXPECT_EQ(into, OfFlooder(large));
    EXPECT_EQ(small, Pattern(i, kSmallBytes));
  }
  // Three that cannot complete, and two that are most likely on their way.
  const uint64_t late[] = {node.Send(peer, kNobodys, "x"),
                           node.Send(peer, kNobodys, ours),
                           node.Recv(peer, kNobodys, &small)};
  node.Send(peer, kToFlooder, ours);
  node.Recv(peer, kFromFlooder, &into);
  kill();
  PumpThese({&node}, [&] { return !Up(node); });
  EXPECT_TRUE(Is(node.Last(TransportEventKind::kEndpointDown)->status,
                 ErrorCode::kPeerLost));
  for (uint64_t cookie : late) {
    ASSERT_TRUE(node.done(cookie));
    EXPECT_TRUE(Is(node.result(cookie).status, ErrorCode::kPeerLost));
  }
  EXPECT_EQ(node.outstanding(), 0u);
}

}  // namespace weft
