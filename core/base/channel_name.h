// Names of channels between ranks. Where both sides derive a name from the same
// decision, it is STEM#AGREED/PART: `STEM` names the decision, `AGREED` spells
// out what both must have decided equally, `PART` tells its channels apart.
//
//   ChannelName("fc1/grad", "all-reduce.sum.f32[8]", "0.2")
//   // "fc1/grad#all-reduce.sum.f32[8]/0.2"
//   PartsOf("fc1/grad#all-reduce.sum.f32[8]/0.2").stem   // "fc1/grad"
//
// Any other name is a stem alone.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_BASE_CHANNEL_NAME_H_
#define WEFT_CORE_BASE_CHANNEL_NAME_H_

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace weft {

// Pre-condition: no '#' in `agreed` and `part`, no '/' in `part`.
inline std::string ChannelName(absl::string_view stem, absl::string_view agreed,
                               absl::string_view part) {
  return absl::StrCat(stem, "#", agreed, "/", part);
}

struct ChannelParts {
  absl::string_view stem;
  absl::string_view agreed;  // empty: nothing was
};

// Valid as long as `name` is.
inline ChannelParts PartsOf(absl::string_view name) {
  const size_t hash = name.rfind('#');
  if (hash == absl::string_view::npos) return {name, ""};
  const absl::string_view rest = name.substr(hash + 1);
  return {name.substr(0, hash), rest.substr(0, rest.rfind('/'))};
}

}  // namespace weft

#endif  // WEFT_CORE_BASE_CHANNEL_NAME_H_
