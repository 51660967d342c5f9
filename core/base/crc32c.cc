#include "core/base/crc32c.h"

#include <cstring>

namespace weft {
namespace {

#if defined(__x86_64__)
// The instruction of SSE4.2 has this very polynomial.
__attribute__((target("sse4.2"))) uint32_t ByInstruction(
    absl::string_view bytes) {
  uint64_t crc = ~uint32_t{0};
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  for (; end - at >= 8; at += 8) {
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    crc = __builtin_ia32_crc32di(crc, word);
  }
  auto rest = static_cast<uint32_t>(crc);
  for (; at != end; ++at) {
    rest = __builtin_ia32_crc32qi(rest, static_cast<unsigned char>(*at));
  }
  return ~rest;
}
#endif

}  // namespace

uint32_t Crc32c(absl::string_view bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ByInstruction(bytes);
#endif
  return internal::Crc32cByTable(bytes);
}

}  // namespace weft
