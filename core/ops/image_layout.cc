#include "core/ops/image_layout.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace weft {
namespace {

using Ints = std::vector<int64_t>;

ImageLayout CheckedLayout(const OpView& op, absl::string_view attr) {
  return *LayoutOf(op, attr);
}

}  // namespace

const ImageUses* ImagesOf(OpId id) {
  constexpr absl::string_view kOf = "layout", kOut = "out_layout";
  static const auto* conv = new ImageUses{{{0, kOf}}, {{0, kOut}}};
  static const auto* grad_input = new ImageUses{{{0, kOut}}, {{0, kOf}}};
  static const auto* grad_weights = new ImageUses{{{0, kOut}, {1, kOf}}, {}};
  static const auto* one = new ImageUses{{{0, kOf}}, {{0, kOf}}};
  static const auto* residual = new ImageUses{{{0, kOf}, {3, kOf}}, {{0, kOf}}};
  static const auto* two = new ImageUses{{{0, kOf}, {1, kOf}}, {{0, kOf}}};
  switch (id) {
    case OpId::kConv:
      return conv;
    case OpId::kConvGradInput:
      return grad_input;
    case OpId::kConvGradWeights:
      return grad_weights;
    case OpId::kMaxPool:
    case OpId::kAveragePool:
    case OpId::kAveragePoolGrad:
    case OpId::kGlobalAveragePool:
    case OpId::kBatchNormalization:
      return one;
    case OpId::kBatchNormTraining:
      return residual;
    case OpId::kMaxPoolGrad:
    case OpId::kBatchNormGrad:
      return two;
    default:
      return nullptr;
  }
}

AttrSpec LayoutSpec(absl::string_view attr) {
  return AttrSpec::Optional(std::string(attr), AttrKind::kString);
}

absl::StatusOr<ImageLayout> LayoutOf(const OpView& op, absl::string_view attr) {
  if (!op.Has(attr) || op.String(attr) == "NCHW") return ImageLayout::kNchw;
  if (op.String(attr) == kNchw16c) return ImageLayout::kNchw16c;
  return op.Error(ErrorCode::kBadAttribute,
                  absl::StrCat("attribute '", attr, "' is \"", op.String(attr),
                               "\", want \"NCHW\" or \"", kNchw16c, "\""));
}

bool HasBlockedImages(const OpView& op) {
  const ImageUses* uses = ImagesOf(op.schema().id);
  if (uses == nullptr) return false;
  for (const auto* list : {&uses->inputs, &uses->outputs}) {
    for (const ImageUse& use : *list) {
      if (CheckedLayout(op, use.attr) != ImageLayout::kNchw) return true;
    }
  }
  return false;
}

void CopyLayout(const OpView& op, absl::string_view attr, AttrMap* attrs) {
  if (op.Has(attr)) attrs->Set(attr, op.String(attr));
}

Shape ToBlocks(const Shape& image) {
  return {image.dim(0), image.dim(1) / kChannelBlock, image.dim(2),
          image.dim(3), kChannelBlock};
}

Shape FromBlocks(const Shape& stored) {
  return {stored.dim(0), stored.dim(1) * kChannelBlock, stored.dim(2),
          stored.dim(3)};
}

absl::StatusOr<Shape> ImageShape(const OpView& op, int input,
                                 ImageLayout layout) {
  const Shape& shape = op.input(input).shape;
  if (layout == ImageLayout::kNchw) return shape;
  if (shape.rank() == 5 && shape.dim(4) == kChannelBlock &&
      shape.dim(1) <= std::numeric_limits<int64_t>::max() / kChannelBlock) {
    return FromBlocks(shape);
  }
  return op.Error(
      ErrorCode::kShapeMismatch,
      absl::StrCat("operand ", input, ", ", op.input(input).ToString(),
                   ", is not [N,C/16,H,W,16], as its layout says"));
}

absl::StatusOr<Shape> StoredShape(const OpView& op, ImageLayout layout,
                                  const Shape& image) {
  if (layout == ImageLayout::kNchw) return image;
  if (image.rank() == 4 && image.dim(1) % kChannelBlock == 0) {
    return ToBlocks(image);
  }
  return op.Error(
      ErrorCode::kShapeMismatch,
      absl::StrCat("an image ", image.ToString(),
                   " has no channels in blocks of ", kChannelBlock));
}

Expr ToBlocks(const Expr& image) {
  if (!image.valid()) return image;
  const Shape to = ToBlocks(image.shape());
  Expr split = ReshapeTo(
      image, {to.dim(0), to.dim(1), kChannelBlock, to.dim(2), to.dim(3)});
  return Apply("Transpose", {split}, {{"perm", Ints{0, 1, 3, 4, 2}}});
}

Expr FromBlocks(const Expr& stored) {
  if (!stored.valid()) return stored;
  const Shape to = FromBlocks(stored.shape());
  return ReshapeTo(
      Apply("Transpose", {stored}, {{"perm", Ints{0, 1, 4, 2, 3}}}), to);
}

Expr PerChannel(const Expr& v, ImageLayout layout, const Shape& stored) {
  if (layout == ImageLayout::kNchw16c) {
    return ReshapeTo(v, {stored.dim(1), 1, 1, kChannelBlock});
  }
  Ints dims(stored.rank() - 1, 1);
  dims[0] = stored.dim(1);
  return ReshapeTo(v, Shape(dims));
}

Expr SumOfChannels(const Expr& x, ImageLayout layout) {
  if (!x.valid()) return x;
  const Shape shape = x.shape();
  if (layout == ImageLayout::kNchw16c) {
    return ReshapeTo(Sum(x, {0, 2, 3}, /*keepdims=*/false),
                     {shape.dim(1) * kChannelBlock});
  }
  Ints axes = {0};
  for (int d = 2; d < shape.rank(); ++d) axes.push_back(d);
  return Sum(x, axes, /*keepdims=*/false);
}

OpSchema::DecomposeFn DecomposeInNchw(OpSchema::DecomposeFn decompose) {
  return [decompose](const OpView& op, absl::Span<const Value> inputs,
                     NodeEmitter& emit) -> std::vector<Value> {
    if (!HasBlockedImages(op)) return decompose(op, inputs, emit);
    const ImageUses& uses = *ImagesOf(op.schema().id);
    std::vector<Value> operands(inputs.begin(), inputs.end());
    AttrMap attrs = op.attrs();
    for (const ImageUse& use : uses.inputs) {
      if (use.index >= op.num_inputs() || !op.has_input(use.index) ||
          CheckedLayout(op, use.attr) == ImageLayout::kNchw) {
        continue;
      }
      operands[use.index] = FromBlocks(Expr(emit, operands[use.index]));
    }
    for (const auto* list : {&uses.inputs, &uses.outputs}) {
      for (const ImageUse& use : *list) attrs.Erase(use.attr);
    }
    const int count = static_cast<int>(op.outputs().size());
    std::vector<Value> results =
        emit.Emit(op.schema().name, operands, std::move(attrs), count);
    results.resize(count);  // invalid where the emitter has failed
    for (const ImageUse& use : uses.outputs) {
      if (use.index >= count ||
          CheckedLayout(op, use.attr) == ImageLayout::kNchw) {
        continue;
      }
      results[use.index] = ToBlocks(Expr(emit, results[use.index]));
    }
    return results;
  };
}

}  // namespace weft
