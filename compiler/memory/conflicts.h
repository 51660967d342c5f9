// ConflictMatrix: which of n blocks may not overlap in memory, a bit a pair, so
// that thousands of blocks that mostly live together cost megabytes and not
// gigabytes. FindConflicts fills one for registers.
//
//   ConflictMatrix conflicts(3);
//   conflicts.Set(0, 2);
//   conflicts.Has(2, 0);   // true
//
//   RegisterConflicts found = FindConflicts(live, hb, registers);
//   found.registers[row];  // whose row it is
//
// Threading: thread-compatible. Ownership: values.
#ifndef WEFT_COMPILER_MEMORY_CONFLICTS_H_
#define WEFT_COMPILER_MEMORY_CONFLICTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "compiler/check/happens_before.h"

namespace weft {

class ConflictMatrix {
 public:
  explicit ConflictMatrix(int n)
      : n_(n),
        words_((static_cast<size_t>(n) + 63) / 64),
        bits_(words_ * 64 * words_, 0) {}

  int size() const { return n_; }
  bool Has(int i, int j) const { return Row(i)[j / 64] >> (j % 64) & 1; }
  // Bit j of row i, for j < size(); others are 0.
  absl::Span<const uint64_t> Row(int i) const {
    return absl::MakeConstSpan(bits_).subspan(words_ * i, words_);
  }

  // Both Has(i, j) and Has(j, i). Pre-condition: i != j.
  void Set(int i, int j) {
    SetRun(i, j, j + 1);
    SetRun(j, i, i + 1);
  }
  // Has(i, j) for j in [from, to), not the other way round: Mirror() does that
  // for all rows at once.
  void SetRun(int i, int from, int to);
  // Makes it symmetric, and no block its own conflict.
  void Mirror();

 private:
  uint64_t* MutableRow(int i) { return bits_.data() + words_ * i; }

  int n_;
  size_t words_;                // of a row
  std::vector<uint64_t> bits_;  // rows, up to a multiple of 64
};

struct RegisterConflicts {
  std::vector<uint32_t> registers;  // by row
  ConflictMatrix matrix{0};
};

// Registers that own their memory. In conflict are those that nothing keeps
// from being live together (LiveRanges), and one with several copies with all:
// the copies are there to be live together.
//
// Cost: for each range that a register is live a search in each stream, and a
// bit a pair; what begins outside of all streams is looked at one by one as far
// as clocks leave it open.
RegisterConflicts FindConflicts(const check::LiveRanges& live,
                                const check::HappensBefore& hb,
                                absl::Span<const uint32_t> registers,
                                absl::Span<const uint32_t> copies);

}  // namespace weft

#endif  // WEFT_COMPILER_MEMORY_CONFLICTS_H_
