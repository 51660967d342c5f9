// What the loader must know of a shared object before it runs any of it.
//
// Read from the file's bytes the way the dynamic loader does, by program
// headers and the dynamic section (section headers may be absent or lie). Every
// offset in the file is checked: a truncated or hostile file gives
// kPluginBroken, never a read outside the bytes.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_PLUGINS_HOST_ELF_FILE_H_
#define WEFT_PLUGINS_HOST_ELF_FILE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "plugins/abi/weft_plugin.h"

namespace weft {

struct ElfFile {
  std::string soname;
  std::vector<std::string> needed;
  // Names that other objects can bind to: defined, global or weak or unique.
  std::vector<std::string> exports;
  // The WEFT note, where there is one.
  std::optional<weft_note> note;
};

// `bytes` is the whole file; `shown` names it in messages.
absl::StatusOr<ElfFile> ParseElf(absl::string_view bytes,
                                 absl::string_view shown);

}  // namespace weft

#endif  // WEFT_PLUGINS_HOST_ELF_FILE_H_
