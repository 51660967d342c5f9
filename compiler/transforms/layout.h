// "layout": keeps images in blocks of channels (core/ops/image_layout.h) from
// one convolution to the next, so that no kernel reorders what another one has
// just written.
//
// Around the convolutions and their gradients that the device computes on such
// images, a region grows: pools, batch normalisation, elementwise ops and
// broadcasts join while they bring more bytes inside than they cut off. Within
// the region values lie in blocks. A value that crosses its border is turned
// once, by a Reshape and a Transpose, for all its readers; one of 1 x 1 pixels
// by a Reshape alone. So nothing is turned and turned back. Weights, statistics
// and results of one number a channel lie as before.
//
// What the device has no kernel for in this layout, what is in the control
// order, and images whose channels fill no blocks stay outside. In particular a
// convolution may read an image of 1 or 3 channels as it is and write blocks.
// Where PassSettings.runs_as_kernel is not given, nothing is changed.
//
// Gradients are to be there already, regions of weft.fused not yet.
//
// Threading: thread-compatible.
#ifndef WEFT_COMPILER_TRANSFORMS_LAYOUT_H_
#define WEFT_COMPILER_TRANSFORMS_LAYOUT_H_

#include <memory>

#include "compiler/pass/pass.h"

namespace weft {

std::unique_ptr<Pass> CreateLayoutPass();

}  // namespace weft

#endif  // WEFT_COMPILER_TRANSFORMS_LAYOUT_H_
