// Who multiplies bf16: oneDNN as it is, or oneDNN in f32 with a conversion of
// the operands. By default as it is where the processor has AMX: AVX512-BF16
// alone is slower than f32 on some, and a conversion costs little.
//
// Threading: thread-safe. Asked when a kernel is matched and when it is opened:
// choose before.
#ifndef WEFT_DEVICES_CPU_BF16_H_
#define WEFT_DEVICES_CPU_BF16_H_

#include <string_view>

namespace weft_cpu {

bool MultipliesBf16();

// "auto", "onednn" (also where it emulates the instructions) or "f32"; false:
// no such name.
bool ChooseBf16(std::string_view name);

}  // namespace weft_cpu

#endif  // WEFT_DEVICES_CPU_BF16_H_
