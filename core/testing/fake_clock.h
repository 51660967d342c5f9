// A clock that a test moves by hand.
//
// Threading: thread-compatible.
#ifndef WEFT_CORE_TESTING_FAKE_CLOCK_H_
#define WEFT_CORE_TESTING_FAKE_CLOCK_H_

#include "core/base/clock.h"

namespace weft {

class FakeClock : public Clock {
 public:
  // `unix_ns`: what UnixNs() says at the start; MonotonicNs() starts at 0.
  explicit FakeClock(int64_t unix_ns = 0) : unix_ns_(unix_ns) {}
  int64_t MonotonicNs() override { return elapsed_ns_; }
  int64_t UnixNs() override { return unix_ns_ + elapsed_ns_; }
  void AdvanceSeconds(double seconds) {
    elapsed_ns_ += static_cast<int64_t>(seconds * 1e9);
  }

 private:
  int64_t unix_ns_;
  int64_t elapsed_ns_ = 0;
};

}  // namespace weft

#endif  // WEFT_CORE_TESTING_FAKE_CLOCK_H_
