// Random tensors and attention: each member makes the numbers that the whole
// has at its part, which attribute `cuts` says.
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/ops/cuts.h"
#include "core/ops/family_signatures.h"
#include "core/ops/signature_rules.h"

namespace weft {

std::vector<OpSignature> RandomSignatures(const OpView& op) {
  SignatureList list(op);
  for (int d = 0; d < op.output(0).shape.rank(); ++d) {
    list.Split({kWhole}, {d});
  }
  return list.Take();
}

absl::Status LocalRandomAttrs(const OpView& op, const OpSignature& signature,
                              int parts, int index, AttrMap* attrs) {
  const Sbp sbp = signature.outputs[0];
  if (!sbp.is_split()) return absl::OkStatus();
  if (op.schema().FindAttr("shape") != nullptr) {
    std::vector<int64_t> shape = op.Ints("shape");
    shape[sbp.dim] /= parts;
    attrs->Set("shape", std::move(shape));
  }
  Cuts::Append(sbp, parts, index, attrs);
  return absl::OkStatus();
}

// ---- Attention --------------------------------------------------------------

namespace {

bool IsGradient(const OpView& op) {
  return op.schema().id == OpId::kSelfAttentionGrad;
}

bool Drops(const OpView& op) {
  return op.has_input(IsGradient(op) ? 5 : 1) && op.Float("ratio") > 0;
}

}  // namespace

// The batch, and the heads: of qkv as three groups.
std::vector<OpSignature> AttentionSignatures(const OpView& op) {
  SignatureList list(op);
  const Sbp qkv = Sbp::Split(2, 3), y = Sbp::Split(2), lse = Sbp::Split(1);
  if (!IsGradient(op)) {
    list.Split({0, kWhole}, {0, 0});
    list.Add({{qkv}, {y, lse}});
    return list.Take();
  }
  list.Split({0, 0, 0, 0, 0, kWhole}, {0});
  list.Add({{qkv, y, lse, y, lse}, {qkv}});
  list.Partial(ReduceOp::kSum, {3, 4});  // linear in the results' gradients
  return list.Take();
}

absl::Status LocalAttentionAttrs(const OpView& op, const OpSignature& signature,
                                 int parts, int index, AttrMap* attrs) {
  const Sbp qkv = signature.inputs[0];
  if (!qkv.is_split()) return absl::OkStatus();
  const bool heads = qkv.dim == 2;
  if (heads && op.Int("heads") % parts != 0) {
    return op.Error(ErrorCode::kShapeMismatch,
                    absl::StrCat(parts, " members cannot share ",
                                 op.Int("heads"), " heads"));
  }
  if (heads) attrs->Set("heads", op.Int("heads") / parts);
  // Of the weights [batch, heads, tokens, tokens].
  if (Drops(op)) {
    Cuts::Append(heads ? Sbp::Split(1) : qkv, parts, index, attrs);
  }
  return absl::OkStatus();
}

}  // namespace weft
