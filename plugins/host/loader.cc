// Plugin::Load and ListPlugins: where plugins are looked for, and how one comes
// into the process.

#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <sys/auxv.h>

#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/os.h"
#include "core/base/status_macros.h"
#include "plugins/host/inspect.h"
#include "plugins/host/plugin.h"
#include "plugins/host/trusted_path.h"

namespace weft {
namespace {

constexpr char kPathVariable[] = "WEFT_PLUGIN_PATH";
constexpr absl::string_view kPrefix = "libweft_";
constexpr absl::string_view kSuffix = ".so";

// Plugins stay until the process ends, and so does this.
struct Loaded {
  Mutex mu;
  std::map<std::string, std::unique_ptr<Plugin>> by_path WEFT_GUARDED_BY(mu);
  std::vector<std::unique_ptr<Plugin>> adopted WEFT_GUARDED_BY(mu);
};
Loaded& Registry() {
  static Loaded* loaded = new Loaded;
  return *loaded;
}

// Directories of the environment, then the caller's. A program that runs with
// more rights than its user does not listen to the user's environment.
std::vector<PluginDir> SearchDirs(const LoadOptions& options) {
  std::vector<PluginDir> dirs;
  const std::optional<std::string> variable =
      Environment::FromProcess().Get(kPathVariable);
  if (variable.has_value() && getauxval(AT_SECURE) == 0) {
    for (absl::string_view dir :
         absl::StrSplit(*variable, ':', absl::SkipEmpty())) {
      dirs.push_back({std::string(dir), options.path_policy});
    }
  }
  dirs.insert(dirs.end(), options.default_dirs.begin(),
              options.default_dirs.end());
  return dirs;
}

absl::Status CheckDir(const std::string& dir) {
  if (absl::StartsWith(dir, "/")) return absl::OkStatus();
  return MakeError(
      ErrorCode::kPluginRefused,
      absl::StrCat("plugin directory '", dir, "' is not absolute (",
                   kPathVariable, " and the like take absolute ones only)"));
}

std::string FileOf(absl::string_view name) {
  return absl::StrCat(kPrefix, name, kSuffix);
}

// A file, with the rules that it was found under.
absl::StatusOr<PluginDir> FindFile(const std::string& name,
                                   const LoadOptions& options) {
  std::vector<std::string> searched;
  for (const PluginDir& dir : SearchDirs(options)) {
    WEFT_RETURN_IF_ERROR(CheckDir(dir.path));
    for (const std::string& path :
         {JoinPath(dir.path, FileOf(name)),
          JoinPath(JoinPath(dir.path, name), FileOf(name))}) {
      if (RealOs().Exists(path)) return PluginDir{path, dir.policy};
    }
    searched.push_back(dir.path);
  }
  return MakeError(
      ErrorCode::kPluginNotFound,
      absl::StrCat("plugin '", name, "': no ", FileOf(name), " in ",
                   searched.empty() ? "any directory (none was given)"
                                    : absl::StrJoin(searched, ", ")));
}

// Puts back where the calling thread may run: OpenMP, which oneDNN brings
// along, binds the thread that loads it where OMP_PROC_BIND is set, and every
// thread that is started later would share that one processor.
class KeepAffinity {
 public:
  KeepAffinity() : known_(sched_getaffinity(0, sizeof(set_), &set_) == 0) {}
  ~KeepAffinity() {
    if (known_) sched_setaffinity(0, sizeof(set_), &set_);
  }
  KeepAffinity(const KeepAffinity&) = delete;
  KeepAffinity& operator=(const KeepAffinity&) = delete;

