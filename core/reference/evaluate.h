// Evaluate: what an op computes, by its plain definition in double, rounded to
// the results' dtypes at the end. Kernels are tested against it and constant
// folding runs it; nothing else should, it is slow.
//
//   std::vector<TensorType> outputs = *InferTypes(...);
//   OpView op(schema, "n", attrs, input_types, outputs);
//   WEFT_ASSIGN_OR_RETURN(std::vector<Literal> y, Evaluate(op, {a, b}));
//
// Integers: + - * and sums wrap around as two's complement; x / 0 is 0. i64
// values beyond 2^53 are refused, because double would change them.
//
// Threading: thread-safe.
#ifndef WEFT_CORE_REFERENCE_EVALUATE_H_
#define WEFT_CORE_REFERENCE_EVALUATE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/schema.h"
#include "core/types/literal.h"

namespace weft {

// True where the op has a value that follows from its operands alone; false for
// sources and state (weft.Variable, weft.Counter, weft.DataSource, weft.Input)
// and for weft.Accumulate, which takes many acts (see TreeSum).
bool CanEvaluate(const OpSchema& schema);

// The results of one act of `op`; updates give the new values.
// Pre-condition: op.outputs() holds the inferred types; an absent optional
// operand is a default Literal.
// Errors: kBadArity or kShapeMismatch where `inputs` are not what `op` says,
// kBadValue for a value outside its domain (an index past the end, an i64
// beyond 2^53), kUnknownOp where there is nothing to evaluate.
absl::StatusOr<std::vector<Literal>> Evaluate(const OpView& op,
                                              absl::Span<const Literal> inputs);

// What weft.Accumulate gives after parts.size() acts: a balanced binary tree of
// sums in arrival order. Equal levels merge as soon as both are there, as the
// bits of a binary counter; what remains is added from the newest to the
// oldest. Each sum is rounded to the dtype. Errors: kBadArity without parts,
// kShapeMismatch where their types differ.
absl::StatusOr<Literal> TreeSum(absl::Span<const Literal> parts);

}  // namespace weft

#endif  // WEFT_CORE_REFERENCE_EVALUATE_H_
