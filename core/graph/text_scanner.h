// Scanner: the characters of a graph's text, with positions and errors. The
// lowest layer of the parser: it knows words, numbers and strings, not graphs.
//
//   Scanner scan(text);
//   WEFT_RETURN_IF_ERROR(scan.Expect('{', "after the graph's name"));
//   WEFT_ASSIGN_OR_RETURN(int64_t dim, scan.Integer());
//
// Every error begins with "line:column: " and has the code kGraphSyntax unless
// the caller says otherwise.
//
// Threading: thread-compatible. Ownership: borrows the text.
#ifndef WEFT_CORE_GRAPH_TEXT_SCANNER_H_
#define WEFT_CORE_GRAPH_TEXT_SCANNER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/error.h"

namespace weft::text {

bool IsNameChar(char c);
bool IsWordChar(char c);

struct Number {
  bool is_int = false;  // written as one
  int64_t i = 0;        // only where is_int
  double f = 0;         // always
};

class Scanner {
 public:
  explicit Scanner(absl::string_view text) : text_(text) {}

  size_t position() const { return at_; }
  bool AtEnd() const { return at_ >= text_.size(); }
  // '\0' at the end.
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void Advance() { ++at_; }

  // Space and comments.
  void SkipSpace();

  // These skip space first.
  bool Take(char c);  // where it comes next
  absl::Status Expect(char c, absl::string_view where);
  // The longest run of characters that `accept` likes.
  template <typename F>
  absl::string_view TakeWhile(F accept) {
    SkipSpace();
    size_t start = at_;
    while (!AtEnd() && accept(Peek())) ++at_;
    return text_.substr(start, at_ - start);
  }
  absl::string_view Word() { return TakeWhile(IsWordChar); }
  absl::StatusOr<std::string> QuotedString();
  absl::StatusOr<int64_t> Integer();
  absl::StatusOr<Number> TakeNumber();

  // What comes next, for a message.
  std::string Found() const;
  // "line:column".
  std::string Where(size_t position) const;
  absl::Status ErrorAt(size_t position, absl::string_view message,
                       ErrorCode code = ErrorCode::kGraphSyntax) const;
  absl::Status Error(absl::string_view message) const {
    return ErrorAt(at_, message);
  }
  absl::Status TooMany(absl::string_view what, int64_t limit) const;

 private:
  absl::StatusOr<double> NaNWithBits(size_t start);

  absl::string_view text_;
  size_t at_ = 0;
};

}  // namespace weft::text

#endif  // WEFT_CORE_GRAPH_TEXT_SCANNER_H_
