// Which paths a plugin may be loaded from.
//
// A plugin runs with all rights of the process, so nobody but root and the
// current user may be able to replace it: the file and every directory above it
// belong to one of the two and are not writable by others. The owner of "/"
// counts as root (in a container without that user id it has another number).
//
// Threading: free functions, thread-safe.
#ifndef WEFT_PLUGINS_HOST_TRUSTED_PATH_H_
#define WEFT_PLUGINS_HOST_TRUSTED_PATH_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plugins/host/plugin.h"

namespace weft {

// The canonical form of `path`, which may be trusted. kPluginNotFound where
// there is no such file; kPluginRefused, naming the path and the rule, where it
// is relative, not a regular file, behind a link to another directory, or
// writable by others.
absl::StatusOr<std::string> TrustedPath(const std::string& path,
                                        const PathPolicy& policy);

// The same of a directory that plugins are looked for in: OK where what lies in
// it may be trusted as far as its place goes.
absl::Status CheckTrustedDirectory(const std::string& path,
                                   const PathPolicy& policy);

}  // namespace weft

#endif  // WEFT_PLUGINS_HOST_TRUSTED_PATH_H_
