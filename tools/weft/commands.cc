#include "tools/weft/commands.h"

#include <filesystem>

#include "tools/weft/devices.h"

namespace weft {

std::string UserPath(const Environment& env, const std::string& path) {
  std::filesystem::path p(path);
  if (p.is_absolute()) return path;
  std::optional<std::string> cwd = env.Get("BUILD_WORKING_DIRECTORY");
  if (!cwd.has_value()) return path;
  return (std::filesystem::path(*cwd) / p).lexically_normal().string();
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
