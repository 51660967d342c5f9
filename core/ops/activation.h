// What an op does to its first result while that still lies in the cache: the
// attribute "activation", "none" or "relu", of Gemm, Conv and
// weft.BatchNormTraining. Absent it is "none".
//
//   result = Relu(result as the op would have it)
//
// bit for bit what a node Relu behind it would give. Programs are written
// without it; the pass "epilogues" (compiler/transforms/epilogues.h) chooses.
//
//   OpSchema gemm(OpId::kGemm);
//   ...
//   AddActivation(&gemm);          // last: wraps infer, gradient, decompose
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_OPS_ACTIVATION_H_
#define WEFT_CORE_OPS_ACTIVATION_H_

#include "core/ops/schema.h"

namespace weft {

inline constexpr char kActivation[] = "activation";

// Adds the attribute, its check, its part of the gradient (which reads the
// result) and the decomposition into the op without it and a Relu.
void AddActivation(OpSchema* schema);

// Pre-condition: inferred.
bool HasActivation(const OpView& op);

}  // namespace weft

#endif  // WEFT_CORE_OPS_ACTIVATION_H_
