// What is known of each ReduceOp: which op makes one number of two, and which
// number changes no other.
//
//   emit.Emit1(ReductionOf(ReduceOp::kMax).of_two, {a, b});   // "Max"
//
// Threading: immutable.
#ifndef WEFT_CORE_TYPES_REDUCTIONS_H_
#define WEFT_CORE_TYPES_REDUCTIONS_H_

#include <limits>

#include "absl/strings/string_view.h"
#include "core/types/reduce_op.h"

namespace weft {

struct Reduction {
  ReduceOp op;
  absl::string_view of_two;
  double neutral;
};

// By ReduceOp.
inline constexpr Reduction kReductions[] = {
    {ReduceOp::kSum, "Add", 0},
    {ReduceOp::kProd, "Mul", 1},
    {ReduceOp::kMax, "Max", -std::numeric_limits<double>::infinity()},
    {ReduceOp::kMin, "Min", std::numeric_limits<double>::infinity()},
};

inline const Reduction& ReductionOf(ReduceOp op) {
  return kReductions[static_cast<int>(op)];
}

// By Name(op); null where there is none of that name.
inline const Reduction* FindReduction(absl::string_view name) {
  for (const Reduction& reduction : kReductions) {
    if (Name(reduction.op) == name) return &reduction;
  }
  return nullptr;
}

}  // namespace weft

#endif  // WEFT_CORE_TYPES_REDUCTIONS_H_
