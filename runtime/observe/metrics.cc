#include "runtime/observe/metrics.h"

#include <cmath>
#include <utility>

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

// What stays of a history that goes on after `from_step`.
struct Kept {
  std::string text;
  std::string last_record;
  uint64_t unknown_lines = 0;
};

Kept KeepUpTo(absl::string_view text, uint64_t from_step) {
  Kept kept;
  size_t end;
  while ((end = text.find('\n')) != absl::string_view::npos) {
    const absl::string_view line = text.substr(0, end);
    uint64_t step = 0;
    const bool known = StepOf(line, &step);
    if (!known) ++kept.unknown_lines;
    if (!known || step <= from_step) absl::StrAppend(&kept.text, line, "\n");
    if (known && step <= from_step) kept.last_record = std::string(line);
    text.remove_prefix(end + 1);
  }
  return kept;
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
    Kept kept = KeepUpTo(*text, from_step);
    log->size_ = kept.text.size();
    log->last_kept_ = std::move(kept.last_record);
    log->unknown_lines_ = kept.unknown_lines;
    absl::Status status;
    if (!absl::StartsWith(*text, kept.text)) {
      status = WriteFileAtomically(os, path, kept.text);
    } else if (kept.text.size() < text->size()) {
      status = os.Truncate(path, kept.text.size());
    }
    if (!status.ok()) return Failed(path, status);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> file = os.Append(path);
  if (!file.ok()) return Failed(path, file.status());
  log->file_ = *std::move(file);
  return log;
}

absl::Status MetricsLog::Add(absl::Span<const MetricsRecord> records) {
  std::string lines;
  for (const MetricsRecord& record : records) {
    absl::StrAppend(&lines, ToJson(record), "\n");
  }
  absl::Status all = Append(lines);
  if (all.ok() || records.size() == 1) return all;
  // As many as fit.
  for (const MetricsRecord& record : records) {
    WEFT_RETURN_IF_ERROR(Append(ToJson(record) + "\n"));
  }
  return absl::OkStatus();
}

absl::Status MetricsLog::Append(absl::string_view lines) {
  WEFT_RETURN_IF_ERROR(spoilt_);
  absl::Status status = file_->Append(lines);
  if (!status.ok()) {
    absl::Status failed = Failed(path_, status);
    // Of a part that fitted. Where it stays, a later line would continue it.
    if (!os_->Truncate(path_, size_).ok()) spoilt_ = failed;
    return failed;
  }
  size_ += lines.size();
  return absl::OkStatus();
}

}  // namespace weft::observe
