// The weft command.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "core/base/clock.h"
#include "core/base/env.h"
#include "core/base/version.h"
#include "glog/logging.h"
#include "tools/weft/address_space.h"
#include "tools/weft/command_line.h"
#include "tools/weft/commands.h"
#include "tools/weft/memory_limit.h"

namespace {

// Where one is closed, the next file that is opened would take its place, and
// messages would go into it. Writing to a stdout that was closed still fails.
void OpenStandardStreams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    if (open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY) < 0)
      return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  int64_t started_ns = weft::RealClock().MonotonicNs();
  OpenStandardStreams();
  weft::SpareAddressSpace();
  // A reader that goes away is a write error, not a death.
  std::signal(SIGPIPE, SIG_IGN);
  // So is a file that grows beyond its limit (ulimit -f).
  std::signal(SIGXFSZ, SIG_IGN);
  // The console shows warnings; a run's own file has everything (run_log.h).
  FLAGS_stderrthreshold = google::GLOG_WARNING;
  google::InitGoogleLogging(argv[0]);
  for (int severity = 0; severity < google::NUM_SEVERITIES; ++severity) {
    google::SetLogDestination(severity, "");
  }

  weft::EndWhereMemoryEnds();

  weft::CommandContext context;
  context.env = weft::Environment::FromProcess();
  context.started_ns = started_ns;
  absl::Status status = context.env.CheckWeftVariables();
  if (!status.ok()) {
    std::fputs(weft::FormatError(status).c_str(), stderr);
    return weft::ExitCodeOf(status);
  }
  weft::CommandLine line(
      "weft",
      "Trains neural networks that a job file describes, on the devices whose "
      "plugins are here.\n"
      "Only what was asked for is printed to stdout. After a failure the exit "
      "code tells whose it is:\n"
      "2 the command line's or the job's, 3 the model's, 4 the memory's, 5 a "
      "plugin's, 6 the data's\n"
      "or a checkpoint's, 7 that of a loss that is not finite, 138 a lost "
      "peer's, 141 a\n"
      "reader's who went away (| head), 1 any other's.",
      std::string(weft::kVersion));
  weft::AddTrainCommands(&line, &context);
  weft::AddRunCommand(&line, &context);
  weft::AddProfileCommand(&line, &context);
  weft::AddPlanCommands(&line, &context);
  weft::AddInfoCommands(&line, &context);
  int code = line.Main(argc, argv);
  if (!line.status().ok()) weft::LeaveErrorFile(context, line.status());
  if (context.exit_code != 0) code = context.exit_code;
  // A run that was stopped by a signal ends by that signal, as its sender
  // expects, once everything is saved.
  if (context.stop_signal != 0) {
    std::signal(context.stop_signal, SIG_DFL);
    raise(context.stop_signal);
  }
  return code;
}
