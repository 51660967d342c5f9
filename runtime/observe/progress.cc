#include "runtime/observe/progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace weft::observe {
namespace {

constexpr int64_t kTerminalNs = 100'000'000;
constexpr int64_t kFileNs = 10'000'000'000;

}  // namespace

std::string FormatDuration(double seconds) {
  int64_t s = static_cast<int64_t>(std::max(0.0, std::min(seconds, 1e9)));
  if (s >= 3600) {
    return absl::StrFormat("%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
  }
  return absl::StrFormat("%d:%02d", s / 60, s % 60);
}

std::string Progress::Line(uint64_t step, double epoch, double loss,
                           double speed) {
  double left =
      static_cast<double>((total_ - std::min(step, total_)) * samples_) /
      std::max(speed, 1e-9);
  return absl::StrFormat(
      "step %d/%d  epoch %.2f  loss %.4f  %.0f samples/s  eta %s", step, total_,
      epoch, loss, speed, FormatDuration(left));
}

void Progress::Step(uint64_t step, double epoch, double loss) {
  int64_t now = clock_->MonotonicNs();
  if (last_ns_ < 0) {
    last_ns_ = now;
    last_step_ = step;
    return;
  }
  int64_t elapsed = now - last_ns_;
  if (elapsed < (terminal_ ? kTerminalNs : kFileNs)) return;
  double speed = static_cast<double>((step - last_step_) * samples_) /
                 (static_cast<double>(elapsed) * 1e-9);
  std::string line = Line(step, epoch, loss, speed);
  if (terminal_) {
    std::fprintf(out_, "\r\033[K%s", line.c_str());
  } else {
    std::fprintf(out_, "%s\n", line.c_str());
  }
  std::fflush(out_);
  shown_ = terminal_;
  last_ns_ = now;
  last_step_ = step;
}

void Progress::Clear() {
  if (!shown_) return;
  std::fprintf(out_, "\r\033[K");
  std::fflush(out_);
  shown_ = false;
}

void Progress::Pause() { last_ns_ = -1; }

}  // namespace weft::observe
