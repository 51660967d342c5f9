#include "tools/weft/commands.h"

#include <filesystem>

#include "core/base/clock.h"
#include "core/base/os.h"
#include "runtime/observe/run_directory.h"
#include "runtime/rendezvous/worker_spec.h"
#include "tools/weft/devices.h"

namespace weft {

std::string UserPath(const Environment& env, const std::string& path) {
  std::filesystem::path p(path);
  if (p.is_absolute()) return path;
  std::optional<std::string> cwd = env.Get("BUILD_WORKING_DIRECTORY");
  if (!cwd.has_value()) return path;
  return (std::filesystem::path(*cwd) / p).lexically_normal().string();
}

void LeaveErrorFile(const CommandContext& context, const absl::Status& status) {
  absl::StatusOr<runtime::WorkerSpec> spec =
      runtime::WorkerSpecFrom(context.env, {});
  if (!spec.ok() || spec->error_file.empty()) return;
  if (RealOs().Exists(spec->error_file)) return;
  observe::Failure failure;
  failure.status = status;
  failure.rank = spec->rank;
  // Where even this cannot be written, stderr has it.
  WriteFileAtomically(RealOs(), spec->error_file,
                      observe::FailureJson(failure, RealClock()))
      .IgnoreError();
}

TrainOptions BaseOptions(const CommandContext& context) {
  TrainOptions options;
  options.env = context.env;
  options.started_ns = context.started_ns;
  options.plugins = PluginLoadOptions();
  options.runs_dir =
      UserPath(context.env, context.env.Get("WEFT_RUNS_DIR").value_or("runs"));
  return options;
}

}  // namespace weft
