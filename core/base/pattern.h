// Regular expressions that a user writes: which parameters are not decayed,
// which passes are dumped, which nodes go to a device. Matching takes time in
// proportion to the text, whatever the pattern: no pattern can hang a run.
//
//   WEFT_ASSIGN_OR_RETURN(Pattern scope, Pattern::Compile("stage1/.*"));
//   scope.MatchesAll("stage1/fc1");    // the whole text
//   scope.MatchesPart("stage1/fc1");   // some part of it
//
// The syntax is RE2's: Perl's without what needs backtracking (references,
// look-ahead). RE2 stays behind this header.
//
// Threading: immutable, thread-safe; copies share the compiled program.
#ifndef WEFT_CORE_BASE_PATTERN_H_
#define WEFT_CORE_BASE_PATTERN_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace re2 {
class RE2;
}  // namespace re2

namespace weft {

class Pattern {
 public:
  // kBadValue with the reason where `text` is no regular expression, is longer
  // than 1000 characters or would take too much memory.
  static absl::StatusOr<Pattern> Compile(absl::string_view text);

  bool MatchesAll(absl::string_view text) const;
  bool MatchesPart(absl::string_view text) const;

 private:
  explicit Pattern(std::shared_ptr<const re2::RE2> program)
      : program_(std::move(program)) {}

  std::shared_ptr<const re2::RE2> program_;
};

}  // namespace weft

#endif  // WEFT_CORE_BASE_PATTERN_H_
