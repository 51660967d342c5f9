// 16-bit formats for ops whose kernels are written for float: operands are
// converted to float in the workspace, the float kernel runs, the results are
// rounded once.
//
//   return ViaFloat(op, [](const Op& op) { return WithF32F64(...); });
//
// Threading: as any factory.
#ifndef WEFT_DEVICES_CPU_VIA_FLOAT_H_
#define WEFT_DEVICES_CPU_VIA_FLOAT_H_

#include "devices/cpu/kernel.h"

namespace weft_cpu {

// What `make` gives for `op` itself where no operand has a 16-bit format.
std::unique_ptr<Kernel> ViaFloat(const Op& op, Factory make);

}  // namespace weft_cpu

#endif  // WEFT_DEVICES_CPU_VIA_FLOAT_H_
