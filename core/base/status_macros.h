// Early return on error, for functions that return absl::Status or StatusOr.
//
//   WEFT_RETURN_IF_ERROR(Check(x));
//   WEFT_ASSIGN_OR_RETURN(Plan plan, Compile(graph));
#ifndef WEFT_CORE_BASE_STATUS_MACROS_H_
#define WEFT_CORE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define WEFT_RETURN_IF_ERROR(expr)                              \
  do {                                                          \
    if (absl::Status weft_status_ = (expr); !weft_status_.ok()) \
      return weft_status_;                                      \
  } while (false)

#define WEFT_ASSIGN_OR_RETURN(lhs, expr) \
  WEFT_ASSIGN_OR_RETURN_IMPL_(WEFT_CONCAT_(weft_or_, __LINE__), lhs, expr)

#define WEFT_CONCAT_INNER_(a, b) a##b
#define WEFT_CONCAT_(a, b) WEFT_CONCAT_INNER_(a, b)
#define WEFT_ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr) \
  auto tmp = (expr);                                \
  if (!tmp.ok()) return std::move(tmp).status();    \
  lhs = *std::move(tmp)

#endif  // WEFT_CORE_BASE_STATUS_MACROS_H_
