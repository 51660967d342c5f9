#include "tools/weft/devices.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kHostKind = "cpu";

// A plugin beside the program is as trustworthy as the program itself, so the
// rule about sticky parents (/tmp) follows from where the program lies.
bool HasStickyParent(fs::path path) {
  for (path = path.parent_path(); path != path.root_path();
       path = path.parent_path()) {
    struct stat info;
    if (stat(path.c_str(), &info) == 0 && (info.st_mode & S_ISVTX) != 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

LoadOptions PluginLoadOptions() {
  LoadOptions options;
  std::error_code error;
  fs::path program = fs::canonical("/proc/self/exe", error);
  if (error) return options;
  fs::path dir = program.parent_path();
  // Whoever trusts a program that lies below /tmp may trust what lies beside
  // it, but nothing else there.
  PathPolicy beside;
  beside.allow_sticky_parents = HasStickyParent(program);
  for (const fs::path& candidate :
       {dir / "../lib/weft/plugins", dir / "../../devices",
        dir / "../../transport"}) {
    fs::path canonical = fs::canonical(candidate, error);
    if (!error) options.default_dirs.push_back({canonical.string(), beside});
  }
  return options;
}

absl::Status JobDevices::Add(const DeviceName& name, const LoadOptions& load) {
  WEFT_ASSIGN_OR_RETURN(const Plugin* plugin, Plugin::Load(name.kind, load));
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                        Device::Open(*plugin, name.index, name.options));
  plan::Device description;
  description.set_name(device->Name());
  description.set_kind(name.kind);
  description.set_inline_(device->info().is_inline);
  description.set_host_mapped(device->info().host_mapped);
  description.set_alignment(device->info().alignment);
  plan_.push_back(std::move(description));
  devices_.push_back(std::move(device));
  return absl::OkStatus();
}

absl::StatusOr<JobDevices> JobDevices::Open(absl::string_view devices,
                                            const LoadOptions& load,
                                            uint32_t rank, uint32_t ranks) {
  WEFT_ASSIGN_OR_RETURN(std::vector<DeviceName> names,
                        DevicesOfRank(devices, rank, ranks));
  const std::string compute = names[0].text();
  DeviceName host;
  host.kind = std::string(kHostKind);
  const auto named = std::find_if(
      names.begin(), names.end(),
      [&host](const DeviceName& n) { return n.text() == host.text(); });
  if (named != names.end()) {
    host = *named;
    names.erase(named);
  }
  names.insert(names.begin(), host);
  JobDevices out;
  for (size_t i = 0; i < names.size(); ++i) {
    WEFT_RETURN_IF_ERROR(out.Add(names[i], load));
    if (names[i].text() == compute) out.compute_ = i;
  }
  return out;
}

std::vector<Device*> JobDevices::pointers() const {
  std::vector<Device*> out;
  for (const auto& device : devices_) out.push_back(device.get());
  return out;
}

std::string JobDevices::Describe() const {
  return absl::StrCat(compute(), " (", compute_info().name, ")");
}

}  // namespace weft
