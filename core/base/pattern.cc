#include "core/base/pattern.h"

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "re2/re2.h"

namespace weft {
namespace {

constexpr size_t kMaxPattern = 1000;

re2::StringPiece Piece(absl::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace

absl::StatusOr<Pattern> Pattern::Compile(absl::string_view text) {
  if (text.size() > kMaxPattern) {
    return MakeError(
        ErrorCode::kBadValue,
        absl::StrCat("a pattern of ", text.size(), " characters, at most ",
                     kMaxPattern, ": '", text.substr(0, 20), "...'"));
  }
  re2::RE2::Options options;
  options.set_log_errors(false);  // the status says it
  auto program = std::make_shared<const re2::RE2>(Piece(text), options);
  if (!program->ok()) {
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat("'", text, "' is not a regular expression: ",
                                  program->error()));
  }
  return Pattern(std::move(program));
}

bool Pattern::MatchesAll(absl::string_view text) const {
  return re2::RE2::FullMatch(Piece(text), *program_);
}

bool Pattern::MatchesPart(absl::string_view text) const {
  return re2::RE2::PartialMatch(Piece(text), *program_);
}

}  // namespace weft
