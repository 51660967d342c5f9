#include "compiler/testing/symbols.h"

#include "absl/strings/str_cat.h"
#include "compiler/placement/kernel_desc.h"
#include "core/base/hash.h"

namespace weft {

uint64_t Combine(uint64_t a, uint64_t b) {
  return StableHash(absl::StrCat(a, ",", b));
}

uint64_t SourceSymbol(absl::string_view value, int period, int micro) {
  return StableHash(absl::StrCat(value, "@", period, ".", micro));
}

uint64_t StateSymbol(absl::string_view name) {
  return StableHash(absl::StrCat("initial ", name));
}

uint64_t OpSymbol(const plan::Kernel &kernel,
                  const std::vector<uint64_t> &operands) {
  plan::Kernel what;  // names no device
  what.set_op(kernel.op());
  *what.mutable_attributes() = kernel.attributes();
  uint64_t symbol = StableHash(StableBytes(what));
  for (uint64_t o : operands) symbol = Combine(symbol, o);
  return symbol;
}

}  // namespace weft
