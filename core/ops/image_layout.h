// How the dense tensor of an image [N,C,H,W] lies in memory:
//
//   "NCHW"      [N,C,H,W]: every channel is a plane of its own
//   "NCHW16c"   [N,C/16,H,W,16]: the channels in blocks of 16, which lie
//               together at each pixel; C is a multiple of 16
//
// Convolution, pooling and batch normalisation name the layout of their images
// by attributes; an absent one is NCHW. Everything else, weights included, lies
// as ever, and all other attributes speak of [N,C,H,W]. For any other op an
// image in blocks is a tensor of rank 5 like another. Programs are written in
// NCHW; the pass "layout" (compiler/transforms/layout.h) chooses.
//
//   WEFT_ASSIGN_OR_RETURN(ImageLayout layout, LayoutOf(op, "layout"));
//   WEFT_ASSIGN_OR_RETURN(Shape x, ImageShape(op, 0, layout));   // [N,C,H,W]
//   ...
//   WEFT_ASSIGN_OR_RETURN(Shape out, StoredShape(op, layout, y));
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_OPS_IMAGE_LAYOUT_H_
#define WEFT_CORE_OPS_IMAGE_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/expr.h"
#include "core/ops/schema.h"

namespace weft {

enum class ImageLayout : uint8_t { kNchw, kNchw16c };

inline constexpr char kNchw16c[] = "NCHW16c";
inline constexpr int64_t kChannelBlock = 16;

// An operand or result that is an image, and the attribute that says how it
// lies.
struct ImageUse {
  int index;
  absl::string_view attr;
};
struct ImageUses {
  std::vector<ImageUse> inputs;
  std::vector<ImageUse> outputs;
};

// The images of an op that has such attributes; null for all others.
const ImageUses* ImagesOf(OpId id);

// The attributes themselves, for a schema.
AttrSpec LayoutSpec(absl::string_view attr = "layout");

// kBadAttribute for a layout that there is not.
absl::StatusOr<ImageLayout> LayoutOf(const OpView& op,
                                     absl::string_view attr = "layout");
// True where an attribute says other than NCHW. Pre-condition: inferred.
bool HasBlockedImages(const OpView& op);
// Copies a layout attribute that `op` has.
void CopyLayout(const OpView& op, absl::string_view attr, AttrMap* attrs);

// [N,C,H,W] of operand `input`, which lies as `layout` says; its own shape for
// NCHW, of any rank. kShapeMismatch where it does not lie so.
absl::StatusOr<Shape> ImageShape(const OpView& op, int input,
                                 ImageLayout layout);
// The other way round; kShapeMismatch where the channels fill no blocks.
absl::StatusOr<Shape> StoredShape(const OpView& op, ImageLayout layout,
                                  const Shape& image);
// The same without a check: C is a multiple of kChannelBlock, the rank is 4
// (for ToBlocks) or 5.
Shape ToBlocks(const Shape& image);
Shape FromBlocks(const Shape& stored);

// NCHW <-> NCHW16c as nodes.
Expr ToBlocks(const Expr& image);
Expr FromBlocks(const Expr& stored);

// One number a channel, [C], so that it broadcasts to an image of shape
// `stored`; and the sum over all but the channels, [C].
Expr PerChannel(const Expr& v, ImageLayout layout, const Shape& stored);
Expr SumOfChannels(const Expr& x, ImageLayout layout);

// `decompose` for images in NCHW; others are turned to it and back around the
// op itself.
OpSchema::DecomposeFn DecomposeInNchw(OpSchema::DecomposeFn decompose);

}  // namespace weft

#endif  // WEFT_CORE_OPS_IMAGE_LAYOUT_H_
