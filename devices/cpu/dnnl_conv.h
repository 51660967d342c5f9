// Convolution and its gradients by oneDNN, f32.
//
// Images in blocks of channels are read and written where they lie; those in
// NCHW are reordered at each launch where oneDNN wants them otherwise (it takes
// up to three channels as they are). Weights always lie as [M,C/group,kH,kW]
// and are reordered at each launch: that costs 0.1 % of the convolution's time
// at 32 to 64 channels, 1.5 % at 256, 6 % at 512.
//
// A convolution of 3x3 windows with no stride, in blocks, is Winograd's F(4,3)
// where that is estimated to take less than a direct one: it rounds otherwise,
// to some 1e-6 of the largest values.
//
//   std::unique_ptr<Kernel> k = MakeDnnlConv(WEFT_OP_CONV, shape);
//
// Threading: as kernels.
#ifndef WEFT_DEVICES_CPU_DNNL_CONV_H_
#define WEFT_DEVICES_CPU_DNNL_CONV_H_

#include "devices/cpu/target.h"
#include "devices/cpu/window.h"

WEFT_CPU_BEGIN

struct ConvShape {
  Window window;
  int64_t groups = 1;
  int64_t in_per_group = 0;
  int64_t out_per_group = 0;
  // Forward: an operand. Gradient of the weights: a second result.
  bool bias = false;
  bool relu = false;  // forward: of the result
  bool x_blocked = false;
  bool y_blocked = false;

  int64_t out_channels() const { return groups * out_per_group; }
};

// The kernel of Conv, ConvGradInput or ConvGradWeights on no empty operands.
// Null where oneDNN has none, or, for images in blocks, none that is fast on
// this processor.
std::unique_ptr<Kernel> MakeDnnlConv(uint32_t op, const ConvShape& shape);

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_DNNL_CONV_H_
