#include "runtime/observe/metrics.h"

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft::observe {
namespace {

constexpr uint64_t kMaxHistory = uint64_t{1} << 32;

std::string Number(double value) {
  if (!std::isfinite(value)) return "null";
  // The shortest of these that reads back the same.
  for (int digits : {6, 9, 17}) {
    std::string text = absl::StrFormat("%.*g", digits, value);
    double back;
    if (absl::SimpleAtod(text, &back) && back == value) return text;
  }
  return "null";  // not reached: 17 digits are always enough
}

absl::Status Failed(const std::string& path, const absl::Status& cause) {
  return MakeError(ErrorCode::kWriteFailed,
                   absl::StrCat("metrics '", path, "': ", cause.message()));
}

// The step of a line that ToJson wrote; false for anything else.
bool StepOf(absl::string_view line, uint64_t* step) {
  if (!absl::ConsumePrefix(&line, "{\"step\":")) return false;
  return absl::SimpleAtoi(line.substr(0, line.find(',')), step);
}

// Bytes of the complete lines of steps up to `from_step`.
size_t KeptBytes(absl::string_view text, uint64_t from_step) {
  size_t kept = 0;
  while (true) {
    size_t end = text.find('\n', kept);
    uint64_t step;
    if (end == absl::string_view::npos ||
        !StepOf(text.substr(kept, end - kept), &step) || step > from_step) {
      return kept;
    }
    kept = end + 1;
  }
}

// Without its end. `text` is empty or ends with one.
std::string LastLine(absl::string_view text) {
  if (text.empty()) return "";
  text.remove_suffix(1);
  size_t before = text.rfind('\n');
  return std::string(
      before == absl::string_view::npos ? text : text.substr(before + 1));
}

}  // namespace

std::string ToJson(const MetricsRecord& record) {
  std::string out = absl::StrCat("{\"step\":", record.step,
                                 ",\"epoch\":", Number(record.epoch));
  for (const auto& [name, value] : record.values) {
    absl::StrAppend(&out, ",\"", name, "\":", Number(value));
  }
  return out + "}";
}

absl::StatusOr<std::unique_ptr<MetricsLog>> MetricsLog::Open(
    Os& os, const std::string& path, uint64_t from_step) {
  std::unique_ptr<MetricsLog> log(new MetricsLog(&os, path));
  if (os.Exists(path)) {
    absl::StatusOr<std::string> text = os.ReadFile(path, kMaxHistory);
    if (!text.ok()) return Failed(path, text.status());
    log->size_ = KeptBytes(*text, from_step);
    if (log->size_ < text->size()) {
      absl::Status status = os.Truncate(path, log->size_);
      if (!status.ok()) return Failed(path, status);
    }
    log->last_kept_ = LastLine(absl::string_view(*text).substr(0, log->size_));
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> file = os.Append(path);
  if (!file.ok()) return Failed(path, file.status());
  log->file_ = *std::move(file);
  return log;
}

absl::Status MetricsLog::Add(const MetricsRecord& record) {
  const std::string line = ToJson(record) + "\n";
  absl::Status status = file_->Append(line);
  if (!status.ok()) {
    os_->Truncate(path_, size_).IgnoreError();  // of a part that fitted
    return Failed(path_, status);
  }
  size_ += line.size();
  return absl::OkStatus();
}

}  // namespace weft::observe
