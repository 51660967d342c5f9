#include "runtime/launch/launcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/descriptors.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/status_macros.h"
#include "runtime/launch/attempt.h"
#include "runtime/launch/process.h"
#include "runtime/launch/report.h"
#include "runtime/rendezvous/host_port.h"
#include "runtime/rendezvous/job_secret.h"
#include "runtime/rendezvous/worker_spec.h"

namespace weft::launch {
namespace {

constexpr absl::string_view kSecretVariable = "WEFT_SECRET_FD";
// Descriptors of the launcher itself with a coordinator, of each rank here, and
// of each that is connected to the coordinator.
constexpr uint64_t kOwnDescriptors = 32;
constexpr uint64_t kDescriptorsPerRank = 4;
constexpr uint64_t kDescriptorsPerConnection = 2;

absl::Status ReserveFor(const LaunchOptions& options) {
  return ReserveDescriptors(
      kOwnDescriptors + kDescriptorsPerRank * options.ranks_per_node +
          (options.node_rank == 0 ? kDescriptorsPerConnection * options.ranks()
                                  : 0),
      absl::StrCat("the launcher of ", options.ranks_per_node, " of ",
                   options.ranks(), " ranks"));
}

class Launcher {
 public:
  explicit Launcher(const LaunchJob& job) : job_(job), options_(job.options) {}

  absl::StatusOr<LaunchResult> Run() {
    WEFT_RETURN_IF_ERROR(Prepare());
    AdoptOrphans();
    LaunchResult result;
    while (true) {
      const absl::StatusOr<bool> again = RunOnce(&result);
      // What the ranks have started and left behind, however it ended.
      KillOrphans();
      WEFT_RETURN_IF_ERROR(again.status());
      if (!*again) return result;
      ++result.restarts;
      Say(absl::StrCat("restart ", result.restarts, " of ",
                       options_.max_restarts,
                       ": all ranks start again from the last checkpoint"));
    }
  }

 private:
  absl::Status Prepare() {
    WEFT_RETURN_IF_ERROR(ReserveFor(options_));
    logs_ = job_.log_directory.empty() ? JoinPath(job_.directory, "logs")
                                       : job_.log_directory;
    errors_ = JoinPath(job_.directory, "errors");
    for (const std::string& folder : {logs_, errors_}) {
      absl::Status made = job_.os->MakeDirectories(folder);
      if (!made.ok()) {
        return MakeError(ErrorCode::kUnwritableRunDir, made.message());
      }
    }
    // Before anything has threads: they block what this one does.
    WEFT_ASSIGN_OR_RETURN(signals_, SignalGate::Open());
    if (options_.secret_file.empty()) {
      WEFT_ASSIGN_OR_RETURN(secret_, runtime::NewJobSecret());
    } else {
      runtime::WorkerSpec spec;
      spec.secret_file = options_.secret_file;
      WEFT_ASSIGN_OR_RETURN(secret_, runtime::ReadJobSecret(spec));
    }
    job_id_ = options_.job_id;
    if (job_id_.empty()) {
      WEFT_ASSIGN_OR_RETURN(const Secret random, runtime::NewJobSecret());
      job_id_ = std::string(random.view().substr(0, 16));
    }
    return absl::OkStatus();
  }

  // Whether all are to start again.
  absl::StatusOr<bool> RunOnce(LaunchResult* result) {
    std::unique_ptr<Hub> hub;
    std::string address = options_.coordinator;
    if (options_.node_rank == 0 && options_.ranks() > 1) {
      WEFT_ASSIGN_OR_RETURN(
          hub, job_.hub({options_.coordinator, options_.ranks(), job_id_,
                         result->restarts, secret_}));
      address = hub->address();
    }
    WEFT_ASSIGN_OR_RETURN(
        const runtime::HostPort meet,
        runtime::ParseHostPort("the coordinator's address", address, 0));
    AttemptOptions attempt = Attempt();
    for (uint32_t i = 0; i < options_.ranks_per_node; ++i) {
      attempt.ranks.push_back(Rank(i, meet, result->restarts));
    }
    attempt.on_failure = [&hub](const RankEnd& end) {
      if (hub == nullptr) return;
      hub->Fail(end.rank, MakeError(ErrorCode::kPeerLost,
                                    absl::StrCat("rank ", end.rank, " ",
                                                 HowItEnded(end.end))));
    };
    // Whom it lost may be stopped, and is given time to end.
    attempt.on_wait = [this](const RankEnd& end) {
      if (!LostAPeer(end.end)) return;
      Say(absl::StrCat("rank ", end.rank,
                       " stopped: ", WhatItSaid(*job_.os, errors_, end),
                       "; waiting for the others to end"));
    };
    WEFT_ASSIGN_OR_RETURN(AttemptEnd end, RunAttempt(attempt));
    std::optional<runtime::JobFailure> told;
    if (hub != nullptr) told = hub->failure();
    return Conclude(end, told, result);
  }

