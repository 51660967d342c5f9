// What several numbers are made one with: by reductions over dimensions, over
// ranks, and of values that lie on ranks as parts of a result.
#ifndef WEFT_CORE_TYPES_REDUCE_OP_H_
#define WEFT_CORE_TYPES_REDUCE_OP_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace weft {

enum class ReduceOp : uint8_t { kSum, kProd, kMax, kMin };

// "sum", "prod", "max", "min".
inline absl::string_view Name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kProd:
      return "prod";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kMin:
      return "min";
  }
  return "";
}

}  // namespace weft

#endif  // WEFT_CORE_TYPES_REDUCE_OP_H_
