// 16-bit formats for ops whose kernels are written for float: operands are
// converted to float in the workspace, the float kernel runs, the results are
// rounded once.
//
//   return ViaFloat(op, [](const Op& op) { return WithF32F64(...); });
//
// Threading: as any factory.
#ifndef WEFT_DEVICES_CPU_VIA_FLOAT_H_
#define WEFT_DEVICES_CPU_VIA_FLOAT_H_

#include "devices/cpu/target.h"

WEFT_CPU_BEGIN

// What `make` gives for `op` itself where no operand has a 16-bit format.
std::unique_ptr<Kernel> ViaFloat(const Op& op, Factory make);

WEFT_CPU_END

#endif  // WEFT_DEVICES_CPU_VIA_FLOAT_H_
