#include "core/ops/signatures.h"

#include <algorithm>
#include <utility>

#include "core/base/status_macros.h"

namespace weft {
namespace {

OpSignature AllBroadcast(const OpView& op) {
  OpSignature out;
  out.inputs.resize(op.num_inputs());
  out.outputs.resize(op.outputs().size());
  return out;
}

// Of the operands or the results.
bool TakeParts(absl::Span<const TensorType> whole, const std::vector<Sbp>& sbp,
               int parts, std::vector<TensorType>* local) {
  for (size_t i = 0; i < whole.size(); ++i) {
    absl::StatusOr<Shape> part = PartShape(whole[i].shape, sbp[i], parts);
    if (!part.ok()) return false;
    local->push_back({whole[i].dtype, *std::move(part)});
  }
  return true;
}

// Every member's op must be one, and give what the signature says.
bool CanDo(const OpView& op, const OpSignature& signature, int parts) {
  std::vector<TensorType> inputs, outputs;
  if (!TakeParts(op.inputs(), signature.inputs, parts, &inputs) ||
      !TakeParts(op.outputs(), signature.outputs, parts, &outputs)) {
    return false;
  }
  for (int index : {0, parts - 1}) {
    absl::StatusOr<AttrMap> attrs = LocalAttrs(op, signature, parts, index);
    if (!attrs.ok()) return false;
    absl::StatusOr<std::vector<TensorType>> inferred =
        InferTypes(op.schema(), op.name(), *attrs, inputs,
                   static_cast<int>(outputs.size()));
    if (!inferred.ok() || *inferred != outputs) return false;
  }
  return true;
}

}  // namespace

std::vector<OpSignature> SignaturesOf(const OpView& op, int parts) {
  std::vector<OpSignature> out = {AllBroadcast(op)};
  if (op.schema().signatures == nullptr) return out;
  for (OpSignature& signature : op.schema().signatures(op)) {
    if (std::find(out.begin(), out.end(), signature) != out.end()) continue;
    if (CanDo(op, signature, parts)) out.push_back(std::move(signature));
  }
  return out;
}

absl::StatusOr<AttrMap> LocalAttrs(const OpView& op,
                                   const OpSignature& signature, int parts,
                                   int index) {
  AttrMap attrs = op.attrs();
  if (op.schema().local_attrs != nullptr) {
    WEFT_RETURN_IF_ERROR(
        op.schema().local_attrs(op, signature, parts, index, &attrs));
  }
  return attrs;
}

}  // namespace weft
