// The families of ops: one .cc each, `<family>_ops.cc`, that adds its schemas
// to a registry. OpRegistry::Global() calls all of them once; a new family is a
// new file, a line here and a line in registry.cc.
//
// Threading: each is called while the registry is still private to one thread.
#ifndef WEFT_CORE_OPS_FAMILIES_H_
#define WEFT_CORE_OPS_FAMILIES_H_

namespace weft {

class OpRegistry;

void RegisterElementwiseOps(OpRegistry* registry);  // Add ... Where
void RegisterFusedOps(OpRegistry* registry);        // weft.fused
void RegisterShapeOps(OpRegistry* registry);        // Reshape, Transpose ...
void RegisterSliceOps(OpRegistry* registry);        // Slice, Concat, Pad ...
void RegisterMovementOps(OpRegistry* registry);  // Gather, weft.StridedCopy ...
void RegisterReduceOps(OpRegistry* registry);    // ReduceSum ... ArgMax
void RegisterRandomOps(OpRegistry* registry);    // weft.RandomUniform ...
void RegisterUpdateOps(OpRegistry* registry);    // weft.SgdUpdate ...
void RegisterSystemOps(OpRegistry* registry);    // weft.Variable, Constant ...
void RegisterLinearAlgebraOps(OpRegistry* registry);  // MatMul, Gemm
void RegisterConvOps(OpRegistry* registry);           // Conv and gradients
void RegisterPoolOps(OpRegistry* registry);           // MaxPool ...
void RegisterNormOps(OpRegistry* registry);  // Batch- and LayerNormalization
void RegisterAttentionOps(OpRegistry* registry);  // weft.SelfAttention ...
void RegisterLossOps(OpRegistry* registry);  // Softmax, loss, Dropout, clipping

}  // namespace weft

#endif  // WEFT_CORE_OPS_FAMILIES_H_
