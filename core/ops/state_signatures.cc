// State and what updates it: the tensors of a variable are cut alike, what all
// share is whole. No partial value becomes state.
#include "core/ops/family_signatures.h"
#include "core/ops/signature_rules.h"
#include "core/ops/update.h"

namespace weft {

std::vector<OpSignature> VariableSignatures(const OpView& op) {
  SignatureList list(op);
  SplitAlike(op, op.output(0).shape.rank(), kWhole, &list);
  return list.Take();
}

// Of several variables, each that has the dimension.
std::vector<OpSignature> UpdateSignatures(const OpView& op) {
  const UpdateLayout layout = LayoutOfUpdate(op.schema(), op.num_inputs());
  int rank = 0;
  for (const TensorType& type : op.outputs()) {
    rank = std::max(rank, type.shape.rank());
  }
  SignatureList list(op);
  for (int d = 0; d < rank; ++d) {
    std::vector<int> inputs, outputs;
    const auto dim = [&](int operand) {
      return d < op.input(operand).shape.rank() ? d : kWhole;
    };
    for (int i = 0; i < layout.Shared(0); ++i) inputs.push_back(dim(i));
    for (size_t i = 0; i < op.outputs().size(); ++i) {
      outputs.push_back(inputs[i]);
    }
    list.Split(std::move(inputs), std::move(outputs));
  }
  return list.Take();
}

std::vector<OpSignature> CopySignatures(const OpView& op) {
  SignatureList list(op);
  SplitAlike(op, op.input(0).shape.rank(), kWhole, &list);
  list.AnyPartial({0});
  return list.Take();
}

std::vector<OpSignature> AccumulateSignatures(const OpView& op) {
  SignatureList list(op);
  SplitAlike(op, op.input(0).shape.rank(), kWhole, &list);
  list.Partial(ReduceOp::kSum, {0});
  return list.Take();
}

}  // namespace weft
