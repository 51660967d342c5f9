// "Did you mean": the known word nearest to a mistyped one, for every message
// about an unknown name (operators, attributes, flags, fields, environment).
//
//   DidYouMean("Rellu", {"Relu", "Gelu"})   // "; did you mean 'Relu'?"
//   DidYouMean("zebra", {"Relu"})           // ""
//
// Threading: free functions, thread-safe.
#ifndef WEFT_CORE_BASE_SUGGEST_H_
#define WEFT_CORE_BASE_SUGGEST_H_

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace weft {

// Insertions, deletions, substitutions and swaps of neighbours that turn `a`
// into `b`, ignoring case.
inline int EditDistance(absl::string_view a, absl::string_view b) {
  auto same = [](char x, char y) {
    return absl::ascii_tolower(x) == absl::ascii_tolower(y);
  };
  const int columns = static_cast<int>(b.size()) + 1;
  // Three rows of the usual table: two above, above, current.
  std::vector<int> before(columns), above(columns), row(columns);
  for (int j = 0; j < columns; ++j) above[j] = j;
  for (int i = 1; i <= static_cast<int>(a.size()); ++i) {
    row[0] = i;
    for (int j = 1; j < columns; ++j) {
      int substitute = above[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substitute});
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) &&
          same(a[i - 2], b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[columns - 1];
}

// The nearest of `candidates` within a third of the word's length (at least one
// edit); "" where none is that near. Ties go to the first in order.
// `Candidates` is any range of things convertible to absl::string_view.
template <typename Candidates>
std::string Nearest(absl::string_view word, const Candidates& candidates) {
  int best = std::max<int>(1, static_cast<int>(word.size()) / 3) + 1;
  absl::string_view nearest;
  for (const auto& candidate : candidates) {
    int distance = EditDistance(word, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return std::string(nearest);
}

// "; did you mean 'x'?" to append to a message, or "".
inline std::string DidYouMean(absl::string_view word,
                              const std::vector<std::string>& candidates) {
  std::string nearest = Nearest(word, candidates);
  if (nearest.empty()) return "";
  return absl::StrCat("; did you mean '", nearest, "'?");
}

}  // namespace weft

#endif  // WEFT_CORE_BASE_SUGGEST_H_
