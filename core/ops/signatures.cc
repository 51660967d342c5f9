#include "core/ops/signatures.h"

#include <algorithm>
#include <utility>

#include "core/base/status_macros.h"
#include "core/ops/signature_rules.h"

namespace weft {
namespace {

OpSignature AllBroadcast(const OpView& op) {
  OpSignature out;
  out.inputs.resize(op.num_inputs());
  out.outputs.resize(op.outputs().size());
  return out;
}

bool HasSplit(const OpSignature& s) {
  const auto is_split = [](Sbp sbp) { return sbp.is_split(); };
  return std::any_of(s.inputs.begin(), s.inputs.end(), is_split) ||
         std::any_of(s.outputs.begin(), s.outputs.end(), is_split);
}

// Every member's op must be one, and give what the signature says. Without a
// split it is the op itself.
bool CanDo(const OpView& op, const OpSignature& signature, int parts) {
  if (!HasSplit(signature)) return true;
  std::vector<TensorType> inputs(op.inputs().begin(), op.inputs().end());
  std::vector<TensorType> outputs(op.outputs().begin(), op.outputs().end());
  if (!TakeParts(signature.inputs, parts, &inputs).ok() ||
      !TakeParts(signature.outputs, parts, &outputs).ok()) {
    return false;
  }
  // Members differ in local attributes alone.
  const int last = op.schema().local_attrs != nullptr ? parts - 1 : 0;
  for (int index = 0; index <= last; index += std::max(last, 1)) {
    absl::StatusOr<AttrMap> attrs = LocalAttrs(op, signature, parts, index);
    if (!attrs.ok()) return false;
    absl::StatusOr<std::vector<TensorType>> inferred =
        InferTypes(op.schema(), op.name(), *attrs, inputs,
                   static_cast<int>(outputs.size()));
    if (!inferred.ok() || *inferred != outputs) return false;
  }
  return true;
}

// As the schema has it.
std::vector<OpSignature> Listed(const OpView& op) {
  const OpSchema& schema = op.schema();
  if (schema.signatures != nullptr) return schema.signatures(op);
  return schema.elementwise ? ElementwiseSignatures(op)
                            : std::vector<OpSignature>{};
}

bool IsAny(Sbp sbp) { return sbp.is_split() && sbp.groups == kAnyGroups; }

bool HasAnyGroups(const OpSignature& s) {
  return std::any_of(s.inputs.begin(), s.inputs.end(), IsAny) ||
         std::any_of(s.outputs.begin(), s.outputs.end(), IsAny);
}

OpSignature WithGroups(OpSignature signature, int groups) {
  for (std::vector<Sbp>* list : {&signature.inputs, &signature.outputs}) {
    for (Sbp& sbp : *list) {
      if (IsAny(sbp)) sbp.groups = groups;
    }
  }
  return signature;
}

}  // namespace

std::vector<OpSignature> SignaturesOf(const OpView& op, int parts,
                                      absl::Span<const int> groups) {
  std::vector<OpSignature> out = {AllBroadcast(op)};
  const auto add = [&](OpSignature signature) {
    if (std::find(out.begin(), out.end(), signature) != out.end()) return;
    if (CanDo(op, signature, parts)) out.push_back(std::move(signature));
  };
  for (const OpSignature& listed : Listed(op)) {
    if (!HasAnyGroups(listed)) {
      add(listed);
      continue;
    }
    add(WithGroups(listed, 1));
    for (int g : groups) add(WithGroups(listed, g));
  }
  return out;
}

absl::Status TakeParts(absl::Span<const Sbp> sbp, int parts,
                       std::vector<TensorType>* types) {
  for (size_t i = 0; i < types->size(); ++i) {
    WEFT_ASSIGN_OR_RETURN((*types)[i].shape,
                          PartShape((*types)[i].shape, sbp[i], parts));
  }
  return absl::OkStatus();
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