  absl::StatusOr<bool> Conclude(const AttemptEnd& end,
                                const std::optional<runtime::JobFailure>& told,
                                LaunchResult* result) {
    result->exit_code = 0;
    result->stop_signal = 0;
    if (!end.failed) {
      for (const RankEnd& rank : end.ranks) {
        if (!rank.end.ok()) result->stop_signal = end.stop_signal;
      }
      return false;
    }
    const FirstCause cause = FindFirstCause(*job_.os, errors_, end.ranks, told);
    result->exit_code = cause.exit_code;
    for (const std::string& line : ReportLines(cause)) Say(line);
    if (end.stop_signal != 0) return false;
    if (result->restarts < options_.max_restarts) {
      if (!cause.would_come_again) return true;
      Say("no restart: this would come again");
    }
    return false;
  }

  AttemptOptions Attempt() const {
    AttemptOptions attempt;
    attempt.streams = options_.streams;
    attempt.grace_ns = options_.grace_ns;
    attempt.told_ns = job_.told_ns;
    attempt.asked_ns = job_.asked_ns;
    attempt.signals = signals_.get();
    attempt.os = job_.os;
    attempt.clock = job_.clock;
    attempt.to_stdout = job_.to_stdout;
    attempt.to_stderr = job_.to_stderr;
    attempt.full = job_.full;
    return attempt;
  }

  RankStart Rank(uint32_t local_rank, const runtime::HostPort& meet,
                 uint64_t restart) const {
    RankStart start;
    start.local_rank = local_rank;
    start.rank = options_.first_rank() + local_rank;
    start.output_file =
        JoinPath(logs_, absl::StrFormat("rank_%05d.out", start.rank));
    start.error_file = ErrorFile(errors_, start.rank);
    // That of an earlier attempt would be taken for this one's.
    job_.os->RemoveAll(start.error_file).IgnoreError();
    std::map<std::string, std::string> variables = job_.variables;
    variables["RANK"] = absl::StrCat(start.rank);
    variables["WORLD_SIZE"] = absl::StrCat(options_.ranks());
    variables["LOCAL_RANK"] = absl::StrCat(local_rank);
    variables["LOCAL_WORLD_SIZE"] = absl::StrCat(options_.ranks_per_node);
    variables["GROUP_RANK"] = absl::StrCat(options_.node_rank);
    variables["MASTER_ADDR"] = meet.host;
    variables["MASTER_PORT"] = absl::StrCat(meet.port);
    variables["TORCHELASTIC_RUN_ID"] = job_id_;
    variables["TORCHELASTIC_RESTART_COUNT"] = absl::StrCat(restart);
    variables["TORCHELASTIC_MAX_RESTARTS"] =
        absl::StrCat(options_.max_restarts);
    variables.erase("TORCHELASTIC_USE_AGENT_STORE");
    variables["WEFT_LAUNCHER"] = "env";
    variables["WEFT_COORDINATOR"] = runtime::JoinHostPort(meet.host, meet.port);
    variables["WEFT_ERROR_FILE"] = start.error_file;
    variables["WEFT_JOIN_RUN"] = job_.directory;
    variables.erase("WEFT_SECRET_FILE");
    variables.erase(std::string(kSecretVariable));
    for (const auto& [name, value] : variables) {
      start.child.env.push_back(absl::StrCat(name, "=", value));
    }
    start.child.argv = job_.argv;
    start.child.secret = secret_;
    start.child.secret_variable = std::string(kSecretVariable);
    return start;
  }

  void Say(const std::string& line) const {
    job_.to_stderr(absl::StrCat("weft: ", Printable(line), "\n"));
  }

  const LaunchJob& job_;
  const LaunchOptions& options_;
  std::string logs_;
  std::string errors_;
  Secret secret_;
  std::string job_id_;
  std::unique_ptr<SignalGate> signals_;
};

}  // namespace

absl::StatusOr<LaunchResult> Launch(const LaunchJob& job) {
  return Launcher(job).Run();
}

}  // namespace weft::launch
