// Mixed precision: the products of a model in a 16-bit format, all else in f32.
//
//   WEFT_RETURN_IF_ERROR(MixedPrecision(&graph, DType::kBF16).status());
//
// - Products (MatMul, Gemm, Conv) read their operands in `low` and give their
//   results in it; devices sum in f32 inside.
// - Ops that move values or whose rounding does no harm (Relu, Gelu, pooling,
//   Reshape, Dropout, Add of two such values, ...) run in `low` where every
//   operand comes in it; constants do.
// - Everything else runs in f32, behind a Cast: normalisation, softmax, losses,
//   sums along a residual path of f32, results of the model.
//
// bf16 has the range of f32; f16 has more digits and a smaller range, so that
// training in it takes a loss scale (compiler/training/loss_scale.h).
//
// Variables stay f32: they are the master weights. A Cast of one is made once a
// step, and all its readers share it. Run before autodiff, which differentiates
// a Cast by a Cast: gradients of weights are f32 from there on, and so are
// their sums over micro-batches.
//
// A graph without products stays as it is.
//
// Threading: thread-compatible.
#ifndef WEFT_COMPILER_TRANSFORMS_MIXED_PRECISION_H_
#define WEFT_COMPILER_TRANSFORMS_MIXED_PRECISION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "compiler/pass/pass.h"
#include "core/graph/graph.h"

namespace weft {

// Whether anything changed. Pre-condition: `low` is kBF16 or kF16.
absl::StatusOr<bool> MixedPrecision(Graph* graph, DType low);

// "mixed_precision": to bf16, for weft-opt.
std::unique_ptr<Pass> CreateMixedPrecisionPass();

}  // namespace weft

#endif  // WEFT_COMPILER_TRANSFORMS_MIXED_PRECISION_H_
