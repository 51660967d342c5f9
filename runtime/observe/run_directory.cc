#include "runtime/observe/run_directory.h"

#include <unistd.h>

#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "runtime/rendezvous/rendezvous.h"

namespace weft::observe {
namespace {

std::tm Utc(Clock& clock) {
  std::time_t seconds = clock.UnixNs() / 1'000'000'000;
  std::tm tm{};
  gmtime_r(&seconds, &tm);
  return tm;
}

std::string Stamp(Clock& clock) {
  std::tm tm = Utc(clock);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S", &tm);
  return text;
}

constexpr absl::string_view kFolders[] = {"logs", "errors", "trace", "ckpt"};

// `path` and the folders above it, as far up as they are not there.
std::vector<std::string> Missing(Os& os, std::string path) {
  std::vector<std::string> missing;
  while (!path.empty() && !os.Exists(path)) {
    missing.push_back(path);
    const size_t slash = path.rfind('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
  return missing;
}

absl::Status Unwritable(const std::string& path, const absl::Status& cause) {
  return MakeError(
      ErrorCode::kUnwritableRunDir,
      absl::StrCat("run directory '", path, "': ", cause.message()));
}

}  // namespace

absl::StatusOr<RunDirectory> RunDirectory::Create(Os& os, Clock& clock,
                                                  const std::string& base,
                                                  absl::string_view name) {
  std::string stem = JoinPath(base, absl::StrCat(name, "-", Stamp(clock)));
  for (int i = 1;; ++i) {
    RunDirectory run(&os, i == 1 ? stem : absl::StrCat(stem, "-", i));
    run.made_ = Missing(os, run.path());
    if (run.made_.empty()) continue;
    absl::Status made = run.MakeFolders();
    if (made.ok()) made = run.Lock();
    if (made.ok()) return run;
    // Another run took the same name at the same time.
    if (IsError(made, ErrorCode::kRunDirInUse)) continue;
    run.Discard();
    return made;
  }
}

absl::StatusOr<RunDirectory> RunDirectory::Open(Os& os,
                                                const std::string& path) {
  RunDirectory run(&os, path);
  WEFT_RETURN_IF_ERROR(run.MakeFolders());
  WEFT_RETURN_IF_ERROR(run.Lock());
  return run;
}

void RunDirectory::Discard() {
  if (made_.empty()) return;
  if (lock_ == nullptr) {
    // Another run may have taken the name: what has something in it is its.
    for (absl::string_view folder : kFolders) {
      os_->RemoveEmptyDirectory(File(folder)).IgnoreError();
    }
    for (const std::string& folder : made_) {
      if (!os_->RemoveEmptyDirectory(folder).ok()) return;
    }
    return;
  }
  // Out of the way first: another run may be about to take the name.
  const std::string old = path_ + ".refused";
  const bool moved = os_->Rename(path_, old).ok();
  os_->RemoveAll(moved ? old : path_).IgnoreError();
  for (size_t i = 1; i < made_.size(); ++i) {
    // Somebody else has put something there meanwhile.
    if (!os_->RemoveEmptyDirectory(made_[i]).ok()) return;
  }
}

absl::Status RunDirectory::MakeFolders() {
  for (absl::string_view folder : kFolders) {
    absl::Status status = os_->MakeDirectories(File(folder));
    if (!status.ok()) return Unwritable(path_, status);
  }
  return absl::OkStatus();
}

absl::Status RunDirectory::Lock() {
  absl::StatusOr<std::unique_ptr<FileLock>> lock = os_->Lock(File("lock"));
  if (absl::IsAborted(lock.status())) {
    return MakeError(ErrorCode::kRunDirInUse,
                     absl::StrCat("run directory '", path_,
                                  "' is in use: ", lock.status().message()));
  }
  if (!lock.ok()) return Unwritable(path_, lock.status());
  lock_ = *std::move(lock);
  return absl::OkStatus();
}

absl::Status RunDirectory::Write(absl::string_view name,
                                 absl::string_view bytes) {
  absl::Status status = WriteFileAtomically(*os_, File(name), bytes);
  if (status.ok()) return status;
  return MakeError(ErrorCode::kWriteFailed, status.message());
}

std::string FailureJson(const Failure& failure, Clock& clock) {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  std::tm tm = Utc(clock);
  char time[32];
  std::strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%SZ", &tm);
  ErrorCode code = ErrorCodeOf(failure.status);
  nlohmann::ordered_json json = {
      {"code", ErrorName(code)},
      {"title", std::string(ErrorTitle(code))},
      {"message", std::string(failure.status.message())},
      {"rank", failure.rank},
      {"step", failure.step},
      {"host", host},
      {"time", time},
      {"exit_code", ExitCodeOf(failure.status)},
      {"page", absl::StrCat("docs/errors/", ErrorName(code), ".md")},
  };
  const absl::optional<absl::Cord> cause =
      failure.status.GetPayload(runtime::kCauseName);
  if (cause.has_value()) json["cause"] = std::string(*cause);
  return json.dump(2, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace weft::observe
