#include "plugins/host/plugin.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "plugins/host/inspect.h"

namespace weft {
namespace {

constexpr uint64_t kMaxSections = 64;
constexpr uint64_t kMaxText = 256;

absl::Status Broken(absl::string_view shown, absl::string_view what) {
  return MakeError(ErrorCode::kPluginBroken, absl::StrCat(shown, ": ", what));
}

// A table as far as both sides know it, zero beyond.
template <typename T>
absl::StatusOr<T> CopyTable(const void* table, absl::string_view what,
                            absl::string_view shown) {
  uint32_t size;
  std::memcpy(&size, table, sizeof(size));
  if (size < 2 * sizeof(uint32_t)) {
    return Broken(shown, absl::StrCat("the table of section '", what, "' has ",
                                      size, " bytes"));
  }
  T copy{};
  // Slots are of one size, so a table of a minor between ours ends at a slot.
  const size_t whole = size - (size - 2 * sizeof(uint32_t)) % sizeof(void*);
  std::memcpy(static_cast<void*>(&copy), table, std::min(whole, sizeof(T)));
  return copy;
}

absl::Status CheckDevice(const weft_device_api& d, absl::string_view shown) {
  const std::pair<const char*, bool> slots[] = {
      {"device_info", d.device_info != nullptr},
      {"device_open", d.device_open != nullptr},
      {"device_close", d.device_close != nullptr},
      {"mem_alloc", d.mem_alloc != nullptr},
      {"mem_free", d.mem_free != nullptr},
      {"stream_open", d.stream_open != nullptr},
      {"stream_close", d.stream_close != nullptr},
      {"copy", d.copy != nullptr},
      {"stream_mark", d.stream_mark != nullptr},
      {"stream_poll", d.stream_poll != nullptr},
      {"stream_wait", d.stream_wait != nullptr}};
  for (const auto& [name, there] : slots) {
    if (!there) {
      return Broken(shown, absl::StrCat("the device section lacks '", name,
                                        "', which every device has"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCompute(const weft_compute_api& c, absl::string_view shown) {
  if (c.kernel_match == nullptr || c.kernel_open == nullptr ||
      c.kernel_launch == nullptr || c.kernel_close == nullptr) {
    return Broken(shown, "the compute section lacks one of its four functions");
  }
  return absl::OkStatus();
}

absl::Status CheckTransport(const weft_transport_api& t,
                            absl::string_view shown) {
  const std::pair<const char*, bool> slots[] = {
      {"info", t.info != nullptr},
      {"domain_open", t.domain_open != nullptr},
      {"domain_close", t.domain_close != nullptr},
      {"listen", t.listen != nullptr},
      {"connect", t.connect != nullptr},
      {"ep_close", t.ep_close != nullptr},
      {"post", t.post != nullptr},
      {"poll", t.poll != nullptr}};
  for (const auto& [name, there] : slots) {
    if (!there) {
      return Broken(shown, absl::StrCat("the transport section lacks '", name,
                                        "', which every transport has"));
    }
  }
  const int shared = (t.mem_alloc_shared != nullptr) +
                     (t.mem_free_shared != nullptr) + (t.mem_pack != nullptr) +
                     (t.mem_map != nullptr) + (t.mem_unmap != nullptr);
  if ((t.sleep_begin == nullptr) != (t.sleep_end == nullptr)) {
    return Broken(shown,
                  "the transport section has one of 'sleep_begin' and "
                  "'sleep_end'; both or none is the rule");
  }
  if (shared == 0 || shared == 5) return absl::OkStatus();
  return Broken(shown, absl::StrCat("the transport section has ", shared,
                                    " of the 5 functions for shared memory; "
                                    "all or none is the rule"));
}

absl::StatusOr<std::string> ReadText(weft_string s, absl::string_view what,
                                     absl::string_view shown) {
  if (s.size > kMaxText || (s.data == nullptr && s.size != 0)) {
    return Broken(shown, absl::StrCat("its ", what, " is not a string"));
  }
  return std::string(s.data == nullptr ? "" : s.data, s.size);
}

absl::Status CheckName(absl::string_view name, absl::string_view shown) {
  bool good = !name.empty() && name.size() <= 32;
  for (char c : name) {
    good = good && (absl::ascii_islower(c) || absl::ascii_isdigit(c) ||
                    c == '_' || c == '-' || c == '.');
  }
  if (good) return absl::OkStatus();
  return Broken(shown, absl::StrCat("its name '", name,
                                    "' is not 1 to 32 of a-z 0-9 _ - ."));
}

// A plugin may keep the table even where it is refused, so the object stays.
HostServices* NewServices(
    std::string name,
    std::vector<std::pair<std::string, std::string>> options) {
  static Mutex mu;
  static auto* all = new std::vector<std::unique_ptr<HostServices>>;
  auto services =
      std::make_unique<HostServices>(std::move(name), std::move(options));
  MutexLock lock(&mu);
  all->push_back(std::move(services));
  return all->back().get();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Plugin>> Plugin::FromQuery(
    weft_plugin_query_fn query, absl::string_view shown,
    const LoadOptions& options) {
  std::unique_ptr<Plugin> plugin(new Plugin);
  plugin->services_ = NewServices(NameOfFile(shown), options.options);
  const weft_plugin* raw = query(plugin->services_->host());
  if (raw == nullptr) {
    return MakeError(ErrorCode::kPluginAbi,
                     absl::StrCat(shown, ": refuses this host, plugin ABI ",
                                  WEFT_ABI_MAJOR, ".", WEFT_ABI_MINOR));
  }
  if (raw->magic != WEFT_PLUGIN_MAGIC) {
    return Broken(shown, absl::StrCat("its table has the magic number 0x",
                                      absl::Hex(raw->magic), ", not 0x",
                                      absl::Hex(WEFT_PLUGIN_MAGIC)));
  }
  if (raw->abi_major != WEFT_ABI_MAJOR) {
    return MakeError(ErrorCode::kPluginAbi,
                     absl::StrCat(shown, ": offers plugin ABI ", raw->abi_major,
                                  ".", raw->abi_minor, ", this is ",
                                  WEFT_ABI_MAJOR, ".", WEFT_ABI_MINOR));
  }
  if (raw->struct_size < sizeof(weft_plugin)) {  // 1.0 has all of it
    return Broken(
        shown, absl::StrCat("its table has ", raw->struct_size,
                            " bytes, version 1.0 has ", sizeof(weft_plugin)));
  }
  plugin->abi_major_ = raw->abi_major;
  plugin->abi_minor_ = raw->abi_minor;
  WEFT_ASSIGN_OR_RETURN(plugin->name_, ReadText(raw->name, "name", shown));
  WEFT_RETURN_IF_ERROR(CheckName(plugin->name_, shown));
  WEFT_ASSIGN_OR_RETURN(plugin->vendor_,
                        ReadText(raw->vendor, "vendor", shown));
  WEFT_ASSIGN_OR_RETURN(plugin->build_id_,
                        ReadText(raw->build_id, "build id", shown));
  WEFT_RETURN_IF_ERROR(plugin->ReadSections(*raw, shown));
  return plugin;
}

absl::Status Plugin::ReadSections(const weft_plugin& plugin,
                                  absl::string_view shown) {
  if (plugin.section_count > kMaxSections ||
      (plugin.section_count != 0 && plugin.sections == nullptr)) {
    return Broken(shown,
                  absl::StrCat("claims ", plugin.section_count, " sections"));
  }
  for (uint64_t i = 0; i < plugin.section_count; ++i) {
    const weft_section& section = plugin.sections[i];
    if (section.table == nullptr) {
      return Broken(shown, absl::StrCat("section ", section.id, " is null"));
    }
    if (Section(section.id) != nullptr) {
      return Broken(shown, absl::StrCat("section ", section.id, " twice"));
    }
    sections_.push_back(section);
  }
  if (const void* table = Section(WEFT_SECTION_DEVICE)) {
    WEFT_ASSIGN_OR_RETURN(device_,
                          CopyTable<weft_device_api>(table, "device", shown));
    WEFT_RETURN_IF_ERROR(CheckDevice(device_, shown));
  }
  if (const void* table = Section(WEFT_SECTION_COMPUTE)) {
    WEFT_ASSIGN_OR_RETURN(compute_,
                          CopyTable<weft_compute_api>(table, "compute", shown));
    WEFT_RETURN_IF_ERROR(CheckCompute(compute_, shown));
  }
  if (const void* table = Section(WEFT_SECTION_MEM2)) {
    WEFT_ASSIGN_OR_RETURN(mem2_,
                          CopyTable<weft_mem2_api>(table, "mem2", shown));
  }
  if (const void* table = Section(WEFT_SECTION_SYNC2)) {
    WEFT_ASSIGN_OR_RETURN(sync2_,
                          CopyTable<weft_sync2_api>(table, "sync2", shown));
  }
  if (const void* table = Section(WEFT_SECTION_TRANSPORT)) {
    WEFT_ASSIGN_OR_RETURN(
        transport_, CopyTable<weft_transport_api>(table, "transport", shown));
    WEFT_RETURN_IF_ERROR(CheckTransport(transport_, shown));
  }
  if (has_device() || has_transport()) return absl::OkStatus();
  return Broken(shown, "has neither a device nor a transport section");
}

const void* Plugin::Section(uint32_t id) const {
  for (const weft_section& section : sections_) {
    if (section.id == id) return section.table;
  }
  return nullptr;
}

uint32_t Plugin::SectionMinor(uint32_t id) const {
  for (const weft_section& section : sections_) {
    if (section.id == id) return section.minor;
  }
  return 0;
}

uint32_t Plugin::DeviceCount() const {
  if (device_.device_info == nullptr) return 0;
  // A plugin whose list never ends would hang every program that asks.
  constexpr uint32_t kMost = 4096;
  uint32_t count = 0;
  weft_device_info info{};
  weft_status status{};
  status.struct_size = sizeof(status);
  do {
    info.struct_size = sizeof(info);
  } while (count < kMost &&
           device_.device_info(count, &info, &status) == WEFT_OK &&
           ++count < kMost);
  return count;
}

}  // namespace weft
