// Errors that a user can meet.
//
// Each has a number in one table (error_table.inc), a page in docs/errors and
// an exit code. An error is an ordinary absl::Status whose payload carries the
// number, so it travels through absl::StatusOr and the WEFT_* macros unchanged:
//
//   return MakeError(ErrorCode::kShapeMismatch, "node 'fc1': [2,3] x [4,5]");
//   ...
//   WEFT_RETURN_IF_ERROR(Load(path));
//   ...
//   int exit_code = ExitCodeOf(status);
//
// Use plain absl errors only where no user can be the cause.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_BASE_ERROR_H_
#define WEFT_CORE_BASE_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weft {

enum class ErrorCode : int {
#define WEFT_ERROR(number, name, absl_code, title) k##name = number,
#include "core/base/error_table.inc"
#undef WEFT_ERROR
};

// A status with the absl code of the table's row and the number as payload.
absl::Status MakeError(ErrorCode code, absl::string_view message);

// The number that `status` carries; kInternal where it carries none.
// Pre-condition: !status.ok().
ErrorCode ErrorCodeOf(const absl::Status& status);

// True where `status` carries exactly `code`.
bool IsError(const absl::Status& status, ErrorCode code);

// "WEFT-2004".
std::string ErrorName(ErrorCode code);

// The table's short title, "shapes do not fit".
absl::string_view ErrorTitle(ErrorCode code);

// Process exit code: 0 for OK, else by the number's thousands
// (1 -> 2, 2 -> 3, 3 -> 4, 4 -> 5, 5 -> 6, 6 -> 7, 7 -> 138, else 1).
int ExitCodeOf(const absl::Status& status);

// The same error with "context: " before its message; payloads are kept.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

}  // namespace weft

#endif  // WEFT_CORE_BASE_ERROR_H_
