// What a run reports of itself: one record per training step or evaluation,
// kept as metrics.jsonl in the run directory (one JSON object a line) and shown
// as progress.
//
//   {"step":120,"epoch":0.256,"loss":0.4321,"learning_rate":0.1}
//   {"step":469,"epoch":1.0,"eval_loss":0.5012,"eval_accuracy":0.8211}
//
// Numbers are written so that they read back as the same double. A resumed run
// continues the file: lines beyond the step it resumes from are taken out
// first, so that a step never stands in the history twice. Lines that are none
// of these records stay, but for a part of a line at the end.
//
// What is added is in the file when Add returns, whole records, so that whoever
// watches sees them and a full disk stops a run that it cannot report.
//
// Threading: thread-compatible.
#ifndef WEFT_RUNTIME_OBSERVE_METRICS_H_
#define WEFT_RUNTIME_OBSERVE_METRICS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/os.h"

namespace weft::observe {

struct MetricsRecord {
  uint64_t step = 0;  // updates done, so the first step's record has 1
  double epoch = 0;
  std::vector<std::pair<std::string, double>> values;  // in this order
};

// One line, without the end of line. NaN and infinities are JSON null.
std::string ToJson(const MetricsRecord& record);

class MetricsLog {
 public:
  // Opens `path`, keeping the records of steps up to `from_step`.
  // Errors: kWriteFailed.
  static absl::StatusOr<std::unique_ptr<MetricsLog>> Open(
      Os& os, const std::string& path, uint64_t from_step);

  // The last record that Open() kept, as its line; empty where there is none.
  const std::string& last_kept() const { return last_kept_; }

  // Lines that Open() kept without knowing what they are.
  uint64_t unknown_lines() const { return unknown_lines_; }

  // Appends a line each to the file, in one write where all fit, and whole or
  // not at all. kWriteFailed; where a part of a line could not be taken back,
  // from then on.
  absl::Status Add(absl::Span<const MetricsRecord> records);
  absl::Status Add(const MetricsRecord& record) {
    return Add(absl::MakeConstSpan(&record, 1));
  }

 private:
  MetricsLog(Os* os, std::string path) : os_(os), path_(std::move(path)) {}
  absl::Status Append(absl::string_view lines);

  Os* os_;
  std::string path_;
  std::string last_kept_;
  uint64_t unknown_lines_ = 0;
  uint64_t size_ = 0;  // of the file, complete lines
  std::unique_ptr<WritableFile> file_;
  absl::Status spoilt_;  // the file may end with a part of a line
};

}  // namespace weft::observe

#endif  // WEFT_RUNTIME_OBSERVE_METRICS_H_
