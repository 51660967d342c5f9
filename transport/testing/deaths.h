// A rank that is killed in the middle of much traffic, and what its peer has to
// see of it: for the tests of transports whose ranks are processes.
//
//   Flood(*node, 1, kLarge);   // in the process that will be killed
//   ...
//   OutliveFlood(*node, 0, kLarge, rounds, [&] { other.Kill(); });   // here
//
// Threading: one thread for each node.
#ifndef WEFT_TRANSPORT_TESTING_DEATHS_H_
#define WEFT_TRANSPORT_TESTING_DEATHS_H_

#include <cstdint>
#include <functional>

#include "transport/testing/transport_test.h"

namespace weft {

// Until `peer` is lost: messages of `large` bytes both ways, small ones to it.
void Flood(Node& node, uint32_t peer, uint64_t large);

// Takes part in the flood of `peer` for some rounds, has it killed while more
// is under way, and expects its loss: whatever can complete no more fails with
// that, and nothing is outstanding.
void OutliveFlood(Node& node, uint32_t peer, uint64_t large, int rounds,
                  const std::function<void()>& kill);

}  // namespace weft

#endif  // WEFT_TRANSPORT_TESTING_DEATHS_H_
