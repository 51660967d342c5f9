// Reductions: beside the dimensions that are reduced nothing changes; along one
// of them each member reduces its part, which is a partial value of the same
// kind. A mean of parts is none, so a mean is cut beside only.
#include <algorithm>

#include "core/ops/family_signatures.h"
#include "core/ops/infer.h"
#include "core/ops/signature_rules.h"

namespace weft {
namespace {

// S(d) of each dimension that stays.
void SplitBeside(const OpView& op, const std::vector<int>& reduced,
                 SignatureList* list) {
  const bool keep = op.Int("keepdims") != 0;
  int to = 0;
  for (int d = 0; d < op.input(0).shape.rank(); ++d) {
    const bool stays = !std::binary_search(reduced.begin(), reduced.end(), d);
    if (stays) list->Split({d}, {to});
    if (stays || keep) ++to;
  }
}

// Each member reduces its part of dimension `d`, one of those reduced.
void AddSumOfParts(ReduceOp kind, int d, SignatureList* list) {
  OpSignature signature;
  signature.inputs = {Sbp::Split(d, kAnyGroups)};
  signature.outputs = {Sbp::Partial(kind)};
  list->Add(std::move(signature));
}

ReduceOp Kind(OpId id) {
  switch (id) {
    case OpId::kReduceMax:
      return ReduceOp::kMax;
    case OpId::kReduceMin:
      return ReduceOp::kMin;
    case OpId::kReduceProd:
      return ReduceOp::kProd;
    default:
      return ReduceOp::kSum;
  }
}

}  // namespace

std::vector<OpSignature> ReduceSignatures(const OpView& op) {
  const int rank = op.input(0).shape.rank();
  std::vector<int> axes = *AxesAttr(op, "axes", rank);
  if (axes.empty()) {
    for (int d = 0; d < rank; ++d) axes.push_back(d);
  }
  const ReduceOp kind = Kind(op.schema().id);
  SignatureList list(op);
  SplitBeside(op, axes, &list);
  list.Partial(kind, {0});
  if (op.schema().id == OpId::kReduceMean) return list.Take();
  for (int d : axes) AddSumOfParts(kind, d, &list);
  return list.Take();
}

std::vector<OpSignature> SumOfSquaresSignatures(const OpView& op) {
  SignatureList list(op);
  const bool one = op.num_inputs() == 1 && op.Int("parts") == 1;
  for (int d = 0; one && d < op.input(0).shape.rank(); ++d) {
    AddSumOfParts(ReduceOp::kSum, d, &list);
  }
  return list.Take();
}

std::vector<OpSignature> ArgMaxSignatures(const OpView& op) {
  SignatureList list(op);
  SplitBeside(op, {*AxisAttr(op, "axis", op.input(0).shape.rank())}, &list);
  return list.Take();
}

}  // namespace weft
