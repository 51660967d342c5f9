#include "core/graph/text_scanner.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace weft::text {

bool IsNameChar(char c) {
  return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '/' || c == '-';
}

bool IsWordChar(char c) {
  return absl::ascii_isalnum(c) || c == '_' || c == '.';
}

void Scanner::SkipSpace() {
  while (!AtEnd()) {
    if (absl::ascii_isspace(Peek())) {
      ++at_;
    } else if (Peek() == '/' && Peek(1) == '/') {
      while (!AtEnd() && Peek() != '\n') ++at_;
    } else {
      return;
    }
  }
}

bool Scanner::Take(char c) {
  SkipSpace();
  if (AtEnd() || Peek() != c) return false;
  ++at_;
  return true;
}

absl::Status Scanner::Expect(char c, absl::string_view where) {
  if (Take(c)) return absl::OkStatus();
  return Error(absl::StrCat("expected '", std::string(1, c), "' ", where,
                            ", found ", Found()));
}

absl::StatusOr<std::string> Scanner::QuotedString() {
  WEFT_RETURN_IF_ERROR(Expect('"', "to open a string"));
  size_t start = at_;
  while (!AtEnd() && Peek() != '"' && Peek() != '\n') {
    at_ += Peek() == '\\' ? 2 : 1;
  }
  if (AtEnd() || Peek() != '"') {
    return ErrorAt(start, "this string is not closed");
  }
  std::string out;
  if (!absl::CUnescape(text_.substr(start, at_ - start), &out)) {
    return ErrorAt(start, "this string has a bad escape");
  }
  ++at_;
  return out;
}

absl::StatusOr<int64_t> Scanner::Integer() {
  SkipSpace();
  size_t start = position();
  WEFT_ASSIGN_OR_RETURN(Number number, TakeNumber());
  if (!number.is_int) return ErrorAt(start, "expected an integer");
  return number.i;
}

absl::StatusOr<Number> Scanner::TakeNumber() {
  SkipSpace();
  size_t start = position();
  std::string text(TakeWhile([](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '+';
  }));
  Number number;
  if (text.empty()) {
    return Error(absl::StrCat("expected a number, found ", Found()));
  }
  if (text == "nan" && Peek() == '(') {
    WEFT_ASSIGN_OR_RETURN(number.f, NaNWithBits(start));
    return number;
  }
  if (text.find_first_not_of("-0123456789") == std::string::npos) {
    number.is_int = true;
    if (!absl::SimpleAtoi(text, &number.i)) {
      return ErrorAt(start, absl::StrCat("'", text, "' is no 64-bit integer"));
    }
    number.f = static_cast<double>(number.i);
    return number;
  }
  const char* end = text.data() + text.size();
  auto result = std::from_chars(text.data(), end, number.f);
  if (result.ec != std::errc() || result.ptr != end) {
    return ErrorAt(start, absl::StrCat("'", text, "' is no 64-bit number"));
  }
  if (std::isnan(number.f)) number.f = std::nan("");
  return number;
}

// After "nan": (0x7ff8000000000001).
absl::StatusOr<double> Scanner::NaNWithBits(size_t start) {
  Advance();
  std::string text(Word());
  uint64_t bits = 0;
  double value = 0;
  if (!absl::SimpleHexAtoi(text, &bits)) {
    return ErrorAt(start, "expected nan(0x...)");
  }
  std::memcpy(&value, &bits, sizeof(value));
  if (!std::isnan(value)) return ErrorAt(start, "these bits are no NaN");
  WEFT_RETURN_IF_ERROR(Expect(')', "after the bits of a NaN"));
  return value;
}

std::string Scanner::Found() const {
  if (AtEnd()) return "the end of the text";
  return absl::StrCat("'", absl::CHexEscape(text_.substr(at_, 1)), "'");
}

std::string Scanner::Where(size_t position) const {
  size_t line = 1;
  size_t column = 1;
  for (size_t i = 0; i < position && i < text_.size(); ++i) {
    column = text_[i] == '\n' ? 1 : column + 1;
    line += text_[i] == '\n';
  }
  return absl::StrCat(line, ":", column);
}

absl::Status Scanner::ErrorAt(size_t position, absl::string_view message,
                              ErrorCode code) const {
  return MakeError(code, absl::StrCat(Where(position), ": ", message));
}

absl::Status Scanner::TooMany(absl::string_view what, int64_t limit) const {
  return Error(absl::StrCat("more than ", limit, " ", what));
}

}  // namespace weft::text
