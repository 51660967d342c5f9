#include "runtime/observe/run_log.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "glog/logging.h"

namespace weft::observe {

class RunLog::Sink : public google::LogSink {
 public:
  Sink(Clock& clock, std::unique_ptr<WritableFile> file, uint32_t rank,
       uint32_t world)
      : clock_(clock),
        file_(std::move(file)),
        rank_(absl::StrCat("[r", rank, "/", world, "]")) {}

  void send(google::LogSeverity severity, const char* full_filename,
            const char* base_filename, int line, const std::tm* time,
            const char* message, size_t size) override {
    Write(google::GetLogSeverityName(severity)[0], base_filename, line,
          absl::string_view(message, size));
  }

  void Write(char severity, absl::string_view file, int line,
             absl::string_view message) {
    int64_t now = clock_.UnixNs();
    std::time_t seconds = now / 1'000'000'000;
    std::tm tm{};
    gmtime_r(&seconds, &tm);
    char stamp[32];
    std::strftime(stamp, sizeof(stamp), "%Y%m%d %H:%M:%S", &tm);
    std::string text = absl::StrFormat(
        "%c%s.%06d %d %s %s:%d] %s\n", severity, stamp, now / 1000 % 1'000'000,
        syscall(SYS_gettid), rank_, file, line, message);
    MutexLock lock(&mu_);
    file_->Append(text).IgnoreError();
  }

 private:
  Clock& clock_;
  Mutex mu_;
  std::unique_ptr<WritableFile> file_ WEFT_GUARDED_BY(mu_);
  const std::string rank_;
};

RunLog::RunLog(std::unique_ptr<Sink> sink) : sink_(std::move(sink)) {
  google::AddLogSink(sink_.get());
}

RunLog::~RunLog() { google::RemoveLogSink(sink_.get()); }

absl::StatusOr<std::unique_ptr<RunLog>> RunLog::Open(Os& os, Clock& clock,
                                                     const std::string& path,
                                                     uint32_t rank,
                                                     uint32_t world) {
  absl::StatusOr<std::unique_ptr<WritableFile>> file = os.Append(path);
  if (!file.ok()) {
    return MakeError(ErrorCode::kWriteFailed, file.status().message());
  }
  return std::unique_ptr<RunLog>(
      new RunLog(std::make_unique<Sink>(clock, *std::move(file), rank, world)));
}

void RunLog::Write(absl::string_view file, int line,
                   absl::string_view message) {
  sink_->Write('I', file, line, message);
}

}  // namespace weft::observe
