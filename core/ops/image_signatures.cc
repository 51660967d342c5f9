// Ops on images [N,C,...], whose batch and channels are dimensions 0 and 1
// however they lie (core/ops/image_layout.h): a cut of the channels in blocks
// is one of whole blocks. Rows and columns stay whole: windows overlap.
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ops/activation.h"
#include "core/ops/family_signatures.h"
#include "core/ops/image_layout.h"
#include "core/ops/signature_rules.h"

namespace weft {
namespace {

constexpr int kBatch = 0, kChannels = 1;
// Of weights [M,C/group,...]: output and input channels.
constexpr int kOut = 0, kIn = 1;

bool HasGroups(const OpView& op) { return op.Int("group") != 1; }

}  // namespace

// ---- Convolution ------------------------------------------------------------

std::vector<OpSignature> ConvSignatures(const OpView& op) {
  SignatureList list(op);
  list.Split({kBatch, kWhole, kWhole}, {kBatch});
  if (HasGroups(op)) {  // the groups themselves are cut
    list.Split({kChannels, kOut, 0}, {kChannels}, 1);
  } else {
    list.Split({kWhole, kOut, 0}, {kChannels});
  }
  if (HasActivation(op)) return list.Take();  // of the sum, not of its parts
  // The bias is added once: it is a partial sum as the result is.
  if (!HasGroups(op)) list.Split({kChannels, kIn, kSummed}, {kSummed});
  list.Partial(ReduceOp::kSum, {0, 2});
  list.Partial(ReduceOp::kSum, {1, 2});
  return list.Take();
}

// (dY, W) -> dX
std::vector<OpSignature> ConvGradInputSignatures(const OpView& op) {
  SignatureList list(op);
  list.Split({kBatch, kWhole}, {kBatch});
  if (HasGroups(op)) {
    list.Split({kChannels, kOut}, {kChannels}, 1);
  } else {
    list.Split({kWhole, kIn}, {kChannels});
    list.Split({kChannels, kOut}, {kSummed});
  }
  list.Partial(ReduceOp::kSum, {0});
  list.Partial(ReduceOp::kSum, {1});
  return list.Take();
}

// (dY, X) -> dW [, dB]
std::vector<OpSignature> ConvGradWeightsSignatures(const OpView& op) {
  SignatureList list(op);
  list.Split({kBatch, kBatch}, {kSummed, kSummed});
  if (HasGroups(op)) {
    list.Split({kChannels, kChannels}, {kOut, 0}, 1);
  } else {
    list.Split({kChannels, kWhole}, {kOut, 0});
    list.Split({kWhole, kChannels}, {kIn, kWhole});
  }
  list.Partial(ReduceOp::kSum, {0});
  list.Split({kWhole, kSummed}, {kSummed, kWhole});
  return list.Take();
}

// A cut of the channels of both sides is one of the groups.
absl::Status LocalConvAttrs(const OpView& op, const OpSignature& signature,
                            int parts, int index, AttrMap* attrs) {
  const bool to_weights = op.schema().id == OpId::kConvGradWeights;
  if (op.schema().id != OpId::kConv) {
    const char* shape = to_weights ? "weight_shape" : "input_shape";
    WEFT_RETURN_IF_ERROR(LocalDimOf(shape)(op, signature, parts, index, attrs));
  }
  const Sbp channels = to_weights ? Sbp::Split(kOut) : Sbp::Split(kChannels);
  if (!HasGroups(op) || signature.outputs[0] != channels) {
    return absl::OkStatus();
  }
  const int64_t group = op.Int("group");
  if (group % parts != 0) {
    return op.Error(
        ErrorCode::kShapeMismatch,
        absl::StrCat(parts, " members cannot share ", group, " groups"));
  }
  attrs->Set("group", group / parts);
  return absl::OkStatus();
}

// ---- Pools ------------------------------------------------------------------

// Each plane is on its own. An average is linear, the choice of a maximum is
// not; its gradient is linear in dY.
std::vector<OpSignature> PoolSignatures(const OpView& op) {
  SignatureList list(op);
  list.Split({kBatch, kBatch}, {kBatch});
  list.Split({kChannels, kChannels}, {kChannels});
  if (op.schema().id != OpId::kMaxPool) list.Partial(ReduceOp::kSum, {0});
  return list.Take();
}

// ---- Batch normalisation ----------------------------------------------------

// With the statistics of a batch only channels can be cut; with given ones,
// every dimension.
std::vector<OpSignature> BatchNormalizationSignatures(const OpView& op) {
  SignatureList list(op);
  list.Split({kChannels, 0, 0, 0, 0}, {kChannels, 0, 0});
  if (op.Int("training_mode") != 0) return list.Take();
  SplitAlike(op, op.input(0).shape.rank(), kChannels, &list);
  return list.Take();
}

std::vector<OpSignature> BatchNormTrainingSignatures(const OpView& op) {
  SignatureList list(op);
  list.Split({kChannels, 0, 0, kChannels}, {kChannels, 0, 0});
  return list.Take();
}

std::vector<OpSignature> BatchNormGradSignatures(const OpView& op) {
  SignatureList list(op);
  list.Split({kChannels, kChannels, 0, 0, 0}, {kChannels, 0, 0});
  list.Partial(ReduceOp::kSum, {0});  // linear in dY
  return list.Take();
}

}  // namespace weft
