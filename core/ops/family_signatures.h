// The signatures of the families of ops, `<family>_signatures.cc`, which the
// family's schemas name. Each lists what is legal for one use of its ops.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_OPS_FAMILY_SIGNATURES_H_
#define WEFT_CORE_OPS_FAMILY_SIGNATURES_H_

#include <vector>

#include "absl/status/status.h"
#include "core/mesh/sbp.h"
#include "core/ops/schema.h"

namespace weft {

std::vector<OpSignature> MatMulSignatures(const OpView& op);
std::vector<OpSignature> GemmSignatures(const OpView& op);

// Reshape, Flatten, Squeeze, Unsqueeze.
std::vector<OpSignature> ReshapeSignatures(const OpView& op);
std::vector<OpSignature> TransposeSignatures(const OpView& op);
std::vector<OpSignature> ExpandSignatures(const OpView& op);
absl::Status LocalExpandAttrs(const OpView& op, const OpSignature& signature,
                              int parts, int index, AttrMap* attrs);
absl::Status LocalSqueezeAttrs(const OpView& op, const OpSignature& signature,
                               int parts, int index, AttrMap* attrs);

std::vector<OpSignature> ConcatSignatures(const OpView& op);
std::vector<OpSignature> SplitSignatures(const OpView& op);
absl::Status LocalSplitAttrs(const OpView& op, const OpSignature& signature,
                             int parts, int index, AttrMap* attrs);
std::vector<OpSignature> SliceSignatures(const OpView& op);
absl::Status LocalSliceAttrs(const OpView& op, const OpSignature& signature,
                             int parts, int index, AttrMap* attrs);
std::vector<OpSignature> PadSignatures(const OpView& op);

std::vector<OpSignature> GatherSignatures(const OpView& op);
std::vector<OpSignature> GatherGradSignatures(const OpView& op);
std::vector<OpSignature> StridedCopySignatures(const OpView& op);
absl::Status LocalStridedCopyAttrs(const OpView& op,
                                   const OpSignature& signature, int parts,
                                   int index, AttrMap* attrs);
std::vector<OpSignature> IotaSignatures(const OpView& op);

std::vector<OpSignature> ReduceSignatures(const OpView& op);
std::vector<OpSignature> ArgMaxSignatures(const OpView& op);
std::vector<OpSignature> SumOfSquaresSignatures(const OpView& op);

std::vector<OpSignature> ConvSignatures(const OpView& op);
std::vector<OpSignature> ConvGradInputSignatures(const OpView& op);
std::vector<OpSignature> ConvGradWeightsSignatures(const OpView& op);
// Of all three.
absl::Status LocalConvAttrs(const OpView& op, const OpSignature& signature,
                            int parts, int index, AttrMap* attrs);
// Pools and their gradients.
std::vector<OpSignature> PoolSignatures(const OpView& op);
std::vector<OpSignature> BatchNormalizationSignatures(const OpView& op);
std::vector<OpSignature> BatchNormTrainingSignatures(const OpView& op);
std::vector<OpSignature> BatchNormGradSignatures(const OpView& op);
std::vector<OpSignature> LayerNormSignatures(const OpView& op);
std::vector<OpSignature> LayerNormGradSignatures(const OpView& op);

// Softmax and LogSoftmax; the loss, its gradient, and both in one.
std::vector<OpSignature> SoftmaxSignatures(const OpView& op);
std::vector<OpSignature> LossSignatures(const OpView& op);
std::vector<OpSignature> LossGradSignatures(const OpView& op);
std::vector<OpSignature> LossAndGradSignatures(const OpView& op);
// Dropout, weft.DropoutTraining, weft.DropoutGrad.
std::vector<OpSignature> DropoutSignatures(const OpView& op);

std::vector<OpSignature> VariableSignatures(const OpView& op);
// Of gradients and weft.Assign.
std::vector<OpSignature> UpdateSignatures(const OpView& op);
std::vector<OpSignature> CopySignatures(const OpView& op);
std::vector<OpSignature> AccumulateSignatures(const OpView& op);

std::vector<OpSignature> RandomSignatures(const OpView& op);
// Of ops whose result 0 is random at each position: adds to attribute `cuts`.
absl::Status LocalRandomAttrs(const OpView& op, const OpSignature& signature,
                              int parts, int index, AttrMap* attrs);

// weft.SelfAttention and its gradient.
std::vector<OpSignature> AttentionSignatures(const OpView& op);
absl::Status LocalAttentionAttrs(const OpView& op, const OpSignature& signature,
                                 int parts, int index, AttrMap* attrs);

}  // namespace weft

#endif  // WEFT_CORE_OPS_FAMILY_SIGNATURES_H_
