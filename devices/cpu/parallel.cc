#include <algorithm>

#include "devices/cpu/kernel.h"
#include "plugins/sdk/weft_host.hpp"

namespace weft_cpu {

void RunBlocks(int64_t n, int64_t block,
               void (*fn)(void* arg, int64_t begin, int64_t end), void* arg) {
  const uint64_t blocks = static_cast<uint64_t>((n - 1) / block + 1);
  weft_sdk::Host::ParallelFor(blocks, [=](uint64_t i) {
    const int64_t begin = static_cast<int64_t>(i) * block;
    fn(arg, begin, begin + std::min(block, n - begin));
  });
}

}  // namespace weft_cpu
