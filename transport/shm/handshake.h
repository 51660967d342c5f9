// What two domains say to each other before there is a connection.
//
//   connector                          listener
//     kHello: token of the address --->  same user? the token? the hello?
//     <--- kWelcome: bell, segment       or kRefuse, and the end
//     kJoin: bell, segment ----------->  or kRefuse
//     CONNECTED                          ACCEPTED
//
// Each is one packet of one size, with two descriptors or none. The frame is
// the same in all versions of the plugin, so that they can refuse each other.
//
// Threading: free functions over values.
#ifndef WEFT_TRANSPORT_SHM_HANDSHAKE_H_
#define WEFT_TRANSPORT_SHM_HANDSHAKE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/sdk/weft_hello.hpp"
#include "transport/shm/door.h"
#include "transport/shm/layout.h"
#include "transport/shm/os.h"

namespace weft_shm {

enum class FrameKind : uint32_t { kHello = 1, kWelcome, kJoin, kRefuse };

// As it travels. Both sides are one machine: no byte order.
struct RawFrame {
  uint32_t magic;
  uint32_t plugin_version;
  uint32_t kind;
  uint32_t rank;
  uint32_t world;
  uint32_t wire_version;
  uint64_t epoch;
  uint64_t incarnation;
  uint64_t plan_hash;
  uint64_t eager_max;
  uint32_t credits;
  uint32_t max_inflight;
  uint32_t expected;
  uint32_t reason;
  uint32_t job_size;
  uint32_t message_size;
  char token[kTokenChars];    // of the sender
  char address[kTokenChars];  // kHello: of the address
  char job[128];
  char message[224];
};

struct Frame {
  FrameKind kind = FrameKind::kHello;
  weft_sdk::Hello hello;
  Geometry geometry;
  uint32_t max_inflight = 0;
  std::string token;
  std::string address;  // of kHello
  uint32_t expected = 0;
  weft_sdk::Refusal refusal;  // of kRefuse
  std::vector<Fd> fds;        // received
};

// False where it did not go out.
bool SendFrame(const Fd& socket, const Frame& frame,
               const std::vector<int>& fds);

enum class Received { kFrame, kNothingYet, kGone, kGarbage };
Received ReceiveFrame(const Fd& socket, Frame* frame);

}  // namespace weft_shm

#endif  // WEFT_TRANSPORT_SHM_HANDSHAKE_H_
