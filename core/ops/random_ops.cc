// Random tensors: see philox.h for what the numbers are.
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/cuts.h"
#include "core/ops/families.h"
#include "core/ops/family_signatures.h"
#include "core/ops/infer.h"

namespace weft {
namespace {

absl::Status InferRandom(const OpView& op, std::vector<TensorType>* out) {
  WEFT_RETURN_IF_ERROR(RequireCounter(op, 0));
  WEFT_ASSIGN_OR_RETURN(Shape shape, ShapeAttr(op, "shape"));
  DType dtype = op.Type("dtype");
  if (!IsFloat(dtype)) {
    return op.Error(ErrorCode::kBadAttribute,
                    absl::StrCat("attribute 'dtype' must be a float, got ",
                                 DTypeName(dtype)));
  }
  WEFT_RETURN_IF_ERROR(Cuts::FromOp(op, shape).status());
  *out = {{dtype, shape}};
  return absl::OkStatus();
}

// `first` and `second` are the distribution's own attributes.
OpSchema MakeRandom(OpId id, AttrSpec first, AttrSpec second,
                    double flops_per_element) {
  OpSchema schema(id);
  schema.inputs = {1, 1};
  schema.effect = OpEffect::kRandom;
  schema.attrs = {AttrSpec::Required("shape", AttrKind::kInts),
                  AttrSpec::Required("dtype", AttrKind::kDType),
                  std::move(first),
                  std::move(second),
                  AttrSpec::Default("seed", 0),
                  AttrSpec::Default("stream", 0),
                  Cuts::Spec()};
  schema.signatures = RandomSignatures;
  schema.local_attrs = LocalRandomAttrs;
  schema.infer = InferRandom;
  schema.gradient = ZeroGradient;
  schema.cost = [flops_per_element](const OpView& op) {
    return Cost{flops_per_element * OutputElements(op), BytesMoved(op).bytes};
  };
  return schema;
}

}  // namespace

void RegisterRandomOps(OpRegistry* registry) {
  // A block of ten rounds is about 80 instructions for four elements.
  registry->Add(MakeRandom(OpId::kRandomUniform, AttrSpec::Default("low", 0.0),
                           AttrSpec::Default("high", 1.0), 20));
  registry->Add(MakeRandom(OpId::kRandomNormal, AttrSpec::Default("mean", 0.0),
                           AttrSpec::Default("scale", 1.0), 60));
}

}  // namespace weft
