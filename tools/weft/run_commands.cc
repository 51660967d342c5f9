// weft run: the ranks of a job as processes of this machine.

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "runtime/launch/console.h"
#include "runtime/launch/coordinator_hub.h"
#include "runtime/launch/launcher.h"
#include "runtime/observe/run_directory.h"
#include "runtime/pool/cores.h"
#include "tools/weft/commands.h"
#include "tools/weft/job.h"

namespace weft {
namespace {

constexpr uint64_t kMaxJobText = uint64_t{4} << 20;
constexpr int kUsage = 2;  // core/base/error.h

struct RunFlags {
  launch::LaunchFlags launch;
  std::string run_dir;
  std::string log_dir;
  std::string resume;
  std::vector<std::string> train;  // the job and flags of weft train
};

// Takes "NAME value" or "NAME=value" out of `args`: of flags that the launcher
// has to know, wherever they stand. As everywhere, "_" is as good as "-".
void TakeOption(const std::string& name, std::vector<std::string>* args,
                std::string* value) {
  for (size_t i = 0; i < args->size(); ++i) {
    const std::string arg = NormalizeFlag((*args)[i]);
    const auto here = args->begin() + static_cast<std::ptrdiff_t>(i);
    if (absl::StartsWith(arg, name + "=")) {
      *value = arg.substr(name.size() + 1);
      args->erase(here);
      return;
    }
    if (arg == name && i + 1 < args->size()) {
      *value = (*args)[i + 1];
      args->erase(here, here + 2);
      return;
    }
  }
}

absl::StatusOr<std::string> JobName(const std::string& path) {
  absl::StatusOr<std::string> text = RealOs().ReadFile(path, kMaxJobText);
  if (!text.ok()) {
    return MakeError(ErrorCode::kDataMissing, text.status().message());
  }
  WEFT_ASSIGN_OR_RETURN(job::Job job, ParseJob(path, *text));
  return job.name();
}

// The same on all hosts of a job, which cannot ask each other yet.
std::string SharedName(const std::string& job, const std::string& id) {
  std::string name = absl::StrCat(job, "-", id);
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-') {
      c = '_';
    }
  }
  return name;
}

class RunJob {
 public:
  RunJob(CommandContext* context, RunFlags flags)
      : context_(context), flags_(std::move(flags)) {}

  absl::Status Run() {
    TakeOption("--run-dir", &flags_.train, &flags_.run_dir);
    TakeOption("--resume", &flags_.train, &flags_.resume);
    if (flags_.train.empty() && flags_.resume.empty()) {
      return MakeError(ErrorCode::kBadValue,
                       "run needs a job file, or --resume (see --help)");
    }
    for (std::string* path :
         {&flags_.log_dir, &flags_.resume, &flags_.run_dir}) {
      if (!path->empty()) *path = UserPath(context_->env, *path);
    }
    WEFT_ASSIGN_OR_RETURN(
        launch_.options, launch::ResolveLaunch(
                             flags_.launch, runtime::AvailableCores(RealOs())));
    WEFT_RETURN_IF_ERROR(FindDirectory());
    WEFT_RETURN_IF_ERROR(MakeArguments());
    launch_.variables = context_->env.variables();
    launch_.log_directory = flags_.log_dir;
    launch_.hub = launch::CoordinatorHub;
    Announce();
    WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<launch::Console> console,
                          launch::Console::Open(STDOUT_FILENO, STDERR_FILENO));
    launch_.to_stdout = [&console](absl::string_view text) {
      console->Write(launch::Stream::kOut, text);
    };
    launch_.to_stderr = [&console](absl::string_view text) {
      console->Write(launch::Stream::kErr, text);
    };
    launch_.full = [&console] { return console->full(); };
    absl::StatusOr<launch::LaunchResult> result = launch::Launch(launch_);
    // Who has asked it to end does not wait for who has stopped reading.
    console->Finish(result.ok() && result->stop_signal != 0
                        ? kStoppedNs
                        : launch::Console::kForEver);
    if (!result.ok()) {
      if (directory_.has_value()) directory_->Discard();
      return result.status();
    }
    // As one process that is refused: its message is all there is to keep.
    const bool begun =
        RealOs().Exists(JoinPath(launch_.directory, "resolved_job.txtpb"));
    if (directory_.has_value() && !begun && result->exit_code == kUsage) {
      directory_->Discard();
    }
    context_->stop_signal = result->stop_signal;
    context_->exit_code = result->exit_code;
    // Results that nobody got are no success.
    const int lost = console->error(launch::Stream::kOut);
    if (lost == 0 || result->exit_code != 0) return absl::OkStatus();
    if (lost != EPIPE) {
      return MakeError(ErrorCode::kWriteFailed, "cannot write to stdout");
    }
    context_->exit_code = 128 + SIGPIPE;
    return absl::OkStatus();
  }

 private:
  static constexpr uint64_t kStoppedNs = 1'000'000'000;

  // On the first host this process has the directory's lock, from here to the
  // end of the last rank.
  absl::Status FindDirectory() {
    if (!flags_.resume.empty()) {
      const std::string run = RunDirectoryOf(RealOs(), flags_.resume);
      if (!run.empty()) return Open(run);
      return MakeError(ErrorCode::kCheckpointMissing,
                       absl::StrCat("'", flags_.resume,
                                    "' is no run directory and lies in none "
                                    "(no resolved_job.txtpb)"));
    }
    WEFT_ASSIGN_OR_RETURN(
        const std::string name,
        JobName(UserPath(context_->env, flags_.train.front())));
    const std::string base = flags_.run_dir.empty()
                                 ? BaseOptions(*context_).runs_dir
                                 : flags_.run_dir;
    if (launch_.options.nodes > 1) {
      return ShareDirectory(
          JoinPath(base, SharedName(name, launch_.options.job_id)));
    }
    WEFT_ASSIGN_OR_RETURN(directory_, observe::RunDirectory::Create(
                                          RealOs(), RealClock(), base, name));
    launch_.directory = directory_->path();
    return absl::OkStatus();
  }

  absl::Status Open(const std::string& path) {
    launch_.directory = path;
    if (launch_.options.node_rank > 0) return absl::OkStatus();
    WEFT_ASSIGN_OR_RETURN(directory_,
                          observe::RunDirectory::Open(RealOs(), path));
    return absl::OkStatus();
  }

  absl::Status ShareDirectory(const std::string& path) {
    if (launch_.options.node_rank == 0 &&
        RealOs().Exists(JoinPath(path, "resolved_job.txtpb"))) {
      return MakeError(
          ErrorCode::kRunDirInUse,
          absl::StrCat("'", path,
                       "' is of an earlier run: give another --rdzv-id, or go "
                       "on with --resume ",
                       path));
    }
    return Open(path);
  }

  absl::Status MakeArguments() {
    std::error_code error;
    const std::string self =
        std::filesystem::read_symlink("/proc/self/exe", error).string();
    if (error) {
      return MakeError(ErrorCode::kBadLaunch,
                       absl::StrCat("cannot find the weft command itself: ",
                                    error.message()));
    }
    launch_.argv = {self, "train"};
    if (!flags_.resume.empty()) {
      launch_.argv.push_back("--resume");
      launch_.argv.push_back(flags_.resume);
    }
    launch_.argv.insert(launch_.argv.end(), flags_.train.begin(),
                        flags_.train.end());
    return absl::OkStatus();
  }

  void Announce() const {
    const launch::LaunchOptions& options = launch_.options;
    const std::string logs = flags_.log_dir.empty()
                                 ? JoinPath(launch_.directory, "logs")
                                 : flags_.log_dir;
    std::fprintf(stderr, "weft: %u rank%s of %u here, output in %s\n",
                 options.ranks_per_node, options.ranks_per_node == 1 ? "" : "s",
                 options.ranks(), logs.c_str());
  }

  CommandContext* const context_;
  RunFlags flags_;
  launch::LaunchJob launch_;
  std::optional<observe::RunDirectory> directory_;
};

