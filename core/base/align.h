// AlignUp: sizes and offsets as multiples of an alignment.
//
//   offset = AlignUp(end, device.alignment);
//
// Threading: pure function.
#ifndef WEFT_CORE_BASE_ALIGN_H_
#define WEFT_CORE_BASE_ALIGN_H_

#include <cstdint>

namespace weft {

// The smallest multiple of `alignment` that is >= `bytes`. An alignment of 0
// counts as 1; it need not be a power of two. Pre-condition: the result fits.
constexpr uint64_t AlignUp(uint64_t bytes, uint64_t alignment) {
  if (alignment <= 1) return bytes;
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace weft

#endif  // WEFT_CORE_BASE_ALIGN_H_
