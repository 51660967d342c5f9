// Plugins of benchmarks, wherever Bazel has put them:
//
//   const Plugin& shm = LoadPlugin("bazel-bin/transport/shm/libweft_shm.so");
//
// Threading: free functions.
#ifndef WEFT_BENCHMARKS_PLUGIN_H_
#define WEFT_BENCHMARKS_PLUGIN_H_

#include <filesystem>
#include <string>

#include "glog/logging.h"
#include "plugins/host/plugin.h"

namespace weft::benchmarks {

// Ends the program where the file is no plugin. A relative path is as of the
// current directory.
inline const Plugin& LoadPlugin(const std::string& path) {
  LoadOptions options;
  options.path_policy.allow_sticky_parents = true;
  options.path_policy.allow_links = true;
  const absl::StatusOr<const Plugin*> plugin =
      Plugin::Load(std::filesystem::absolute(path).string(), options);
  CHECK(plugin.ok()) << plugin.status();
  return **plugin;
}

}  // namespace weft::benchmarks

#endif  // WEFT_BENCHMARKS_PLUGIN_H_
