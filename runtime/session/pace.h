// Pace: how far a lease reaches beyond what is finished. Whoever extends it is
// woken each time, on a core that may be the only one, so of short periods it
// covers as many as finish in kAheadNs; and no more, for a run that is to stop
// goes on to the end of its lease.
//
//   Pace pace(/*least=*/2, /*most=*/32);
//   pace.Begin(first_period, NowNs());
//   lease = finished + pace.Ahead(finished, NowNs()) + 1;
//
// Threading: thread-compatible.
#ifndef WEFT_RUNTIME_SESSION_PACE_H_
#define WEFT_RUNTIME_SESSION_PACE_H_

#include <algorithm>
#include <cstdint>

namespace weft::runtime {

class Pace {
 public:
  static constexpr uint64_t kAheadNs = 10'000'000;

  Pace(uint64_t least, uint64_t most)
      : least_(least), most_(std::max(least, most)), ahead_(least) {}

  void Begin(uint64_t finished, uint64_t now_ns) {
    ahead_ = least_;
    finished_ = finished;
    at_ns_ = now_ns;
  }

  // In periods; at most twice what it was.
  uint64_t Ahead(uint64_t finished, uint64_t now_ns) {
    if (finished == finished_) return ahead_;
    const uint64_t ns = std::max<uint64_t>(now_ns - at_ns_, 1);
    const uint64_t wanted = (finished - finished_) * kAheadNs / ns;
    ahead_ = std::clamp(wanted, least_, std::min(most_, 2 * ahead_));
    finished_ = finished;
    at_ns_ = now_ns;
    return ahead_;
  }

 private:
  const uint64_t least_, most_;
  uint64_t ahead_;
  // When it looked last.
  uint64_t finished_ = 0, at_ns_ = 0;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_SESSION_PACE_H_
