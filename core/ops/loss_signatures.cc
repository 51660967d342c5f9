// Softmax, layer normalisation, losses and dropout. A loss of some samples is a
// part of the sum over all; whatever is normalised over stays whole.
#include "core/ops/family_signatures.h"
#include "core/ops/infer.h"
#include "core/ops/signature_rules.h"

namespace weft {

std::vector<OpSignature> SoftmaxSignatures(const OpView& op) {
  const int rank = op.input(0).shape.rank();
  SignatureList list(op);
  SplitAlike(op, rank, *AxisAttr(op, "axis", rank), &list);
  return list.Take();
}

// Dimensions before the normalised ones.
std::vector<OpSignature> LayerNormSignatures(const OpView& op) {
  const int axis = *AxisAttr(op, "axis", op.input(0).shape.rank());
  SignatureList list(op);
  for (int d = 0; d < axis; ++d) {
    list.Split({d, kWhole, kWhole, d}, {d, d, d, d});
  }
  return list.Take();
}

// The gradients of scale and bias are sums over all rows.
std::vector<OpSignature> LayerNormGradSignatures(const OpView& op) {
  const int axis = *AxisAttr(op, "axis", op.input(0).shape.rank());
  SignatureList list(op);
  for (int d = 0; d < axis; ++d) {
    list.Split({d, d, kWhole, d, d}, {d, kSummed, kSummed});
  }
  list.Partial(ReduceOp::kSum, {0});  // linear in dY
  return list.Take();
}

std::vector<OpSignature> LossSignatures(const OpView& op) {
  SignatureList list(op);
  list.Split({0, 0, 0}, {kSummed, 0});
  return list.Take();
}

std::vector<OpSignature> LossGradSignatures(const OpView& op) {
  SignatureList list(op);
  list.Split({kWhole, 0, 0, 0}, {0});
  list.Partial(ReduceOp::kSum, {0});  // linear in the loss's gradient
  return list.Take();
}

std::vector<OpSignature> LossAndGradSignatures(const OpView& op) {
  SignatureList list(op);
  list.Split({0, 0, 0, kWhole}, {kSummed, 0});
  return list.Take();
}

// Of weft.DropoutTraining the mask is the same on all members where x is a
// partial sum.
std::vector<OpSignature> DropoutSignatures(const OpView& op) {
  const bool training = op.schema().id == OpId::kDropoutTraining;
  const bool grad = op.schema().id == OpId::kDropoutGrad;
  SignatureList list(op);
  for (int d = 0; d < op.input(0).shape.rank(); ++d) {
    list.Split({d, grad ? d : kWhole}, {d, d});
  }
  list.Split({kSummed, kWhole}, {kSummed, kWhole});
  if (!training && !grad) list.AnyPartial({0});
  return list.Take();
}

}  // namespace weft
