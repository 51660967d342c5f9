// A loaded plugin: the sections it offers, what it says of itself, and the file
// it came from.
//
//   WEFT_ASSIGN_OR_RETURN(const Plugin* cpu, Plugin::Load("cpu", options));
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
//                         Device::Open(*cpu, /*index=*/0, {}));
//
// Load() runs no byte of a file before the file has passed every check that can
// be made from outside (inspect.h has the list and the order). A plugin is
// never unloaded, so a `const Plugin*` is good until the process ends, and
// loading the same file again gives the same object, with the options of the
// first time.
//
// Threading: thread-safe.
#ifndef WEFT_PLUGINS_HOST_PLUGIN_H_
#define WEFT_PLUGINS_HOST_PLUGIN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "plugins/abi/weft_plugin.h"
#include "plugins/abi/weft_transport.h"
#include "plugins/host/services.h"

namespace weft {

// What is asked of the path of a plugin. The defaults are for installed files;
// build trees and tests loosen them.
struct PathPolicy {
  // Parents may be world-writable where they have the sticky bit (/tmp).
  bool allow_sticky_parents = false;
  // The file may be a symbolic link to another directory (runfiles trees).
  bool allow_links = false;
};

struct PluginDir {
  std::string path;
  PathPolicy policy;
};

struct LoadOptions {
  // Searched after WEFT_PLUGIN_PATH, in order: the installed plugins, each
  // directory under its own rules.
  std::vector<PluginDir> default_dirs;
  // Of the directories of WEFT_PLUGIN_PATH and of files named by their path.
  PathPolicy path_policy;
  // What the plugin reads through the host's option_get.
  std::vector<std::pair<std::string, std::string>> options;
};

// A file that Load() would look at, for `weft plugin list --explain`; or a
// directory of the search path that nothing, or nothing usable, can come from.
struct PluginCandidate {
  std::string name;      // "cpu"; empty for a directory
  std::string path;      // as found
  absl::Status verdict;  // OK: all checks short of running its code passed
  // The file that Load() takes for this name instead, and whether that one is
  // refused, so that none is loaded. Empty: this one comes first.
  std::string hidden_by;
  bool hidden_by_refused = false;
  std::string sha256;  // hex; empty where the file could not be read
  uint32_t abi_major = 0;
  uint32_t abi_minor = 0;
  uint32_t roles = 0;  // bit (section id)
  uint32_t isa = 0;    // WEFT_ISA_*

  bool is_directory() const { return name.empty(); }
  bool usable() const { return verdict.ok() && hidden_by.empty(); }
};

class Plugin {
 public:
  // `name` is a plugin's name ("cpu"), looked for in the directories of
  // WEFT_PLUGIN_PATH and then in options.default_dirs (in each: the file
  // libweft_NAME.so, then NAME/libweft_NAME.so), or, where it has a slash, the
  // absolute path of a file, which then needs no manifest.
  // Errors: kPluginNotFound, kPluginRefused (path not trusted), kPluginBroken
  // (file damaged or foreign), kPluginManifest, kPluginAbi.
  static absl::StatusOr<const Plugin*> Load(absl::string_view name,
                                            const LoadOptions& options = {});

  // A plugin that is linked into this program: a test's fake. `name` is for
  // messages. The same checks of magic, version and tables as for a file.
  static absl::StatusOr<const Plugin*> Adopt(weft_plugin_query_fn query,
                                             absl::string_view name,
                                             const LoadOptions& options = {});

  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  // Device kind, "cpu", or transport, "loopback".
  const std::string& name() const { return name_; }
  const std::string& vendor() const { return vendor_; }
  const std::string& build_id() const { return build_id_; }
  const std::string& path() const { return path_; }  // empty where adopted
  const std::string& sha256() const { return sha256_; }
  uint32_t abi_major() const { return abi_major_; }
  uint32_t abi_minor() const { return abi_minor_; }

  // The table of a section, as the plugin gave it: read a slot only with
  // WEFT_SLOT below. Null where the plugin does not offer the section.
  const void* Section(uint32_t id) const;
  uint32_t SectionMinor(uint32_t id) const;

  // Copies of the tables with null in every slot that the plugin does not have
  // (beyond its struct_size); all null where the section is missing. A plugin
  // has a device section, a transport section, or both.
  const weft_device_api& device() const { return device_; }
  const weft_compute_api& compute() const { return compute_; }
  const weft_mem2_api& mem2() const { return mem2_; }
  const weft_sync2_api& sync2() const { return sync2_; }
  const weft_transport_api& transport() const { return transport_; }
  bool has_device() const { return device_.device_open != nullptr; }
  bool has_compute() const { return compute_.kernel_launch != nullptr; }
  bool has_transport() const { return transport_.domain_open != nullptr; }

  // Host services as this plugin sees them: options, counters.
  HostServices& services() const { return *services_; }

  // Number of devices that the plugin sees now.
  uint32_t DeviceCount() const;

 private:
  Plugin() = default;
  static absl::StatusOr<std::unique_ptr<Plugin>> FromQuery(
      weft_plugin_query_fn query, absl::string_view shown,
      const LoadOptions& options);
  absl::Status ReadSections(const weft_plugin& plugin, absl::string_view shown);

  std::string name_, vendor_, build_id_, path_, sha256_;
  uint32_t abi_major_ = 0;
  uint32_t abi_minor_ = 0;
  std::vector<weft_section> sections_;
  weft_device_api device_{};
  weft_compute_api compute_{};
  weft_mem2_api mem2_{};
  weft_sync2_api sync2_{};
  weft_transport_api transport_{};
  HostServices* services_ = nullptr;  // never deleted: the plugin has it
};

// Every file in the search path, in search order, with a verdict; before the
// files of a directory, the directory itself where something is wrong with it.
// Runs none.
std::vector<PluginCandidate> ListPlugins(const LoadOptions& options = {});

// Slot `field` of a size-prefixed table: null where the table is too short.
#define WEFT_SLOT(type, table, field)                                     \
  ((table)->struct_size >= offsetof(type, field) + sizeof((table)->field) \
       ? (table)->field                                                   \
       : nullptr)

}  // namespace weft

#endif  // WEFT_PLUGINS_HOST_PLUGIN_H_
