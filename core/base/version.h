// The version of Weft.
#ifndef WEFT_CORE_BASE_VERSION_H_
#define WEFT_CORE_BASE_VERSION_H_

#include "absl/strings/string_view.h"

namespace weft {

inline constexpr absl::string_view kVersion = "0.1.0";

}  // namespace weft

#endif  // WEFT_CORE_BASE_VERSION_H_
