// Time behind one interface, so that tests can say what time it is.
//
// Threading: RealClock() is thread-safe.
#ifndef WEFT_CORE_BASE_CLOCK_H_
#define WEFT_CORE_BASE_CLOCK_H_

#include <chrono>
#include <cstdint>

namespace weft {

class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since some fixed point; never goes back.
  virtual int64_t MonotonicNs() = 0;
  // Nanoseconds since 1970-01-01 UTC.
  virtual int64_t UnixNs() = 0;
};

inline Clock& RealClock() {
  class SystemClock : public Clock {
   public:
    int64_t MonotonicNs() override {
      return std::chrono::nanoseconds(
                 std::chrono::steady_clock::now().time_since_epoch())
          .count();
    }
    int64_t UnixNs() override {
      return std::chrono::nanoseconds(
                 std::chrono::system_clock::now().time_since_epoch())
          .count();
    }
  };
  static SystemClock* clock = new SystemClock;  // never destroyed
  return *clock;
}

}  // namespace weft

#endif  // WEFT_CORE_BASE_CLOCK_H_