 private:
  cpu_set_t set_;
  bool known_;
};

// The entry of the object at `path`, and of no other object.
absl::StatusOr<weft_plugin_query_fn> OpenEntry(const std::string& path) {
  KeepAffinity keep_affinity;
  // NOW: a missing symbol shows here and not in the middle of training.
  void* object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (object == nullptr) {
    const char* why = dlerror();
    return MakeError(ErrorCode::kPluginBroken,
                     absl::StrCat(path, ": ", why == nullptr ? "?" : why));
  }
  void* entry = dlsym(object, "weft_plugin_query");
  link_map* expected = nullptr;
  link_map* found = nullptr;
  Dl_info info;
  if (entry == nullptr || dlinfo(object, RTLD_DI_LINKMAP, &expected) != 0 ||
      dladdr1(entry, &info, reinterpret_cast<void**>(&found),
              RTLD_DL_LINKMAP) == 0 ||
      found != expected) {
    return MakeError(ErrorCode::kPluginBroken,
                     absl::StrCat(path, ": weft_plugin_query comes from ",
                                  "another object"));
  }
  return reinterpret_cast<weft_plugin_query_fn>(entry);
}

// The note said what the tables must now show.
absl::Status CheckRoles(const Plugin& plugin, uint32_t roles,
                        const std::string& path) {
  for (uint32_t id = 1; id < 32; ++id) {
    const bool noted = (roles & (1u << id)) != 0;
    if (noted == (plugin.Section(id) != nullptr)) continue;
    return MakeError(
        ErrorCode::kPluginManifest,
        absl::StrCat(path, ": section '", RoleNames(1u << id)[0], "' is ",
                     noted ? "in its note but not in its table"
                           : "in its table but not in its note"));
  }
  return absl::OkStatus();
}

// Adds what `dir` holds, files before subdirectories, both by name. An error
// says what is wrong with the directory; files are added all the same, since
// Load() looks at them and refuses them.
absl::Status ListDir(const PluginDir& dir, std::vector<std::string>* paths) {
  absl::StatusOr<std::vector<std::string>> names = RealOs().List(dir.path);
  if (!names.ok()) {
    return MakeError(ErrorCode::kPluginNotFound, names.status().message());
  }
  for (const std::string& name : *names) {
    if (absl::StartsWith(name, kPrefix) && absl::EndsWith(name, kSuffix)) {
      paths->push_back(JoinPath(dir.path, name));
    }
  }
  for (const std::string& name : *names) {
    const std::string path = JoinPath(JoinPath(dir.path, name), FileOf(name));
    if (RealOs().Exists(path)) paths->push_back(path);
  }
  WEFT_RETURN_IF_ERROR(CheckTrustedDirectory(dir.path, dir.policy));
  if (!paths->empty()) return absl::OkStatus();
  return MakeError(
      ErrorCode::kPluginNotFound,
      absl::StrCat("'", dir.path, "': holds no plugin (", FileOf("NAME"),
                   " or NAME/", FileOf("NAME"), ")"));
}

PluginCandidate Inspect(const std::string& path, const PathPolicy& policy) {
  InspectedFile file;
  PluginCandidate c;
  c.verdict = InspectPlugin(path, /*needs_manifest=*/true, policy, &file);
  c.name = file.name;
  c.path = path;
  c.sha256 = file.sha256;
  if (file.elf.note.has_value()) {
    c.abi_major = file.elf.note->abi_major;
    c.abi_minor = file.elf.note->abi_minor;
    c.roles = file.elf.note->roles;
    c.isa = file.elf.note->isa;
  }
  return c;
}

}  // namespace

absl::StatusOr<const Plugin*> Plugin::Load(absl::string_view name,
                                           const LoadOptions& options) {
  const bool by_path = absl::StrContains(name, '/');
  PluginDir found{std::string(name), options.path_policy};
  if (!by_path) {
    WEFT_ASSIGN_OR_RETURN(found, FindFile(found.path, options));
  }
  Loaded& loaded = Registry();
  MutexLock lock(&loaded.mu);
  WEFT_ASSIGN_OR_RETURN(const std::string real,
                        TrustedPath(found.path, found.policy));
  auto it = loaded.by_path.find(real);
  if (it != loaded.by_path.end()) return it->second.get();
  InspectedFile file;
  WEFT_RETURN_IF_ERROR(
      InspectPlugin(found.path, !by_path, found.policy, &file));
  WEFT_ASSIGN_OR_RETURN(weft_plugin_query_fn query, OpenEntry(file.path));
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Plugin> plugin,
                        FromQuery(query, file.path, options));
  WEFT_RETURN_IF_ERROR(CheckRoles(*plugin, file.elf.note->roles, file.path));
  if (!by_path && plugin->name() != name) {
    return MakeError(ErrorCode::kPluginManifest,
                     absl::StrCat(file.path, ": plugin '", name,
                                  "' calls itself '", plugin->name(), "'"));
  }
  plugin->path_ = file.path;
  plugin->sha256_ = file.sha256;
  return (loaded.by_path[file.path] = std::move(plugin)).get();
}

absl::StatusOr<const Plugin*> Plugin::Adopt(weft_plugin_query_fn query,
                                            absl::string_view name,
                                            const LoadOptions& options) {
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Plugin> plugin,
                        FromQuery(query, name, options));
  Loaded& loaded = Registry();
  MutexLock lock(&loaded.mu);
  loaded.adopted.push_back(std::move(plugin));
  return loaded.adopted.back().get();
}

std::vector<PluginCandidate> ListPlugins(const LoadOptions& options) {
  std::vector<PluginCandidate> candidates;
  std::map<std::string, const PluginCandidate> first;  // by name
  for (const PluginDir& dir : SearchDirs(options)) {
    std::vector<std::string> paths;
    absl::Status checked = CheckDir(dir.path);
    if (checked.ok()) checked = ListDir(dir, &paths);
    if (!checked.ok()) {
      PluginCandidate refused;
      refused.path = dir.path;
      refused.verdict = std::move(checked);
      candidates.push_back(std::move(refused));
    }
    for (const std::string& path : paths) {
      PluginCandidate c = Inspect(path, dir.policy);
      const auto& [it, is_first] = first.emplace(c.name, c);
      if (!is_first) {
        c.hidden_by = it->second.path;
        c.hidden_by_refused = !it->second.verdict.ok();
      }
      candidates.push_back(std::move(c));
    }
  }
  return candidates;
}

}  // namespace weft
