// Symbols: hashes of how a value was computed; what SymbolicRun works on.
//
// Threading: pure functions. Test only.
#ifndef WEFT_COMPILER_TESTING_SYMBOLS_H_
#define WEFT_COMPILER_TESTING_SYMBOLS_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/proto/plan.pb.h"

namespace weft {

// Of memory that nobody has written.
inline constexpr uint64_t kUndefinedSymbol = 0xdeadbeef;

// Of a symbol and one more; the order matters.
uint64_t Combine(uint64_t a, uint64_t b);

// What a source gives in a micro-batch of a period.
uint64_t SourceSymbol(absl::string_view value, int period, int micro);

// What a variable holds at the start.
uint64_t StateSymbol(absl::string_view name);

// Results of op and attributes on these operands. An update of several
// variables gives what one of each would.
std::vector<uint64_t> OpSymbols(const plan::Kernel &kernel,
                                const std::vector<uint64_t> &operands,
                                int num_results);

}  // namespace weft

#endif  // WEFT_COMPILER_TESTING_SYMBOLS_H_
