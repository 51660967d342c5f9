#include "core/ops/activation.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/expr.h"

namespace weft {
namespace {

absl::Status RequireActivation(const OpView& op) {
  if (!op.Has(kActivation) || op.String(kActivation) == "none" ||
      op.String(kActivation) == "relu") {
    return absl::OkStatus();
  }
  return op.Error(
      ErrorCode::kBadAttribute,
      absl::StrCat("attribute '", kActivation, "' is \"",
                   op.String(kActivation), "\", want \"none\" or \"relu\""));
}

std::vector<Value> DecomposeActivation(const OpView& op,
                                       absl::Span<const Value> inputs,
                                       NodeEmitter& emit) {
  AttrMap attrs = op.attrs();
  attrs.Erase(kActivation);
  const int count = static_cast<int>(op.outputs().size());
  std::vector<Value> results =
      emit.Emit(op.schema().name, inputs, std::move(attrs), count);
  results.resize(count);  // invalid where the emitter has failed
  results[0] = Apply("Relu", {Expr(emit, results[0])});
  return results;
}

}  // namespace

bool HasActivation(const OpView& op) {
  return op.Has(kActivation) && op.String(kActivation) == "relu";
}

void AddActivation(OpSchema* schema) {
  schema->attrs.push_back(AttrSpec::Optional(kActivation, AttrKind::kString));
  schema->infer = [infer = schema->infer](const OpView& op,
                                          std::vector<TensorType>* out) {
    WEFT_RETURN_IF_ERROR(RequireActivation(op));
    return infer(op, out);
  };
  schema->gradient = [gradient = schema->gradient](const GradientContext& g) {
    if (!HasActivation(g.op) || !g.output_grads[0].valid()) return gradient(g);
    Expr y(g.emit, g.outputs[0]), dy(g.emit, g.output_grads[0]);
    std::vector<Value> grads(g.output_grads.begin(), g.output_grads.end());
    grads[0] = Where(Apply("Greater", {y, y.Like(0)}), dy, dy.Like(0));
    return gradient({g.op, g.inputs, g.outputs, grads, g.emit});
  };
  schema->decompose = [decompose = schema->decompose](
                          const OpView& op, absl::Span<const Value> inputs,
                          NodeEmitter& emit) {
    return HasActivation(op) ? DecomposeActivation(op, inputs, emit)
                             : decompose(op, inputs, emit);
  };
}

}  // namespace weft
