// The checks that a plugin's file passes before any of its code runs, in order:
//
//   1. path      trusted_path.h                             kPluginRefused
//   2. form      a whole shared object for this machine     kPluginBroken
//   3. symbols   exports weft_plugin_query, nothing else    kPluginBroken
//   4. note      there is one WEFT note                     kPluginBroken
//   5. version   major as ours, sanitizer as ours, a        kPluginAbi
//                processor that this machine has
//   6. manifest  there (needed unless the user named the    kPluginManifest
//                file), and of this very file
//
// Threading: free functions, thread-safe.
#ifndef WEFT_PLUGINS_HOST_INSPECT_H_
#define WEFT_PLUGINS_HOST_INSPECT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "plugins/host/elf_file.h"
#include "plugins/host/plugin.h"

namespace weft {

struct InspectedFile {
  std::string path;    // canonical, once the path check has passed
  std::string sha256;  // once the file could be read
  ElfFile elf;
  // The manifest's, else from the file's name.
  std::string name;
};

// Fills `out` as far as the checks come.
absl::Status InspectPlugin(const std::string& path, bool needs_manifest,
                           const PathPolicy& policy, InspectedFile* out);

// "device compute": the section names of a note's `roles`.
std::vector<std::string> RoleNames(uint32_t roles);

// The plugin's name by its file's: "libweft_cpu.so" and "libcpu.so" -> "cpu".
std::string NameOfFile(absl::string_view path);

}  // namespace weft

#endif  // WEFT_PLUGINS_HOST_INSPECT_H_
