// Which instructions this plugin uses: the newest class that the processor has,
// or an older one that the user asks for (option "isa" of the device, for
// example cpu:0?isa=avx2). One choice for the process, made once: oneDNN has
// one too.
//
// Kernels of all classes compute the same bits, except where oneDNN multiplies.
//
// Threading: thread-safe.
#ifndef WEFT_DEVICES_CPU_ISA_H_
#define WEFT_DEVICES_CPU_ISA_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "devices/cpu/kernel.h"

namespace weft_cpu {

struct Isa {
  const char* name;  // "sse4", "avx2", "avx512"; "plain" off x86
  KernelTable kernels;
};

// Takes the class of this name; "" or "native" for the best. Throws
// weft_sdk::Error: WEFT_INVALID for a name that does not exist or another one
// than was taken before, WEFT_UNSUPPORTED where the processor lacks it.
const Isa& ChooseIsa(std::string_view name);

// What was chosen; makes the choice of the best where none was made.
inline const Isa& ChosenIsa() { return ChooseIsa(""); }

// The name of what is chosen or would be; makes no choice.
std::string DescribeIsa();

// The ops that have kernels, the same for all classes; makes no choice.
std::vector<uint32_t> SupportedOps();

}  // namespace weft_cpu

#endif  // WEFT_DEVICES_CPU_ISA_H_
