// Whether bytes are UTF-8: without overlong forms, surrogates and what lies
// beyond Unicode. What is written as JSON or protobuf text has to be.
//
//   if (!IsUtf8(name)) return MakeError(...);
//
// Threading: thread-safe.
#ifndef WEFT_CORE_BASE_UTF8_H_
#define WEFT_CORE_BASE_UTF8_H_

#include "absl/strings/string_view.h"

namespace weft {

bool IsUtf8(absl::string_view text);

}  // namespace weft

#endif  // WEFT_CORE_BASE_UTF8_H_