void AddLaunchFlags(Command* run, launch::LaunchFlags* flags) {
  run->Option("--nproc-per-node", &flags->nproc_per_node,
              "ranks on this host, or auto: one for each core; default 1");
  run->Option("--nnodes", &flags->nnodes, "hosts of the job; default 1");
  run->Option("--node-rank", &flags->node_rank,
              "which of the hosts this is, from 0");
  run->Option("--master-addr", &flags->master_addr,
              "the first host, as the others reach it");
  run->Option("--master-port", &flags->master_port,
              "where the ranks meet there; default 29500, on one host any");
  run->Option("--rdzv-endpoint", &flags->rdzv_endpoint,
              "HOST:PORT, in place of the two above");
  run->Option("--rdzv-backend", &flags->rdzv_backend,
              "static or c10d; both are the same here");
  run->Option("--rdzv-id", &flags->rdzv_id,
              "name of the job, the same on all hosts");
  run->Flag("--standalone", &flags->standalone, "one host, any free port");
  run->Option("--max-restarts", &flags->max_restarts,
              "how often all ranks start again after a failure, from the last "
              "checkpoint; default 0");
  run->Option("--redirects", &flags->redirects,
              "output that goes to files only: 0 none, 1 stdout, 2 stderr, 3 "
              "both, or by rank of this host, 0:3,1:2");
  run->Option("--tee", &flags->tee,
              "output that goes to files and to the console, as --redirects; "
              "default for both: all to files, the first rank and warnings to "
              "the console");
  run->Option("--grace", &flags->grace,
              "seconds that ranks have to save and to stop after a signal; "
              "default 30");
  run->Option("--secret-file", &flags->secret_file,
              "file of mode 0600 with the secret of a job on several hosts");
}

}  // namespace

void AddRunCommand(CommandLine* line, CommandContext* context) {
  auto flags = std::make_shared<RunFlags>();
  Command* run = line->Add(
      "run",
      "Trains a job on several ranks, each a process: weft run [flags] JOB "
      "[flags of weft train].\nFlags are torchrun's. The exit code is that of "
      "the rank that failed first.",
      "weft run --nproc-per-node 2 examples/fashion_mnist_mlp.txtpb --set "
      "epochs=1");
  AddLaunchFlags(run, &flags->launch);
  run->Option("--log-dir", &flags->log_dir,
              "where the ranks' output goes; default logs/ of the run");
  run->Option("--run-dir", &flags->run_dir,
              "where the run's own directory is made; default ./runs");
  run->Option("--resume", &flags->resume,
              "run directory to go on from, in place of JOB");
  run->Rest(&flags->train, &flags->resume);
  run->Run([context, flags] { return RunJob(context, *flags).Run(); });
}

}  // namespace weft
