#include "tools/weft/devices.h"

#include <sys/stat.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kHostKind = "cpu";

absl::Status BadName(absl::string_view text, absl::string_view why) {
  return MakeError(ErrorCode::kBadValue,
                   absl::StrCat("device '", text, "': ", why,
                                "; expected kind, kind:index or "
                                "kind:index?option=value"));
}

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

std::string DeviceName::text() const { return absl::StrCat(kind, ":", index); }

absl::StatusOr<std::vector<std::pair<std::string, std::string>>>
ParsePluginOptions(absl::string_view text) {
  std::vector<std::pair<std::string, std::string>> options;
  for (absl::string_view option :
       absl::StrSplit(text, '&', absl::SkipEmpty())) {
    std::pair<std::string, std::string> pair =
        absl::StrSplit(option, absl::MaxSplits('=', 1));
    if (pair.first.empty() || option.size() == pair.first.size()) {
      return MakeError(ErrorCode::kBadValue,
                       absl::StrCat("option '", option, "' has no value"));
    }
    options.push_back(std::move(pair));
  }
  return options;
}

absl::StatusOr<DeviceName> ParseDeviceName(absl::string_view text) {
  DeviceName name;
  std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('?', 1));
  std::pair<absl::string_view, absl::string_view> address =
      absl::StrSplit(parts.first, absl::MaxSplits(':', 1));
  name.kind = std::string(address.first);
  if (name.kind.empty()) return BadName(text, "no kind");
  for (char c : name.kind) {
    if (!absl::ascii_isalnum(c) && c != '_' && c != '-' && c != '.') {
      return BadName(text, absl::StrCat("'", name.kind, "' is no kind"));
    }
  }
  bool has_index = parts.first.size() > address.first.size();
  if (has_index && !absl::SimpleAtoi(address.second, &name.index)) {
    return BadName(text, absl::StrCat("'", address.second, "' is no index"));
  }
  auto options = ParsePluginOptions(parts.second);
  if (!options.ok()) return BadName(text, options.status().message());
  name.options = *std::move(options);
  return name;
}

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

absl::StatusOr<JobDevices> JobDevices::Open(absl::string_view device,
                                            const LoadOptions& load) {
  WEFT_ASSIGN_OR_RETURN(DeviceName name, ParseDeviceName(device));
  JobDevices out;
  DeviceName host;
  host.kind = std::string(kHostKind);
  bool is_host = name.text() == host.text();
  WEFT_RETURN_IF_ERROR(out.Add(is_host ? name : host, load));
  if (!is_host) WEFT_RETURN_IF_ERROR(out.Add(name, load));
  return out;
}

std::vector<Device*> JobDevices::pointers() const {
  std::vector<Device*> out;
  for (const auto& device : devices_) out.push_back(device.get());
  return out;
}

std::string JobDevices::Describe() const {
  return absl::StrCat(compute(), " (", devices_.back()->info().name, ")");
}

}  // namespace weft
