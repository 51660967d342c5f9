// Batch normalisation over images in blocks of channels (batch_norm_blocks.cc);
// over [N,C,...] it is in batch_norm.cc. The descriptions were read: operands
// and results have one type, f32 or f64, and the statistics fit.
//
// Threading: as factories.
#ifndef WEFT_DEVICES_CPU_BATCH_NORM_H_
#define WEFT_DEVICES_CPU_BATCH_NORM_H_

#include "devices/cpu/epilogue.h"
#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

struct Channels {
  int64_t batch = 0;
  int64_t channels = 0;
  int64_t pixels = 1;
  bool blocked = false;  // [N,C/16,H,W,16]

  int64_t per_channel() const { return batch * pixels; }
};

std::unique_ptr<Kernel> NormalizationInBlocks(const Op& op, const Channels& s);
std::unique_ptr<Kernel> NormTrainingInBlocks(const Op& op, const Channels& s,
                                             const Epilogue& e);
std::unique_ptr<Kernel> NormGradInBlocks(const Op& op, const Channels& s);

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_BATCH_NORM_H_
