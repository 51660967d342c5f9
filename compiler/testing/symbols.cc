#include "compiler/testing/symbols.h"

#include "absl/strings/str_cat.h"
#include "compiler/placement/kernel_desc.h"
#include "core/base/hash.h"
#include "core/ops/to_all.h"
#include "core/ops/update.h"

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

namespace {

uint64_t OpSymbol(const plan::Kernel &kernel,
                  const std::vector<uint64_t> &operands) {
  plan::Kernel what;  // names no device
  what.set_op(kernel.op());
  *what.mutable_attributes() = kernel.attributes();
  uint64_t symbol = StableHash(StableBytes(what));
  for (uint64_t o : operands) symbol = Combine(symbol, o);
  return symbol;
}

}  // namespace

std::vector<uint64_t> OpSymbols(const plan::Kernel &kernel,
                                const std::vector<uint64_t> &operands,
                                int num_results) {
  std::vector<uint64_t> out;
  const OpSchema *schema =
      OpRegistry::Global().FindOrNull(OpName(static_cast<OpId>(kernel.op())));
  if (schema == nullptr || !UpdatesMany(*schema)) {
    const uint64_t symbol = OpSymbol(kernel, operands);
    const bool equal = schema != nullptr && GivesToAll(*schema);
    for (int i = 0; i < num_results; ++i) {
      // But for the squares of weft.ReduceToAll, the one that is not of all.
      const bool of_all = equal && i < static_cast<int>(operands.size());
      out.push_back(Combine(symbol, of_all ? 0 : i));
    }
    return out;
  }
  const UpdateLayout layout =
      LayoutOfUpdate(*schema, static_cast<int>(operands.size()));
  for (int v = 0; v < layout.variables; ++v) {
    std::vector<uint64_t> own(operands.begin() + layout.State(v, 0),
                              operands.begin() + layout.State(v + 1, 0));
    own.push_back(operands[layout.Gradient(v)]);
    own.insert(own.end(), operands.begin() + layout.Shared(0), operands.end());
    const uint64_t symbol = OpSymbol(kernel, own);
    for (int i = 0; i < layout.slots; ++i) out.push_back(Combine(symbol, i));
  }
  return out;
}

}  // namespace weft
