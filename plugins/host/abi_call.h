// What every call through a table of a plugin needs, for the facades alone: a
// status to fill, structs that know their size, and names for messages.
//
//   weft_status status = NewStatus();
//   auto info = NewStruct<weft_device_info>();
//   const weft_code code = api.device_info(0, &info, &status);
//   if (code != WEFT_OK) return ...CodeName(code), Text(status.message)...
//
// Threading: free functions, thread-safe.
#ifndef WEFT_PLUGINS_HOST_ABI_CALL_H_
#define WEFT_PLUGINS_HOST_ABI_CALL_H_

#include <cstddef>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/error.h"
#include "plugins/abi/weft_plugin.h"
#include "plugins/host/plugin.h"

namespace weft {

// The message area is not cleared: that would cost more than a call.
inline weft_status NewStatus() {
  weft_status status;
  status.struct_size = sizeof(status);
  status.vendor_code = 0;
  status.flags = 0;
  status.message[0] = '\0';
  return status;
}

template <typename T>
T NewStruct() {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

// What a char array of a plugin holds; it need not end.
template <size_t N>
std::string Text(const char (&field)[N]) {
  return std::string(field, strnlen(field, N));
}

inline absl::string_view CodeName(weft_code code) {
  static constexpr absl::string_view kNames[] = {
      "OK",      "UNSUPPORTED", "INVALID", "RANGE",    "OOM",
      "TIMEOUT", "AGAIN",       "BUSY",    "CANCELED", "PEER_LOST",
      "AUTH",    "DEVICE_LOST", "CORRUPT", "INTERNAL"};
  return code < std::size(kNames) ? kNames[code] : "an unknown code";
}

// Of a slot that an old plugin lacks, or a new one left out.
inline absl::Status Missing(const Plugin& plugin, absl::string_view call) {
  return MakeError(ErrorCode::kPluginAbi,
                   absl::StrCat("plugin '", plugin.name(),
                                "' has no function '", call, "'"));
}

inline weft_string AbiString(absl::string_view s) {
  return weft_string{s.data(), s.size()};
}

// Views: `options` outlives the result.
inline std::vector<weft_key_value> KeyValues(
    const std::vector<std::pair<std::string, std::string>>& options) {
  std::vector<weft_key_value> pairs;
  for (const auto& [key, value] : options) {
    pairs.push_back({AbiString(key), AbiString(value)});
  }
  return pairs;
}

}  // namespace weft

#endif  // WEFT_PLUGINS_HOST_ABI_CALL_H_
