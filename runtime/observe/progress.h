// Progress on stderr: one line that is rewritten on a terminal, a full line
// every ten seconds elsewhere.
//
//   step 120/1000  epoch 0.26  loss 0.4321  153200 samples/s  eta 0:12
//
//   Progress progress(&RealClock(), stderr, isatty(2), 1000, 128);
//   progress.Step(120, 0.26, 0.4321);
//   progress.Clear();   // before anything else is printed
//
// Threading: thread-compatible.
#ifndef WEFT_RUNTIME_OBSERVE_PROGRESS_H_
#define WEFT_RUNTIME_OBSERVE_PROGRESS_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "core/base/clock.h"

namespace weft::observe {

class Progress {
 public:
  // `samples`: of one step.
  Progress(Clock* clock, std::FILE* out, bool terminal, uint64_t total_steps,
           uint64_t samples)
      : clock_(clock),
        out_(out),
        terminal_(terminal),
        total_(total_steps),
        samples_(samples) {}

  // `step` updates are done. Cheap unless it is time to print.
  void Step(uint64_t step, double epoch, double loss);

  // Removes the rewritten line from a terminal.
  void Clear();

  // Time that is no training (evaluation, saving) does not count for speed.
  void Pause();

 private:
  std::string Line(uint64_t step, double epoch, double loss, double speed);

  Clock* clock_;
  std::FILE* out_;
  bool terminal_;
  uint64_t total_;
  uint64_t samples_;
  bool shown_ = false;
  int64_t last_ns_ = -1;  // of the last line or pause; -1: not started
  uint64_t last_step_ = 0;
};

// "0:12", "1:02:03".
std::string FormatDuration(double seconds);

}  // namespace weft::observe

#endif  // WEFT_RUNTIME_OBSERVE_PROGRESS_H_
