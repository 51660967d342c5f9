// ReserveDescriptors: asks before the work begins whether a process may open as
// many files as it will need, because a lack of one shows later, far away, and
// not always with a word of why.
//
//   WEFT_RETURN_IF_ERROR(ReserveDescriptors(64, "a rank of 4"));
//
// Threading: thread-safe; changes the limit of the whole process.
#ifndef WEFT_CORE_BASE_DESCRIPTORS_H_
#define WEFT_CORE_BASE_DESCRIPTORS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weft {

// Raises the limit (RLIMIT_NOFILE) to `needed` where it is lower, as far as the
// hard limit allows. Else kNoDescriptor, which names `who`, both numbers and
// ulimit.
absl::Status ReserveDescriptors(uint64_t needed, absl::string_view who);

}  // namespace weft

#endif  // WEFT_CORE_BASE_DESCRIPTORS_H_
