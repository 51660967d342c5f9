// Where tests find the plugins that the build made (data =
// ["//devices/x:..."]).
//
//   WEFT_ASSIGN_OR_RETURN(const Plugin* null, Plugin::Load("null",
//                         TestLoadOptions({"devices/null"})));
//
// Runfiles are links into a build tree that may lie in /tmp, so the path rules
// are loosened as far as that needs.
#ifndef WEFT_PLUGINS_HOST_TEST_PLUGINS_H_
#define WEFT_PLUGINS_HOST_TEST_PLUGINS_H_

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "plugins/host/plugin.h"

namespace weft {

// The absolute path of a file of the runfiles tree.
inline std::string RunfilePath(absl::string_view path) {
  return absl::StrCat(std::getenv("TEST_SRCDIR"), "/",
                      std::getenv("TEST_WORKSPACE"), "/", path);
}

inline LoadOptions TestLoadOptions(const std::vector<std::string>& packages) {
  const PathPolicy loose{/*allow_sticky_parents=*/true, /*allow_links=*/true};
  LoadOptions options;
  for (const std::string& package : packages) {
    options.default_dirs.push_back({RunfilePath(package), loose});
  }
  options.path_policy = loose;
  return options;
}

}  // namespace weft

#endif  // WEFT_PLUGINS_HOST_TEST_PLUGINS_H_
